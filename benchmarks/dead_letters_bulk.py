"""Bulk replay: letters a second beside what the handlers alone would take.

Promised: a replay of 10,000 letters is limited by its handlers. Measured with handlers that do nothing, which is what
we cost ourselves, and with handlers that take a while, so many at once, beside the most they could do by themselves.

``python benchmarks/dead_letters_bulk.py [LETTERS [DATABASE ...]]``
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

from dead_letters import opened
from yard.databases import databases
from yard.machine import load
from yard.table import print_table

from holdfast.model.world import RealWorld
from holdfast.resilience.replay import Manner, Replayer, Selection
from holdfast.testing.servers import RedisServer

if TYPE_CHECKING:
    from holdfast.stores import AsyncFailedOperationRepository

_LETTERS = 10_000
_ROUNDS = 2
_CASES = ((0.0, 32), (0.001, 10), (0.001, 100), (0.02, 32))


async def _fill(letters: AsyncFailedOperationRepository, number: int) -> None:
    slots = asyncio.Semaphore(200)

    async def one() -> None:
        async with slots:
            await letters.create("d", "t", "boom", request_data={"x": "y" * 200})

    await asyncio.gather(*(one() for _ in range(number)))


async def _rate(letters: AsyncFailedOperationRepository, number: int, seconds: float, concurrency: int) -> float:
    """Return how many letters are replayed in a second."""

    async def handle(_: Any) -> None:
        if seconds:
            await asyncio.sleep(seconds)

    await _fill(letters, number)
    replayer = Replayer(letters, lambda _: handle, RealWorld())
    begun = time.perf_counter()
    report = await replayer.replay(Selection(domain="d"), Manner(concurrency=concurrency))
    took = time.perf_counter() - begun
    await replayer.close()
    assert report.replayed == number
    return number / took


async def _alone(number: int, seconds: float, concurrency: int) -> float:
    """Return how many handlers end in a second when nothing is written."""
    left = iter(range(number))

    async def one() -> None:
        for _ in left:
            await asyncio.sleep(seconds)

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(concurrency)))
    return number / (time.perf_counter() - begun)


async def _measure(url: str, number: int) -> list[tuple[float, float]]:
    """Return the best of some rounds for each case, ours and the handlers alone."""
    found = []
    async with AsyncExitStack() as stack:
        letters = await opened(url, stack)
        for seconds, concurrency in _CASES:
            rates = [
                (await _rate(letters, number, seconds, concurrency), await _alone(number, seconds, concurrency))
                for _ in range(_ROUNDS)
            ]
            found.append((max(ours for ours, _ in rates), max(alone for _, alone in rates)))
    return found


def main() -> None:
    """Measure and print."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else _LETTERS
    wanted = sys.argv[2:]
    with databases() as urls, ExitStack() as stack:
        every = {"memory": "memory", "redis": stack.enter_context(RedisServer()).url, **urls}
        table = []
        for name in wanted or every:
            for (seconds, concurrency), (ours, alone) in zip(
                _CASES, asyncio.run(_measure(every[name], number)), strict=True
            ):
                case = f"{name}, {seconds * 1000:g} ms, {concurrency} at once"
                table.append([case, round(ours), round(alone), ours / alone, load()])
        print_table(
            f"Replay of {number:,} letters", ["handlers", "letters/s", "handlers alone", "share", "load"], table
        )


if __name__ == "__main__":
    main()
