"""Bulk replay: letters a second beside what the handlers alone would take.

Promised: a replay of 10,000 letters is limited by its handlers. Measured with handlers that do nothing, which is what
we cost ourselves, and with handlers that take a while, so many at once, beside the most they could do by themselves.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from dead_letters import WHERE, opened, places
from yard.machine import load
from yard.options import Options
from yard.table import print_table

from holdfast.model.world import RealWorld
from holdfast.resilience.replay import Manner, Replayer, Selection

if TYPE_CHECKING:
    from holdfast.stores import AsyncFailedOperationRepository

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


async def _measure(url: str, number: int, rounds: int) -> list[tuple[float, float]]:
    """Return the best of some rounds for each case, ours and the handlers alone."""
    found = []
    async with AsyncExitStack() as stack:
        letters = await opened(url, stack)
        for seconds, concurrency in _CASES:
            rates = [
                (await _rate(letters, number, seconds, concurrency), await _alone(number, seconds, concurrency))
                for _ in range(rounds)
            ]
            found.append((max(ours for ours, _ in rates), max(alone for _, alone in rates)))
    return found


def main() -> None:
    """Measure and print."""
    options = Options(__doc__, databases=WHERE)
    options.number("letters", 10_000, "letters of a replay")
    options.number("rounds", 2, "rounds of each case, of which the best counts")
    given = options.parse_args()
    table = []
    with places(*given.databases) as urls:
        for name, url in urls.items():
            found = asyncio.run(_measure(url, given.letters, given.rounds))
            for (seconds, concurrency), (ours, alone) in zip(_CASES, found, strict=True):
                case = f"{name}, {seconds * 1000:g} ms, {concurrency} at once"
                table.append([case, round(ours), round(alone), ours / alone, load()])
    columns = ["handlers", "letters/s", "handlers alone", "share", "load"]
    print_table(f"Replay of {given.letters:,} letters", columns, table)


if __name__ == "__main__":
    main()
