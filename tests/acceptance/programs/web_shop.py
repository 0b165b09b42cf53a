"""A web server of the idempotency tests: takes orders, notes each in a ledger outside of it, and may die at it.

It says its port on standard output and serves until it is killed. An order that has ``die`` in it kills the server that
takes it, once: after its claim, and before or after its effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from holdfast.web import IdempotencyMiddleware

SETTINGS = json.loads(sys.argv[1])
LEDGER = Path(SETTINGS["ledger"])


def note(name: str) -> None:
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{name}\n")


async def shop(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    order = json.loads((await receive())["body"])
    if order.get("die") == "before" and SETTINGS["mortal"]:
        os.kill(os.getpid(), signal.SIGKILL)
    note(order["name"])
    if order.get("die") == "after" and SETTINGS["mortal"]:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(order.get("takes", 0))
    body = json.dumps({"served by": SETTINGS["name"]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def main() -> None:
    app = IdempotencyMiddleware(shop, store=SETTINGS["url"], lease_seconds=SETTINGS["lease"])
    listener = socket.create_server(("127.0.0.1", 0))
    os.write(1, (json.dumps(["port", listener.getsockname()[1]]) + "\n").encode())
    config = uvicorn.Config(app, log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
