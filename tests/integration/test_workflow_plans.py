"""The plans of the hot statements: a run is found by its key, whatever the size of the table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations.migrator import Migrator
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.queries.queries import Queries

SIZES = {  # how many rows there are, and whether PostgreSQL was told
    "empty": (0, False),
    "small and analysed": (60, True),
    "small and never analysed": (500, False),
    "large and analysed": (20_000, True),
}
HOT: dict[str, list[tuple[Any, ...]]] = {
    "step_record": [("r1", "t", 1, "s", "0", None, None, None, None, "portable_json", 0)],
    "step_record_new": [("r1", "t", 1, "s", "0", None, None, None, None, "portable_json", 0)],
    "run_finish": [("r1", "t", "SUCCESS", "1", None, "portable_json")],
    "run_hand_over": [("r1", "t")],
    "runs_progressed": [("r1", "t")],
    "runs_look": [("r1",)],
    "steps_look": [("r1", 1, "0")],
    "steps_of_runs": [("r1",)],
    "runs_deduplicated": [("q", "once")],
    "step_amend": [("r1", "t", 1, None, "r2")],
}
VALUES: dict[str, dict[str, Any]] = {"run_hand_over": {"internal_queue": "q", "begun": 1}}


async def _fill(manager: ConnectionManager, schema: str, rows: int, *, analyse: bool) -> None:
    numbers = "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) SELECT i FROM c) AS n"
    await manager.execute(
        f"INSERT INTO {schema}workflow_status (workflow_uuid, status, name, created_at, updated_at, owner_xid, "
        "incarnation) SELECT 'r' || n.i, CASE WHEN n.i % 2 = 0 THEN 'PENDING' ELSE 'SUCCESS' END, 'f', n.i, n.i, "
        f"'t' || n.i, 'one' FROM {numbers}",
        rows,
    )
    await manager.execute(
        f"INSERT INTO {schema}operation_outputs (workflow_uuid, function_id, function_name, identity) "
        f"SELECT 'r' || n.i, 1, 's', '0' FROM {numbers}",
        rows,
    )
    if analyse:
        await manager.execute(f"ANALYZE {schema}workflow_status")
        await manager.execute(f"ANALYZE {schema}operation_outputs")


async def _plans(
    url: str, size: str, explain: Callable[[ConnectionManager, str, Any], Awaitable[str]]
) -> dict[str, str]:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        postgres = manager.dialect is DialectName.POSTGRES
        rows, analyse = SIZES[size]
        if rows:
            await _fill(manager, "holdfast." if postgres else "", rows, analyse=analyse)
        queries: Queries = workflow_queries(manager.dialect, "holdfast")
        plans = {}
        for name, batch in HOT.items():
            if name in queries.sources:
                for rows_at_once in (1, 2):
                    ((text, values),) = queries[name].batch(batch * rows_at_once, VALUES.get(name, {}))
                    plans[f"{name} of {rows_at_once}"] = await explain(manager, text, values)
        return plans


async def _explain_postgres(manager: ConnectionManager, text: str, values: Any) -> str:
    """Explain on a session like the pipeline's, with the plan that it makes once, for any values."""
    backend = manager.backend()
    assert isinstance(backend, PooledBackend)
    session = await backend.connect_for_lookups()
    try:
        await session.execute("SET plan_cache_mode = force_generic_plan", ())
        await session.execute(f"PREPARE it AS {text}", ())
        given = ", ".join("NULL" for _ in values)
        return "\n".join(row["QUERY PLAN"] for row in await session.fetch(f"EXPLAIN EXECUTE it ({given})", ()))
    finally:
        await session.close()


async def _explain_sqlite(manager: ConnectionManager, text: str, values: Any) -> str:
    rows = await manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values)
    return "\n".join(row["detail"] for row in rows)


@pytest.mark.parametrize("size", SIZES)
def test_postgres_finds_runs_and_steps_by_key(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("postgres"), size, _explain_postgres)).items():
        assert "Seq Scan" not in plan, f"{name} walks a table that is {size}:\n{plan}"
        assert "Hash Join" not in plan, f"{name} hashes a table that is {size}:\n{plan}"
        assert "idx_workflow_status" not in plan, f"{name} walks a partial index, the table is {size}:\n{plan}"
        assert "_pkey" in plan, f"{name} uses no key:\n{plan}"
        assert "Index Cond" in plan, f"{name} walks all keys of a table that is {size}:\n{plan}"


@pytest.mark.parametrize("size", SIZES)
def test_sqlite_finds_runs_and_steps_by_key(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("sqlite"), size, _explain_sqlite)).items():
        assert "SCAN w" not in plan, f"{name} walks the runs of a table that is {size}:\n{plan}"
        assert "SCAN o" not in plan, f"{name} walks the steps of a table that is {size}:\n{plan}"
        assert "sqlite_autoindex" in plan, f"{name} uses no key:\n{plan}"
