"""A claim takes no more than it was asked for, whatever plan PostgreSQL makes of it.

A subquery that locks rows and skips locked ones finds others each time it is asked. In a nested loop it may be asked
again for every row, for instance while the tables are small, and a limit inside it limits nothing then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.stores import SQLTaskQueue
from holdfast.workflows.queues import queue_queries

if TYPE_CHECKING:
    from collections.abc import Callable

WHO = {
    "claim": "c",
    "incarnation": "i",
    "executor_id": "e",
    "application_version": "v",
    "versions": '["v"]',
    "caps": '{"f": 10}',
    "queue_name": "q",
    "suspects": 1,
}
CLAIMS: dict[str, dict[str, Any]] = {
    "queue_claim": {"unlimited": True},
    "queue_claim_by_priority": {"unlimited": True},
    "partition_claim": {"partition_key": "p"},
    "partition_claim_by_priority": {"partition_key": "p"},
}


async def _mislead(manager: ConnectionManager, table: str) -> None:
    """Have PostgreSQL join in nested loops, and take *table* for smaller than any subquery."""
    [row] = await manager.fetch("SELECT current_database() AS name")
    for what in ("hashjoin", "mergejoin", "indexscan", "bitmapscan", "material"):
        await manager.execute(f'ALTER DATABASE "{row["name"]}" SET enable_{what} = off')
    await manager.execute(f"ANALYZE {table}")


async def _enqueue(manager: ConnectionManager, first: int, last: int) -> None:
    await manager.execute(
        "INSERT INTO holdfast.workflow_status (workflow_uuid, status, name, created_at, updated_at, queue_name,"
        " queue_partition_key, application_version)"
        " SELECT 'w' || n, 'ENQUEUED', 'f', n, n, 'q', 'p', 'v' FROM generate_series(?::int, ?::int) AS n",
        first,
        last,
    )


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_runs_keep_to_their_number(name: str, fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        url = fresh_database("postgres")
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            await _enqueue(manager, 1, 1)
            await _mislead(manager, "holdfast.workflow_status")
            await _enqueue(manager, 2, 5)
        async with ConnectionManager(url) as manager:
            query = queue_queries(manager.dialect, "holdfast")[name]
            rows = await manager.fetch(query, **WHO, **CLAIMS[name], most=2)
            assert sorted(row["workflow_uuid"] for row in rows) == ["w1", "w2"]

    asyncio.run(main())


def test_claims_of_tasks_keep_to_their_number(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        url = fresh_database("postgres")
        async with ConnectionManager(url) as manager, SQLTaskQueue(manager) as queue:
            await queue.enqueue({"number": 0})
            await _mislead(manager, "holdfast.holdfast_task_queue")
            await queue.enqueue_many([{"number": number} for number in range(1, 5)])
        async with ConnectionManager(url) as manager, SQLTaskQueue(manager) as queue:
            taken = await queue.dequeue_many(2)
            assert [task.payload["number"] for task in taken] == [0, 1]
            stats = await queue.get_stats()
            assert (stats["pending"], stats["processing"]) == (3, 2)

    asyncio.run(main())
