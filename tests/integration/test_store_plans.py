"""The plans of the stores' batches on PostgreSQL: each row is found by its key, though the table grew since."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.stores import DBExecutionStore, DBIdempotencyStore, SQLTaskQueue
from holdfast.stores.executions.queries import execution_queries
from holdfast.stores.idempotency.queries import idempotency_queries
from holdfast.stores.tasks.queries import tasks_queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.queries.queries import Queries, Query

SIZES = {"empty": 0, "small and analysed": 60}  # what a plan may have been made for that is used for a million rows
BATCHES: dict[Callable[..., Queries], tuple[str, ...]] = {
    execution_queries: ("executions_end", "executions_look"),
    idempotency_queries: ("keys_claim", "keys_claim_many", "keys_finish", "keys_extend", "keys_release", "keys_look"),
    tasks_queries: ("tasks_complete", "tasks_fail", "tasks_extend", "tasks_give_up", "tasks_look"),
}
VALUES: dict[str, dict[str, Any]] = {
    "tasks_fail": {"base_ms": 1, "cap_ms": 1, "owed_ms": 1},
    "tasks_give_up": {"owed_ms": 1},
}


def _rows(query: Query) -> list[tuple[Any, ...]]:
    assert query.rows is not None
    row = tuple("x" if column.type == "text" else 1 for column in query.rows)
    return [row, row]


async def _fill(manager: ConnectionManager, rows: int) -> None:
    executions, keys, tasks = DBExecutionStore(manager), DBIdempotencyStore(manager), SQLTaskQueue(manager)
    await tasks.initialize()
    for n in range(rows):
        await executions.record_start(f"r{n}")
        await keys.try_claim(f"k{n}", "f")
    await tasks.enqueue_many(range(rows))
    for store in (executions, keys, tasks):
        await store.close()
    if rows:
        await manager.execute("ANALYZE")


async def _plans(url: str, rows: int) -> dict[str, list[str]]:
    """Explain on a session like the pipeline's, which makes its plans once and for any values: whatever they are."""
    async with ConnectionManager(url) as manager:
        await _fill(manager, rows)
        backend = manager.backend()
        assert isinstance(backend, PooledBackend)
        session = await backend.connect_for_lookups()
        plans = {}
        for load, names in BATCHES.items():
            for name in names:
                query = load(DialectName.POSTGRES, "holdfast")[name]
                [(text, values)] = query.batch(_rows(query), VALUES.get(name, {}))
                await session.execute(f"PREPARE {name} AS {text}", ())
                given = ", ".join("NULL" for _ in values)
                plans[name] = [
                    row["QUERY PLAN"] for row in await session.fetch(f"EXPLAIN EXECUTE {name} ({given})", ())
                ]
        await session.close()
        return plans


@pytest.mark.parametrize("size", SIZES)
def test_batches_of_stores_find_each_row_by_its_key(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("postgres"), SIZES[size])).items():
        scans = [at for at, line in enumerate(plan) if "Scan" in line and " on holdfast_" in line]
        assert scans, f"{name} does not look into its table:\n{plan}"
        for at in scans:
            assert "_pkey on" in plan[at], f"{name} takes another index, the table is {size}:\n{plan}"
            assert "Index Cond" in plan[at + 1], f"{name} walks all keys, the table is {size}:\n{plan}"


async def _plan_of_all(url: str, *, analysed: bool) -> str:
    async with ConnectionManager(url) as manager:
        await DBExecutionStore(manager).initialize()
        await manager.execute(
            "INSERT INTO holdfast.holdfast_executions (run_id, workflow_id, status) SELECT 'r' || n, 'w' || n % 100, "
            "CASE WHEN n % 50 = 0 THEN 'pending' ELSE 'completed' END FROM generate_series(1, 20000) AS n"
        )
        if analysed:
            await manager.execute("ANALYZE holdfast.holdfast_executions")
        query = execution_queries(DialectName.POSTGRES, "holdfast")["executions_list_all"]
        *before, (text, values) = query.bind({"most": 50, "after": "r9999"})
        async with manager.transaction() as transaction:
            for told, _ in before:
                await transaction.fetch(told)
            rows = await transaction.session.fetch(f"EXPLAIN {text}", values)
        return "\n".join(row["QUERY PLAN"] for row in rows)


@pytest.mark.parametrize("analysed", [False, True])
def test_list_of_all_executions_reads_the_newest_of_each_status(
    fresh_database: Callable[[str], str], analysed: bool
) -> None:
    plan = asyncio.run(_plan_of_all(fresh_database("postgres"), analysed=analysed))
    assert "Index Scan Backward using idx_executions_status " in plan, plan
    assert plan.count("Sort Key") == 1, plan  # of what each status has brought
    assert "Seq Scan" not in plan, plan
