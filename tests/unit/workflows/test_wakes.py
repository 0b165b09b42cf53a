"""Who is woken: nobody by an executor that closes, on connections that it is about to end."""

from __future__ import annotations

import asyncio

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.workflows.parking import Wakes, parking_queries


def test_run_that_ends_after_the_wakes_have_stopped_begins_no_work() -> None:
    async def scene() -> None:
        manager = ConnectionManager("sqlite://")
        wakes = Wakes(manager, parking_queries(manager.dialect, SCHEMA), lambda: None)
        await wakes.stop()
        wakes.put_away("waits", may_have_come=True)
        wakes.ended("child")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scene())
