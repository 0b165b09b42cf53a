"""A worker of the idempotency tests: claims keys together with others, ends them, and may die while it does.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from contextlib import AsyncExitStack

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, IdempotencyStore, RedisIdempotencyStore, RedisLink
from holdfast.testing.program import commands, say

SETTINGS = json.loads(sys.argv[1])


async def race(store: IdempotencyStore, rounds: int, claimers: int) -> None:
    """Claim one key after the other, with many tasks at once; say which were won here."""
    won = []
    for number in range(rounds):
        loop = asyncio.get_running_loop()
        claims = [
            loop.create_task(store.try_claim(f"race-{number}", "f"), context=contextvars.Context())
            for _ in range(claimers)
        ]
        won += [number] * sum(await asyncio.gather(*claims))
    say("won", won)


async def work(store: IdempotencyStore, number: int, lease: float) -> None:
    """Do what the key is for, unless somebody has done it or is at it."""
    claim = await store.claim("k", "f", lease_seconds=lease)
    if claim.won:
        await store.store_result("k", SETTINGS["name"])
    say("answer", number, claim.state, claim.result and claim.result["response_data"])


async def main() -> None:
    async with AsyncExitStack() as stack:
        store: IdempotencyStore
        if SETTINGS["url"].startswith("redis"):
            store = RedisIdempotencyStore(await stack.enter_async_context(RedisLink(SETTINGS["url"])))
        else:
            store = DBIdempotencyStore(await stack.enter_async_context(ConnectionManager(SETTINGS["url"])))
        await stack.enter_async_context(store)
        for point in SETTINGS.get("faults", ()):
            faults.arm(point)
        say("ready")
        async for verb, *given in commands():
            await (race if verb == "race" else work)(store, *given)


if __name__ == "__main__":
    asyncio.run(main())
