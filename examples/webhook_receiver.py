"""A receiver of webhooks: the signature is checked, and each event is handled once, by its id.

Run it in any folder: ``python webhook_receiver.py``. Senders of webhooks (Stripe and others) deliver an event again
until they get an answer of 2xx, and sometimes twice for nothing. The signature is that of Stripe: a time and an
HMAC-SHA256 of time and body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import tempfile
import time
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore

SECRET = b"whsec_of_this_example"
TOLERANCE = 300  # seconds; an old signature may have been overheard

manager = ConnectionManager(f"sqlite:///{tempfile.mkdtemp()}/events.db")
store = DBIdempotencyStore(manager, ttl_seconds=7 * 86400)  # for so long an event may be delivered again
web = FastAPI()
BOOKS: list[str] = []


def signed(body: bytes, at: int) -> str:
    """Return the header that a sender puts on its request."""
    digest = hmac.new(SECRET, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def is_genuine(header: str, body: bytes, now: float) -> bool:
    """Whether the signature is the sender's, and fresh."""
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    at = parts.get("t", "")
    if not at.isdigit() or abs(now - int(at)) > TOLERANCE:
        return False
    return hmac.compare_digest(signed(body, int(at)), f"t={at},v1={parts.get('v1', '')}")


@web.post("/webhooks")
async def receive(request: Request) -> Response:
    body = await request.body()
    if not is_genuine(request.headers.get("stripe-signature", ""), body, time.time()):
        return Response("The signature is wrong.", status_code=400)
    event = json.loads(body)
    # The id of the event is its key: a second delivery has another signature, and perhaps other white space.
    claim = await store.claim(event["id"], fingerprint=event["type"])
    if claim.result is not None:
        return Response("Handled before.", status_code=200)
    if not claim.won:
        return Response("This event is being handled.", status_code=409)  # it will be delivered again
    try:
        await handle(event)
    except BaseException:
        await store.release_claim(event["id"])
        raise
    await store.store_result(event["id"], "handled")
    return Response("Handled.", status_code=200)


async def handle(event: dict[str, Any]) -> None:
    await asyncio.sleep(0.01)
    BOOKS.append(f"{event['type']} {event['id']}")


async def main() -> None:
    transport = httpx.ASGITransport(web)
    async with manager, store, httpx.AsyncClient(transport=transport, base_url="http://shop") as sender:

        async def deliver(event: dict[str, str], signature: str | None = None) -> httpx.Response:
            body = json.dumps(event).encode()
            headers = {"Stripe-Signature": signature or signed(body, int(time.time()))}
            return await sender.post("/webhooks", content=body, headers=headers)

        paid = {"id": "evt_1", "type": "invoice.paid"}
        print("First delivery:", (await deliver(paid)).text)
        print("Second delivery:", (await deliver(paid)).text)
        print("Forged:", (await deliver(paid, "t=1,v1=00")).text)
        refund = {"id": "evt_2", "type": "charge.refunded"}
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*(deliver(refund) for _ in range(3))))
        print("Three at once:", *statuses)
        print("Books:", ", ".join(BOOKS))


if __name__ == "__main__":
    asyncio.run(main())
