"""Workers that are to end while the database of their queue is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import SQLTaskQueue, Task, TaskStatus, TaskWorker
from holdfast.stores.tasks import worker as workers
from holdfast.testing.contract.store_task_worker import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.servers import Server


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("now", [True, False], ids=["at_once", "with_grace"])
def test_worker_ends_while_its_database_is_away(
    kind: str, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, *, now: bool
) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    server = own_server(kind)

    async def main() -> None:
        async with ConnectionManager(server.create_database()) as manager, SQLTaskQueue(manager) as queue:
            done = asyncio.Event()

            async def handler(task: Task) -> None:
                server.kill()
                done.set()

            async def is_completed() -> bool:
                found = await queue.get(task_id)
                return found is not None and found.status is TaskStatus.COMPLETED

            task_id = await queue.enqueue("x")
            worker = TaskWorker(queue, {"default": handler}, grace=0.5, poll_interval=0.01)
            running = asyncio.ensure_future(worker.run())
            async with asyncio.timeout(30):
                await done.wait()
                worker.stop(now=now)
                await running
            await asyncio.to_thread(server.start)
            await until(is_completed)  # what was done is written when that can be

    asyncio.run(main())
