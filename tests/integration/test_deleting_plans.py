"""The plans of the statements that delete runs: who names a run as a child is found by an index, never by a walk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations.migrator import Migrator
from holdfast.workflows.queries import control_queries, retention_queries

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 4000
WANTED: dict[str, Any] = {
    "statuses": '["SUCCESS"]',
    "names": "[]",
    "any_name": 1,
    "from_ms": 0,
    "to_ms": 500,
    "cutoff_ms": 10_000,
}


async def _fill(manager: ConnectionManager, schema: str, *, analyse: bool) -> None:
    """Write runs that have ended, with records of which every second names a child."""
    mysql = manager.dialect is DialectName.MYSQL
    numbers = f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {RUNS}) SELECT i FROM c"
    if mysql:
        numbers = f"SELECT seq AS i FROM seq_1_to_{RUNS}"
    run_id = "CONCAT('r', n.i)" if mysql else "'r' || n.i"
    await manager.execute(
        f"INSERT INTO {schema}workflow_status (workflow_uuid, status, name, created_at, updated_at, completed_at) "
        f"SELECT {run_id}, 'SUCCESS', 'f', n.i, n.i, n.i FROM ({numbers}) AS n"
    )
    await manager.execute(
        f"INSERT INTO {schema}operation_outputs (workflow_uuid, function_id, function_name, identity, "
        f"child_workflow_id) SELECT {run_id}, 1, 's', '0', CASE WHEN n.i % 2 = 0 THEN {run_id} END "
        f"FROM ({numbers}) AS n"
    )
    for table in ("workflow_status", "operation_outputs") if analyse else ():
        await manager.execute(f"ANALYZE {'TABLE ' if mysql else ''}{schema}{table}")


async def _explained(manager: ConnectionManager, text: str, values: Any) -> str:
    backend = manager.backend()
    if not isinstance(backend, PooledBackend):
        return "\n".join(row["detail"] for row in await manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values))
    session = await backend.connect()
    try:
        if manager.dialect is DialectName.MYSQL:
            return "\n".join(str(row) for row in await session.fetch(f"EXPLAIN {text}", values))
        return "\n".join(row["QUERY PLAN"] for row in await session.fetch(f"EXPLAIN {text}", values))
    finally:
        await session.close()


async def _plans(url: str, *, analyse: bool) -> dict[str, str]:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        await _fill(manager, "holdfast." if manager.dialect is DialectName.POSTGRES else "", analyse=analyse)
        retention = retention_queries(manager.dialect, "holdfast")
        control = control_queries(manager.dialect, "holdfast")
        ids = [(f"r{number}",) for number in range(100)]
        calls = {
            "retention_walk": retention["retention_walk"].bind(WANTED),
            "retention_delete": retention["retention_delete"].batch(
                [(each, "SUCCESS") for (each,) in ids], {"cutoff_ms": 10_000}
            ),
            "runs_named": control["runs_named"].batch(ids, {}),
            "runs_delete": control["runs_delete"].batch(ids, {}),
        }
        return {name: await _explained(manager, *call) for name, [call, *_] in calls.items()}


@pytest.mark.parametrize("analyse", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_runs_that_name_a_child_are_found_by_its_index(
    fresh_database: Callable[[str], str], kind: str, *, analyse: bool
) -> None:
    for name, plan in asyncio.run(_plans(fresh_database(kind), analyse=analyse)).items():
        assert "idx_operation_outputs_child" in plan, f"{name} does not find records by their children:\n{plan}"
        assert "Seq Scan on operation_outputs" not in plan, f"{name} walks the records:\n{plan}"
        assert "SCAN o" not in plan, f"{name} walks the records:\n{plan}"
