"""A worker of the dead-letter tests: acquires together with others, ends replays early and late, and may die meanwhile.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
Where many are to die it forks them, with nothing open yet, so that each life begins anew and costs little.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.model.dead_letter import ReplayEnd
from holdfast.stores import (
    AsyncFailedOperationRepository,
    AsyncRedisDLQRepository,
    AsyncSQLFailedOperationRepository,
    RedisLink,
)
from holdfast.testing.program import commands, say

SETTINGS = json.loads(sys.argv[1])


async def race(letters: AsyncFailedOperationRepository, ids: list[str], acquirers: int) -> None:
    """Acquire one operation after the other, with many tasks at once; losers try to end it all the same."""

    async def one(entry: str) -> bool:
        taken = await letters.try_acquire_for_replay(entry, 9)
        if taken is None:
            assert not await letters.complete_replay(entry, False, note="too late", token="never had one")
            return False
        assert await letters.complete_replay(entry, True, "race", SETTINGS["name"])
        assert not await letters.complete_replay(entry, False, note="twice")
        return True

    won = []
    loop = asyncio.get_running_loop()
    for entry in ids:
        tries = [loop.create_task(one(entry), context=contextvars.Context()) for _ in range(acquirers)]
        won += [entry] * sum(await asyncio.gather(*tries))
    say("won", won)


async def drain(letters: AsyncFailedOperationRepository, limit: int) -> None:
    """Take what is due until nothing is left."""
    got: list[str] = []
    while taken := await letters.acquire_due(limit):
        got += [record.id for record in taken]
    say("took", got)


async def life(letters: AsyncFailedOperationRepository, name: str) -> None:
    """Do everything that writes, saying what was acknowledged."""
    for number in range(3):
        record = await letters.create("d", f"t{number}", retry_delay=0.001)
        say(name, "made", record.id)
    [first, second, third] = await letters.acquire_due()
    await letters.complete_replay(first.id, True)
    say(name, "resolved", first.id)
    await letters.complete_replay(second.id, False)
    await letters.archive_old_resolved(-1)
    say(name, "archived", first.id)
    await letters.purge_archived([first.id])
    await letters.bulk_update_status([second.id, third.id], "rejected")
    spare = await letters.create("d", "t")
    say(name, "made", spare.id)
    await letters.acquire_many([third.id, spare.id])
    assert await letters.complete_many([ReplayEnd(id=spare.id, token=None, success=True)]) == [True]
    say(name, "resolved", spare.id)
    await letters.compress_and_evict_oldest(1)


def lives() -> None:
    """Fork one life for each line, which dies where the line says; say the signal that ended it, or 0."""
    asyncio.run(_looked())  # so that everything is loaded
    while line := sys.stdin.readline():
        name, point, at = json.loads(line)
        child = os.fork()
        if child == 0:
            asyncio.run(_one_life(name, point, at))
            os._exit(0)
        say(name, "ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


async def _looked() -> None:
    async with AsyncExitStack() as stack:
        await (await opened(stack)).count_all()


async def _one_life(name: str, point: str, at: int) -> None:
    async with AsyncExitStack() as stack:
        letters = await opened(stack)
        faults.arm(point, at=at)
        await life(letters, name)


_DEEDS: dict[str, Any] = {"race": race, "drain": drain}


async def opened(stack: AsyncExitStack) -> AsyncFailedOperationRepository:
    """Return the repository, open until *stack* is left."""
    letters: AsyncFailedOperationRepository
    if SETTINGS["url"].startswith("redis"):
        letters = AsyncRedisDLQRepository(await stack.enter_async_context(RedisLink(SETTINGS["url"])))
    else:
        manager = await stack.enter_async_context(ConnectionManager(SETTINGS["url"]))
        letters = AsyncSQLFailedOperationRepository(manager)
    return await stack.enter_async_context(letters)


async def main() -> None:
    async with AsyncExitStack() as stack:
        letters = await opened(stack)
        say("ready")
        async for verb, *given in commands():
            await _DEEDS[verb](letters, *given)


if __name__ == "__main__":
    lives() if SETTINGS.get("lives") else asyncio.run(main())
