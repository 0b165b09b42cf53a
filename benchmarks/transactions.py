"""A transaction step with one UPDATE beside a plain step, in one run.

Promised: in the application's own database a transaction costs at most 1.5 times a plain step, one after the other.
Many at once are measured, not promised: steps share their commits then, and every transaction has its own.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from yard.databases import SQL, databases
from yard.options import Options
from yard.table import print_table

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import ConnectionManager

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_STEPS = 60
_AT_ONCE = 20


async def _counters(url: str) -> None:
    """Make a table with a counter for each of those who count at once."""
    async with ConnectionManager(url) as manager:
        await manager.execute("CREATE TABLE counters (id INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL)")
        for number in range(_AT_ONCE):
            await manager.execute("INSERT INTO counters VALUES (?, 0)", number)


def _async_app(url: str) -> tuple[AsyncHoldfast, Callable[[str, int], Awaitable[None]]]:
    app = AsyncHoldfast(url)

    @app.step
    async def plain(number: int) -> int:
        return number

    @app.transaction
    async def counted(tx: Any, number: int) -> int:
        return int(await tx.execute("UPDATE counters SET n = n + 1 WHERE id = ?", number))

    @app.workflow
    async def steps(kind: str, number: int) -> None:
        for _ in range(_STEPS):
            await (plain(number) if kind == "plain" else counted(number))

    return app, steps


def _sync_app(url: str) -> tuple[Holdfast, Callable[[str, int], None]]:
    app = Holdfast(url, name="blocking")

    @app.step
    def plain(number: int) -> int:
        return number

    @app.transaction
    def counted(tx: Any, number: int) -> int:
        return int(tx.execute("UPDATE counters SET n = n + 1 WHERE id = ?", number))

    @app.workflow
    def steps(kind: str, number: int) -> None:
        for _ in range(_STEPS):
            plain(number) if kind == "plain" else counted(number)

    return app, steps


async def _one_by_one(steps: Callable[[str, int], Awaitable[None]], kind: str) -> float:
    """Milliseconds of one step among others of its kind."""
    begun = time.perf_counter()
    await steps(kind, 0)
    return (time.perf_counter() - begun) * 1000 / _STEPS


async def _at_once(steps: Callable[[str, int], Awaitable[None]], kind: str) -> float:
    """Milliseconds of one step when many workflows do such steps side by side."""
    begun = time.perf_counter()
    await asyncio.gather(*(steps(kind, number) for number in range(_AT_ONCE)))
    return (time.perf_counter() - begun) * 1000 / (_STEPS * _AT_ONCE)


async def _compared(rounds: int, measure: Callable[[str], Awaitable[float]]) -> tuple[float, float]:
    """Return the best of a plain step and of a transaction, taken in turns: the rest is what else the machine did."""
    await measure("plain")
    await measure("transaction")
    taken = [(await measure("plain"), await measure("transaction")) for _ in range(rounds)]
    return min(plain for plain, _ in taken), min(transaction for _, transaction in taken)


async def _measure(url: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Return (plain, transaction) by measurement."""
    await _counters(url)
    app, steps = _async_app(url)
    found: dict[str, tuple[float, float]] = {}
    async with app:
        found["async, one by one"] = await _compared(rounds, partial(_one_by_one, steps))
        found[f"async, {_AT_ONCE} at once"] = await _compared(rounds, partial(_at_once, steps))
    return found


async def _measure_threads(url: str, rounds: int) -> dict[str, tuple[float, float]]:
    app, blocking = _sync_app(url)

    async def steps(kind: str, number: int) -> None:
        await asyncio.to_thread(blocking, kind, number)

    with app:
        return {
            "sync, one by one": await _compared(rounds, partial(_one_by_one, steps)),
            f"sync, {_AT_ONCE} at once": await _compared(rounds, partial(_at_once, steps)),
        }


def main() -> None:
    """Measure, and print a table."""
    options = Options(__doc__, databases=SQL)
    options.number("rounds", 15, "rounds in turn, of which the best counts")
    given = options.parse_args()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            found = asyncio.run(_measure(url, given.rounds)) | asyncio.run(_measure_threads(url, given.rounds))
            rows += [(name, measure, plain, own, own / plain) for measure, (plain, own) in found.items()]
    print_table(
        "Milliseconds of a step, and of a transaction with one UPDATE",
        ["database", "measure", "step", "transaction", "ratio"],
        rows,
    )


if __name__ == "__main__":
    main()
