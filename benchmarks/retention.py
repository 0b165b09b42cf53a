"""Deleting 100,000 ended runs of five steps beside a running load.

Promised: throughput changes by less than 20 %.

The load is a hundred five-step workflows at once in the process that prunes, on the same connections, as an application
with a policy does it. Stretches with and without pruning alternate until all is deleted, or as many pairs of them as
``--pairs`` says. MariaDB: measured.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from yard.databases import SQL, databases
from yard.options import Options
from yard.table import print_table

from holdfast import AsyncHoldfast
from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.workflows.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_STEPS = 5
_AT_ONCE = 100
_STRETCH = 4.0
_POLICY = Retention(older_than=3600, name="old")

_TEN = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
_NUMBERS = "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n FROM " + ", ".join(
    f"({_TEN}) AS {alias}" for alias in "abcef"
)
_IDS = {
    DialectName.SQLITE: "printf('old-%08d-aaaa-bbbb-cccc-dddddddddddd', n)",
    DialectName.POSTGRES: "'old-' || lpad(n::text, 8, '0') || '-aaaa-bbbb-cccc-dddddddddddd'",
    DialectName.MYSQL: "CONCAT('old-', LPAD(n, 8, '0'), '-aaaa-bbbb-cccc-dddddddddddd')",
}


async def _fill(url: str, runs: int) -> None:
    """Write runs as they look long after their end."""
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        schema = f"{SCHEMA}." if manager.dialect is DialectName.POSTGRES else ""
        await manager.execute(
            f"INSERT INTO {schema}workflow_status (workflow_uuid, status, name, inputs, output, created_at, updated_at,"
            f" completed_at) SELECT {_IDS[manager.dialect]}, 'SUCCESS', 'old', '[[1, 2, 3], {{}}]', '42',"
            " 1700000000000 + n, 1700000000000 + n, 1700000000000 + n"
            f" FROM ({_NUMBERS}) AS numbers WHERE n < {runs}"
        )
        for step in range(1, _STEPS + 1):
            await manager.execute(
                f"INSERT INTO {schema}operation_outputs (workflow_uuid, function_id, function_name, identity, output)"
                f" SELECT workflow_uuid, {step}, 'add', '{step}', '42' FROM {schema}workflow_status WHERE name = 'old'"
            )


async def _load(workflow: Callable[[int], Awaitable[int]], seconds: float) -> float:
    """Return how many workflows a second end, a hundred at once."""
    begun, done = time.perf_counter(), 0

    async def task() -> None:
        nonlocal done
        while time.perf_counter() - begun < seconds:
            await workflow(1)
            done += 1

    await asyncio.gather(*(task() for _ in range(_AT_ONCE)))
    return done / (time.perf_counter() - begun)


async def _measure(url: str, runs: int, pairs: int | None) -> tuple[float, float, float]:
    """Return workflows a second without and with pruning, and how many runs are deleted a second."""
    await _fill(url, runs)
    app = AsyncHoldfast(url)

    @app.step
    async def add(a: int, b: int) -> int:
        return a + b

    @app.workflow
    async def five(x: int) -> int:
        for number in range(_STEPS):
            x = await add(x, number)
        return x

    without: list[float] = []
    during: list[float] = []
    deleted: list[int] = []
    all_gone = False
    async with app:
        await _load(five, _STRETCH)
        while not all_gone and len(during) != pairs:
            without.append(await _load(five, _STRETCH))
            so_far = [0]
            prune = asyncio.ensure_future(app.prune(_POLICY, progress=so_far.append))
            during.append(await _load(five, _STRETCH))
            all_gone = not prune.cancel()
            await asyncio.wait([prune])
            deleted.append(so_far[-1])
    whole = max(1, len(deleted) - all_gone)  # in the last stretch the deleting came to its end
    return (
        statistics.mean(without[:whole]),
        statistics.mean(during[:whole]),
        statistics.mean(deleted[:whole]) / _STRETCH,
    )


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.number("runs", 100_000, "runs that are deleted", allowed=range(1, 100_001))
    options.number("pairs", None, "stretches with and without pruning; until all is deleted if not given")
    given = options.parse_args()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            without, during, rate = asyncio.run(_measure(url, given.runs, given.pairs))
            rows.append((name, without, during, f"{during / without:.0%}", rate))
    columns = ["database", "without", "while pruning", "ratio", "deleted/s"]
    print_table(f"Five-step workflows a second while {given.runs:,} ended runs are deleted", columns, rows)


if __name__ == "__main__":
    main()
