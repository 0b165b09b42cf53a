"""The plans of listings: under any one filter an index leads to the page, whatever the size of the table.

No page is made by sorting a table, or by walking all of it: what is asked for is in the order of a listing, or is few.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations.migrator import Migrator
from holdfast.workflows.looking import Filters, looking_queries
from holdfast.workflows.looking.conditions import conditions, halves, narrowings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Explain = Callable[[ConnectionManager, str, Any], Awaitable[str]]

KEY = "by its key"
SIZES = {"empty": (0, False), "small and never analysed": (500, False), "large and analysed": (20_000, True)}
# Each filter, and the index that leads to its page: one in the order of a listing, or one that leads to few runs.
SINGLE: list[tuple[dict[str, Any], str]] = [
    ({}, "created_at_index"),
    ({"workflow_ids": "r1"}, KEY),
    ({"workflow_ids": ["r1", "r2"]}, KEY),
    ({"workflow_id_prefix": "r1"}, KEY),
    ({"status": "ERROR"}, "list_status"),
    ({"status": "PENDING"}, "owner"),
    ({"name": "x"}, "list_name"),
    ({"class_name": "x"}, "list_class"),
    ({"config_name": "x"}, "list_config"),
    ({"application_version": "x"}, "list_version"),
    ({"application_id": "x"}, "list_application"),
    ({"application_id": ["x", "y"]}, "list_application"),
    ({"executor_id": "x"}, "list_executor"),
    ({"authenticated_user": "x"}, "list_user"),
    ({"assumed_role": "x"}, "list_role"),
    ({"queue_name": "x"}, "list_queue"),
    ({"queue_partition_key": "x"}, "list_partition"),
    ({"deduplication_id": "x"}, "dedup"),
    ({"parent_workflow_id": "x"}, "parent_workflow_id"),
    ({"forked_from": "x"}, "forked_from"),
    ({"priority": 1}, "list_priority"),
    ({"was_forked_from": True}, "list_forked"),
    ({"is_fork": True}, "list_forks"),
    ({"has_parent": True}, "parent_workflow_id"),
    ({"has_deadline": True}, "list_deadline"),
    ({"queues_only": True}, "list_waiting"),
    ({"min_recovery_attempts": 1}, "list_attempts"),
    ({"created_after": 5}, "created_at_index"),
    ({"created_before": 5}, "created_at_index"),
    ({"started_after": 5}, "list_updated"),
    ({"started_before": 5}, "created_at_index"),
    ({"completed_after": 5}, "list_updated"),
    ({"completed_before": 5}, "created_at_index"),
    ({"updated_after": 5}, "list_updated"),
    ({"updated_before": 5}, "created_at_index"),
]


async def _fill(manager: ConnectionManager, schema: str, rows: int, *, analyse: bool) -> None:
    numbers = "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) SELECT i FROM c) AS n"
    rarely = "CASE WHEN n.i % 10 = 0 THEN 'y' END"
    status = "CASE WHEN n.i % 100 = 0 THEN 'PENDING' WHEN n.i % 20 = 1 THEN 'ERROR' ELSE 'SUCCESS' END"
    await manager.execute(
        f"INSERT INTO {schema}workflow_status (workflow_uuid, status, name, class_name, config_name, executor_id, "
        "application_version, authenticated_user, assumed_role, queue_name, queue_partition_key, parent_workflow_id, "
        f"forked_from, created_at, updated_at, incarnation) SELECT 'r' || n.i, {status}, 'f' || n.i % 9, "
        f"{', '.join([rarely] * 2)}, 'e' || n.i % 9, 'v' || n.i % 9, {', '.join([rarely] * 6)}, n.i, n.i, 'one' "
        f"FROM {numbers}",
        rows,
    )
    if analyse:
        await manager.execute(f"ANALYZE {schema}workflow_status")


async def _plans(url: str, size: str, explain: Explain) -> dict[str, tuple[str, str]]:
    """Return the plan of each listing and of its probe, if it has one, and the index that is to be in it."""
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        rows, analyse = SIZES[size]
        if rows:
            await _fill(manager, "holdfast." if manager.dialect is DialectName.POSTGRES else "", rows, analyse=analyse)
        queries = looking_queries(manager.dialect, "holdfast")
        plans = {}
        for given, index in SINGLE:
            filters = Filters(**given)
            narrow = _fitted(manager, narrowings(filters))
            values = _fitted(manager, conditions(filters) | halves(filters))
            if narrow:
                values |= {**narrow, "narrow": True}
                *_, (text, args) = queries["runs_probe"].bind(
                    {**narrow, "partial": "prefix_from" not in narrow, "most": 9}
                )
                plans[f"probe of {given}"] = await explain(manager, text, args), index
            for query in ("runs_newest", "runs_oldest"):
                *_, (text, args) = queries[query].bind({**values, "most": 51})
                plans[f"{query} {given}"] = await explain(manager, text, args), index
        return plans


def _may_differ(index: str) -> set[str]:
    """Return for which tables another index is as good: for an empty one all are, and a small one may be sorted."""
    return {"empty", "small and never analysed"} if index == "created_at_index" else {"empty"}


def _fitted(manager: ConnectionManager, values: dict[str, Any]) -> dict[str, Any]:
    """Return lists as this database takes them."""
    if manager.dialect is DialectName.POSTGRES:
        return values
    return {name: str(value).replace("'", '"') if isinstance(value, list) else value for name, value in values.items()}


async def _explain_postgres(manager: ConnectionManager, text: str, values: Any) -> str:
    backend = manager.backend()
    assert isinstance(backend, PooledBackend)
    session = await backend.connect_for_lookups()
    try:
        return "\n".join(row["QUERY PLAN"] for row in await session.fetch(f"EXPLAIN {text}", values))
    finally:
        await session.close()


async def _explain_sqlite(manager: ConnectionManager, text: str, values: Any) -> str:
    rows = await manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values)
    return "\n".join(row["detail"] for row in rows)


@pytest.mark.parametrize("size", SIZES)
def test_postgres_lists_by_the_index_of_the_filter(fresh_database: Callable[[str], str], size: str) -> None:
    for what, (plan, index) in asyncio.run(_plans(fresh_database("postgres"), size, _explain_postgres)).items():
        assert "Seq Scan" not in plan, f"{what} walks a table that is {size}:\n{plan}"
        named = "workflow_status_pkey" if index == KEY else f"_{index}"
        assert named in plan or size in _may_differ(index), f"{what} does not use {named}, the table is {size}:\n{plan}"


@pytest.mark.parametrize("size", SIZES)
def test_sqlite_lists_by_the_index_of_the_filter(fresh_database: Callable[[str], str], size: str) -> None:
    for what, (plan, index) in asyncio.run(_plans(fresh_database("sqlite"), size, _explain_sqlite)).items():
        walks = [line for line in plan.splitlines() if line.startswith("SCAN w") and "USING" not in line]
        assert not walks, f"{what} walks a table that is {size}:\n{plan}"
        named = "sqlite_autoindex_workflow_status_1" if index == KEY else f"_{index}"
        assert named in plan or size in _may_differ(index), f"{what} does not use {named}, the table is {size}:\n{plan}"
