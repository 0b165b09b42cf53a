"""The newest fifty of a million runs under each filter. Promised: under 20 ms on PostgreSQL and SQLite.

Each filter is asked for a value that is often, one that is rare and one that nobody has, before the database has looked
at its table and after. Then: what the indexes of listings cost a run, as the server's own time for batches of a hundred
that are started and finished, with all of them, without any, and with each of those that every run is written to;
where PostgreSQL is among the databases.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from yard.databases import SQL, databases
from yard.many_runs import EVERY_MS, FIRST_MS, analyse, fill
from yard.options import Options
from yard.table import print_table

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import Migrator
from holdfast.serialize import Serialization
from holdfast.workflows.looking import Filters, Looking, looking_queries
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import Iterator

_TURNS = 5
_PAGE = 50
_BATCHES = 30
_ROUNDS = 5
_EXHAUSTED = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
_EVERY_RUN = ("status", "name", "version", "application", "executor", "updated")
_TEXTS = (
    "name", "class_name", "config_name", "application_version", "application_id", "executor_id", "authenticated_user",
    "assumed_role", "queue_name", "queue_partition_key", "parent_workflow_id", "forked_from",
)  # fmt: skip


def _given(**filters: Any) -> Filters:
    return Filters(**filters)


def _filters(runs: int) -> Iterator[tuple[str, str, Filters]]:
    """Yield each filter, which kind of value it is given, and itself."""
    yield "none", "", Filters()
    for name in _TEXTS:
        for value in ("often", "rare", "nobody"):
            yield name, value, _given(**{name: value})
    for value, given in {"often": "often-", "rare": "rare-", "nobody": "x"}.items():
        yield "workflow_id_prefix", value, Filters(workflow_id_prefix=given)
        yield "attributes", value, Filters(attributes={"tenant": value})
    for value, status in {"often": "SUCCESS", "some": "ERROR", "rare": "CANCELLED", "nobody": _EXHAUSTED}.items():
        yield "status", value, Filters(status=status)
    yield "status", "pending", Filters(status="PENDING")
    for value, priority in {"often": 1, "rare": 9, "nobody": 7}.items():
        yield "priority", value, Filters(priority=priority)
    yield "deduplication_id", "rare", Filters(deduplication_id="d1001")
    yield "queues_only", "rare", Filters(queues_only=True)
    yield "has_parent", "often", Filters(has_parent=True)
    yield "is_fork", "some", Filters(is_fork=True)
    yield "was_forked_from", "rare", Filters(was_forked_from=True)
    yield "has_deadline", "rare", Filters(has_deadline=True)
    yield "min_recovery_attempts", "rare", Filters(min_recovery_attempts=1)
    for moment in ("created", "started", "completed", "updated"):
        for value, place in {"often": runs // 2, "rare": runs - 1000, "nobody": 2 * runs}.items():
            yield f"{moment}_after", value, _given(**{f"{moment}_after": FIRST_MS + place * EVERY_MS})
        for value, place in {"often": runs // 2, "rare": 1000, "nobody": 0}.items():
            yield f"{moment}_before", value, _given(**{f"{moment}_before": FIRST_MS + place * EVERY_MS})
    yield "search", "nobody", Filters(search="nobody")


async def _page_ms(looking: Looking, filters: Filters) -> float:
    """Return the median time of a page in milliseconds."""
    spans = []
    for _ in range(_TURNS):
        begun = time.perf_counter()
        await looking.list(filters, limit=_PAGE)
        spans.append((time.perf_counter() - begun) * 1000)
        if spans[-1] > 1000:
            break
    return statistics.median(spans)


async def _listings(url: str, runs: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the times by filter and value, before the table is analysed and after."""
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        await fill(manager, runs)
        looking = Looking(manager, looking_queries(manager.dialect, "holdfast"), Payloads(Serialization()))
        before = {(name, value): await _page_ms(looking, filters) for name, value, filters in _filters(runs)}
        await analyse(manager)
        after = {(name, value): await _page_ms(looking, filters) for name, value, filters in _filters(runs)}
        return {case: (before[case], after[case]) for case in before}


class _HotPath:
    """Starts and finishes runs on PostgreSQL by the engine's own statements, and reads the server process's clock."""

    def __init__(self, connection: asyncpg.Connection[Any], pid: int) -> None:
        self._connection = connection
        self._clock = Path(f"/proc/{pid}/schedstat")
        self._queries = workflow_queries(DialectName.POSTGRES, "holdfast")

    async def ms(self, batches: int = _BATCHES) -> float:
        """Return the server's milliseconds for a hundred runs, started and finished."""
        begun = self._now()
        for _ in range(batches):
            await self._hundred()
        return (self._now() - begun) / batches

    def _now(self) -> float:
        return int(self._clock.read_text().split()[0]) / 1e6

    async def _hundred(self) -> None:
        ids = [f"{time.time_ns():016x}-{uuid.uuid4()}" for _ in range(100)]
        inputs = '{"positionalArgs":[1],"namedArgs":{}}'
        nothing = (None,) * 6
        started = [
            (each, "flow", None, None, inputs, "portable_json", f"t{each}", None, "mark", *nothing, "v1")
            for each in ids
        ]
        who = {"application_id": "app", "executor_id": "host-1", "incarnation": "one"}
        ended = [(each, f"t{each}", "SUCCESS", "1", None, "portable_json") for each in ids]
        for text, values in [
            *self._queries["run_start"].batch(started, who),
            *self._queries["run_finish"].batch(ended),
        ]:
            await self._connection.execute(text, *values)


async def _index_costs(url: str) -> dict[str, float]:
    """Return the server's milliseconds for a hundred runs: without our indexes, with each, and with all."""
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
    connection = await asyncpg.connect(url)
    await connection.execute("SET synchronous_commit = off")
    path = _HotPath(connection, await connection.fetchval("SELECT pg_backend_pid()"))
    ours = "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE 'idx_workflow_status_list_%'"
    made = {name.removeprefix("idx_workflow_status_list_"): text for name, text in await connection.fetch(ours)}
    sets = {"none": [], **{name: [name] for name in _EVERY_RUN}, "all": list(made)}
    sets["those of few runs"] = [name for name in made if name not in _EVERY_RUN]
    await _drop(connection, list(made))
    taken: dict[str, list[float]] = {name: [] for name in sets}
    for _ in range(_ROUNDS):
        for name, indexes in sets.items():
            for index in indexes:
                await connection.execute(made[index])
            await path.ms(3)
            taken[name].append(await path.ms())
            await _drop(connection, indexes)
    await connection.close()
    return {name: statistics.median(spans) for name, spans in taken.items()}


async def _drop(connection: asyncpg.Connection[Any], names: list[str]) -> None:
    for name in names:
        await connection.execute(f"DROP INDEX holdfast.idx_workflow_status_list_{name}")


def main() -> None:
    """Print a table a database, then what the indexes cost."""
    options = Options(__doc__, databases=SQL)
    options.number("runs", 1_000_000, "runs in the table")
    given = options.parse_args()
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            times = asyncio.run(_listings(url, given.runs))
            print_table(
                f"{name}: the newest {_PAGE} of {given.runs:,} runs, milliseconds",
                ["filter", "value", "never analysed", "analysed"],
                [(*case, *spans) for case, spans in times.items()],
            )
    if "postgres" in given.databases:
        _print_index_costs()


def _print_index_costs() -> None:
    with databases("postgres") as urls:
        costs = asyncio.run(_index_costs(urls["postgres"]))
    print_table(
        "PostgreSQL's own time for 100 runs, started and finished, milliseconds",
        ["indexes of listings", "ms", "more than without"],
        [(name, spent, f"{100 * (spent / costs['none'] - 1):+.0f} %") for name, spent in costs.items()],
    )


if __name__ == "__main__":
    main()
