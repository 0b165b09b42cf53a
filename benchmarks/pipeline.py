"""The commit pipeline beside the raw driver doing the same durable writes, in one run.

Promised: at least 60 % of the raw group-commit rate at 1, 10, 100 and 500 writers on SQLite and PostgreSQL, at least
50 % on MariaDB; a lone write costs at most 1.5 times the raw single commit.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

from yard.databases import SQL, databases
from yard.options import Options
from yard.raw import raw_writer
from yard.table import alternating, print_table

from holdfast.db import ConnectionManager, Pipeline
from holdfast.testing.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yard.raw import Entry

    Write = Callable[[Entry], Awaitable[object]]

_NOTE = "x" * 100
_numbers = itertools.count()


def _entry() -> Entry:
    return f"entry-{next(_numbers):012d}", _NOTE, 1


async def _rate(write: Write, writers: int) -> float:
    """Entries a second with *writers* tasks that each wait for one entry before the next."""
    count = min(20_000, 600 * writers)
    turns = iter(range(count))

    async def task() -> None:
        for _ in turns:
            await write(_entry())

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(writers)))
    return count / (time.perf_counter() - begun)


async def _lone(write: Write) -> float:
    """Microseconds of one write, the median of many made one after the other."""
    spans = []
    for _ in range(300):
        begun = time.perf_counter()
        await write(_entry())
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans) * 1e6


async def _measure(name: str, url: str, rounds: int) -> list[tuple[object, ...]]:
    raw = raw_writer(url)
    await raw.open()
    rows: list[tuple[object, ...]] = []
    async with ConnectionManager(url) as manager:
        ledger = Ledger(manager.dialect)
        await ledger.create(manager)
        async with Pipeline(manager) as pipeline:

            async def ours(entry: Entry) -> object:
                return await pipeline.write(ledger, entry)

            await _rate(ours, 10)
            for writers in (1, 10, 100, 500):
                theirs, mine = await alternating(
                    rounds, partial(_rate, raw.put, writers), partial(_rate, ours, writers)
                )
                rows.append((name, writers, theirs, mine, f"{mine / theirs:.0%}"))
            single, lone = await alternating(rounds, lambda: _lone(raw.single), lambda: _lone(ours))
            rows.append((name, "lone, us", single, lone, f"{lone / single:.2f}x"))
    await raw.close()
    return rows


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.number("rounds", 5, "rounds in turn with the raw driver, whose median counts")
    given = options.parse_args()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            rows += asyncio.run(_measure(name, url, given.rounds))
    print_table("Durable writes a second", ["database", "writers", "raw driver", "pipeline", "ratio"], rows)


if __name__ == "__main__":
    main()
