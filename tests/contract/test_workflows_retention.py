"""Retention, held to its contract on every database, beside runs of both colours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast import Holdfast
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.model.world import RealWorld
from holdfast.testing.contract.workflows_retention import RetentionContract
from holdfast.testing.contract.workflows_retention_concurrent import ConcurrentRetentionContract
from holdfast.workflows.retention import Pruner, Retention, retention_queries

if TYPE_CHECKING:
    from collections.abc import Callable


class TestRetention(RetentionContract, ConcurrentRetentionContract):
    """One suite, every shared column of the table in ``conftest``."""


def test_run_that_somebody_holds_is_left_for_the_next_time_on_postgres(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    app = Holdfast(url)

    @app.workflow
    def nothing() -> None:
        """End at once."""

    with app:
        handles = [nothing.start() for _ in range(3)]
        for each in handles:
            each.result()

    async def scene() -> None:
        async with ConnectionManager(url) as manager, ConnectionManager(url) as holder:
            pruner = Pruner(manager, retention_queries(manager.dialect, SCHEMA), RealWorld())
            async with holder.transaction() as held, asyncio.timeout(20):
                await held.fetch(
                    "SELECT 1 FROM holdfast.workflow_status WHERE workflow_uuid = ? FOR UPDATE", handles[1].workflow_id
                )
                report = await pruner.prune([Retention(older_than=0)])
                assert (report.matched, report.deleted) == (3, 2)
            report = await pruner.prune([Retention(older_than=0)])
            assert (report.matched, report.deleted) == (1, 1)

    asyncio.run(scene())
