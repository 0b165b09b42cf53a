"""Many runs that sleep at the same time in one process: what they cost, and how late they wake.

Promised: 100,000 sleeping runs in one process in bounded memory, on time when due.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import count
from pathlib import Path

from yard.databases import SQL, databases
from yard.options import Options
from yard.table import print_table

from holdfast import AsyncHoldfast

_AT_ONCE = 200


def _megabytes() -> float:
    """Return the memory this process holds, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


async def _measure(url: str, runs: int) -> list[object]:
    app = AsyncHoldfast(url, application_version="sleepers")
    late: list[float] = []
    done = asyncio.Event()

    @app.workflow
    async def sleeper(due: float) -> None:
        await app.sleep(max(0.0, due - (await app.now()).timestamp()))
        late.append(time.time() - due)
        if len(late) == runs:
            done.set()

    async with app:
        before = _megabytes()
        numbers, begun = count(), time.time()
        first, spread = begun + 20 + runs / 1000, runs / 600

        async def start() -> None:
            while (number := next(numbers)) < runs:
                await sleeper.start(first + spread * number / runs)

        await asyncio.gather(*(start() for _ in range(_AT_ONCE)))
        started = time.time() - begun
        while app._engine.runner.running:  # noqa: SLF001, ASYNC110 -- what is still held is the measurement
            await asyncio.sleep(0.1)
        asleep = _megabytes()
        await asyncio.wait_for(done.wait(), first + spread - time.time() + 600)
        late.sort()
        return [
            runs,
            f"{started:.0f}",
            f"{asleep - before:+.0f}",
            f"{statistics.median(late):.2f}",
            f"{late[int(len(late) * 0.99)]:.2f}",
            f"{late[-1]:.2f}",
        ]


def main() -> None:
    """Measure on each database and print a table."""
    options = Options(__doc__, databases=SQL)
    options.number("runs", 100_000, "runs that sleep")
    given = options.parse_args()
    with databases(*given.databases) as urls:
        rows = [[name, *asyncio.run(_measure(url, given.runs))] for name, url in urls.items()]
    print_table(
        "Sleeping runs in one process",
        ["database", "runs", "s to start them", "MB held asleep", "s late: p50", "p99", "most"],
        rows,
    )


if __name__ == "__main__":
    main()
