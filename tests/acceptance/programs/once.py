"""A worker of the idempotency tests: executes a durable workflow of ours once for a key, and may die at it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from holdfast import AsyncHoldfast, faults
from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, IdempotentExecutor
from holdfast.testing.program import commands, say

SETTINGS = json.loads(sys.argv[1])
app = AsyncHoldfast(SETTINGS["url"], lease=0.6, application_version="tested")


def note(what: str) -> None:
    with Path(SETTINGS["ledger"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{what}\n")


@app.step
async def charge(order: str) -> str:
    note(f"charge {order}")
    return f"charged {order}"


@app.step
async def ship(order: str) -> str:
    note(f"ship {order}")
    if order == "lost":
        raise ValueError(order)
    return f"shipped {order}"


@app.workflow
async def checkout(order: str) -> list[str]:
    return [await charge(order), await ship(order)]


async def execute(executor: IdempotentExecutor, order: str, key: str) -> None:
    try:
        results, run_id = await executor.execute(app, checkout, {"order": order}, key)
    except (RuntimeError, ValueError) as error:
        say("failed", order, type(error).__name__)
    else:
        say("done", order, results, run_id)


async def main() -> None:
    async with ConnectionManager(SETTINGS["url"]) as manager, app, DBIdempotencyStore(manager) as store:
        executor = IdempotentExecutor(store, lease_seconds=1.5, in_progress="wait")
        for point, at in SETTINGS.get("faults", ()):
            faults.arm(point, at=at)
        say("ready")
        async for command in commands():
            await execute(executor, *command)


if __name__ == "__main__":
    asyncio.run(main())
