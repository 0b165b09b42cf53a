"""A FastAPI endpoint that starts a workflow exactly once, however often its client sends the request.

Run it in any folder: ``python fastapi_checkout.py``. It plays server and client in one process. A client that got no
answer sends its request again, with the same Idempotency-Key: it gets the answer of the first, byte for byte.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from holdfast import AsyncHoldfast
from holdfast.web import IdempotencyMiddleware

FOLDER = Path(tempfile.mkdtemp())
DATABASE = f"sqlite:///{FOLDER}/shop.db"
CHARGES: list[str] = []  # the bank, which is somewhere else

durable = AsyncHoldfast(DATABASE)
web = FastAPI()
web.add_middleware(IdempotencyMiddleware, store=DATABASE, required=["/orders"])


class Order(BaseModel):
    """What a customer wants."""

    sku: str
    cents: int


@durable.step
async def charge(sku: str, cents: int) -> str:
    CHARGES.append(f"{sku} {cents}")
    await asyncio.sleep(0.05)
    return f"payment-{len(CHARGES)}"


@durable.workflow
async def checkout(sku: str, cents: int) -> str:
    return await charge(sku, cents)


@web.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, str]:
    payment, run_id = await durable.execute(checkout, {"sku": order.sku, "cents": order.cents})
    return {"payment": payment, "run": run_id}


async def main() -> None:
    transport = httpx.ASGITransport(web)
    async with durable, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        order = {"sku": "book", "cents": 1900}
        key = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}
        answers = await asyncio.gather(*(client.post("/orders", json=order, headers=key) for _ in range(5)))
        print("Five at once:", dict(sorted(Counter(answer.status_code for answer in answers).items())))
        again = await client.post("/orders", json=order, headers=key)
        print("Sent again:", again.status_code, "replayed:", again.headers["idempotency-replayed"])
        other = await client.post("/orders", json={"sku": "book", "cents": 1}, headers=key)
        print("Another order under the same key:", other.status_code, other.json()["title"])
        print("Without a key:", (await client.post("/orders", json=order)).status_code)
        print("The bank's ledger:", ", ".join(CHARGES))


if __name__ == "__main__":
    asyncio.run(main())
