"""The plans of claims: what waits is read in the order of its index, whatever else is in the table."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations.migrator import Migrator
from holdfast.workflows.queues import queue_queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.queries.queries import Queries

WHO: dict[str, Any] = {
    "claim": "c",
    "incarnation": "i",
    "executor_id": "e",
    "application_version": "v",
    "versions": '["v"]',
    "caps": '{"f": 10}',
    "queue_name": "q",
    "suspects": 1,
    "most": 200,
}
AFTER = {"queue_name": "q", "after": "t3", "most": 20}
# The index that each has to be read by. MariaDB has none for priorities within a partition.
CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "queue_claim": ({**WHO, "unlimited": True}, "idx_workflow_status_queue_age"),
    "queue_claim behind another": (  # on PostgreSQL alone
        {**WHO, "unlimited": True, "after_ms": 9_000_000, "after_id": "w2000"},
        "idx_workflow_status_queue_age",
    ),
    "queue_claim_by_priority": ({**WHO, "unlimited": True}, "idx_workflow_status_queue"),
    "partition_claim": ({**WHO, "partition_key": "t3"}, "idx_workflow_status_partition_age"),
    "partition_claim_by_priority": ({**WHO, "partition_key": "t3"}, "idx_workflow_status_partition"),
    "partitions_waiting": (AFTER, "idx_workflow_status_partition"),
    "queue_use": ({"queue_name": "q", "concurrency": 10, "period_ms": 1000}, "idx_workflow_status"),
    "queues_survey": ({"internal_queue": "_internal"}, "idx_workflow_status_queue"),
    "runs_due": ({"most": 500}, "idx_workflow_status_delayed"),
}
SIZES = ("empty", "full and never analysed", "full and analysed", "analysed before it was filled")


async def _fill(manager: ConnectionManager, runs: str, *, waiting: int, ended: int) -> None:
    mysql = manager.dialect is DialectName.MYSQL
    numbers = "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) SELECT i FROM c) AS n"
    if mysql:
        numbers = "(SELECT seq AS i FROM seq_1_to_100000 LIMIT ?) AS n"
    for prefix, status, moment, count in (("e", "SUCCESS", "n.i", ended), ("w", "ENQUEUED", "9000000", waiting)):
        run_id, key = (
            (f"CONCAT('{prefix}', n.i)", "CONCAT('t', n.i % 10)")
            if mysql
            else (f"'{prefix}' || n.i", "'t' || (n.i % 10)")
        )
        await manager.execute(
            f"INSERT INTO {runs} (workflow_uuid, status, name, created_at, updated_at, queue_name, "
            f"queue_partition_key, application_version) SELECT {run_id}, '{status}', 'f', {moment}, n.i, 'q', {key}, "
            f"'v' FROM {numbers}",
            count,
        )


async def _plans(url: str, size: str) -> dict[str, str]:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        runs = "holdfast.workflow_status" if manager.dialect is DialectName.POSTGRES else "workflow_status"
        analyse = f"ANALYZE {'TABLE ' if manager.dialect is DialectName.MYSQL else ''}{runs}"
        if size.startswith("analysed"):
            await _fill(manager, runs, waiting=1, ended=1000)
            await manager.execute(analyse)
            await manager.execute(f"DELETE FROM {runs}")
        if size != "empty":
            await _fill(manager, runs, waiting=3_000, ended=12_000)
        if size == "full and analysed":
            await manager.execute(analyse)
        queries = queue_queries(manager.dialect, "holdfast")
        names = [name for name in CLAIMS if "behind" not in name or manager.dialect is DialectName.POSTGRES]
        return {name: await _explain(manager, queries, name) for name in names}


async def _explain(manager: ConnectionManager, queries: Queries, name: str) -> str:
    """Explain the first statement; on PostgreSQL with the generic plan that a session would settle on."""
    text, values = queries[name.split(maxsplit=1)[0]].bind(CLAIMS[name][0])[0]
    backend = manager.backend()
    if not isinstance(backend, PooledBackend):
        return "\n".join(row["detail"] for row in await manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values))
    session = await backend.connect_for_lookups()
    try:
        if manager.dialect is DialectName.MYSQL:
            return "\n".join(str(row) for row in await session.fetch(f"EXPLAIN {text}", values))
        await session.execute("SET plan_cache_mode = force_generic_plan", ())
        return "\n".join(row["QUERY PLAN"] for row in await session.fetch(f"EXPLAIN {text}", values))
    finally:
        await session.close()


@pytest.mark.parametrize("size", SIZES)
def test_postgres_reads_what_waits_in_the_order_of_its_index(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("postgres"), size)).items():
        assert "Seq Scan on workflow_status" not in plan, f"{name} walks a table that is {size}:\n{plan}"
        assert CLAIMS[name][1] in plan, f"{name} uses another index, the table is {size}:\n{plan}"
        if "claim" in name:
            assert "Sort" not in plan, f"{name} sorts all that waits, the table is {size}:\n{plan}"
        if "behind" in name:
            found = re.search(r"Index Cond: .*ROW\(queue_name, created_at, .*workflow_uuid.*\) > ROW", plan)
            assert found, f"{name} reads what is before it, the table is {size}:\n{plan}"


@pytest.mark.parametrize("size", SIZES)
def test_sqlite_reads_what_waits_in_the_order_of_its_index(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("sqlite"), size)).items():
        assert CLAIMS[name][1] in plan, f"{name} uses another index, the table is {size}:\n{plan}"
        if "claim" in name:
            assert "TEMP B-TREE" not in plan, f"{name} sorts all that waits, the table is {size}:\n{plan}"


@pytest.mark.parametrize("size", SIZES)
def test_mariadb_reads_what_waits_in_the_order_of_its_index(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("mariadb"), size)).items():
        assert CLAIMS[name][1] in plan, f"{name} uses another index, the table is {size}:\n{plan}"
        if "claim" in name and name != "partition_claim_by_priority":
            assert "filesort" not in plan, f"{name} sorts all that waits, the table is {size}:\n{plan}"
        if name == "partitions_waiting" and size != "empty":
            assert "Using index for group-by" in plan, f"{name} reads every run, the table is {size}:\n{plan}"
