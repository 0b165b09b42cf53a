"""Which functions may work on tasks, and that what they return is done before their task is completed."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.db import ConnectionManager
from holdfast.errors import ConfigurationError, StoreError, TooLong
from holdfast.stores import SQLTaskQueue, SyncTaskWorker, Task, TaskWorker
from holdfast.testing.contract.store_task_worker import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


def yields(task: Task) -> Iterator[str]:
    yield task.task_id


async def yields_later(task: Task) -> AsyncIterator[str]:
    yield task.task_id


def worked_on(folder: Path, handler: Callable[[Task], Any], ended: str) -> dict[str, int]:
    """Have *handler* work on a task until it has *ended*; return how many tasks are in which status."""

    async def scene() -> dict[str, int]:
        async with ConnectionManager(folder / "tasks.db") as manager, SQLTaskQueue(manager) as queue:
            worker = TaskWorker(queue, {"default": handler}, poll_interval=0.01)
            running = asyncio.ensure_future(worker.run())
            await queue.enqueue("x", max_attempts=1)

            async def has_ended() -> bool:
                return (await queue.get_stats())[ended] > 0

            await until(has_ended)
            worker.stop()
            await running
            return await queue.get_stats()

    return asyncio.run(scene())


def test_what_a_plain_function_returns_is_awaited(tmp_path: Path) -> None:
    done: list[str] = []

    async def send(task: Task) -> None:
        await asyncio.sleep(0)
        done.append(task.payload)

    @functools.wraps(send)
    def logged(task: Task) -> Any:
        return send(task)

    assert worked_on(tmp_path, logged, "completed")["completed"] == 1
    assert done == ["x"]


@pytest.mark.parametrize("make", [yields, yields_later])
def test_task_whose_handler_returns_a_generator_has_failed(tmp_path: Path, make: Any) -> None:
    def handler(task: Task) -> Any:
        return make(task)

    assert worked_on(tmp_path, handler, "dead_lettered")["completed"] == 0


@pytest.mark.parametrize("handler", [yields, yields_later, functools.partial(yields), None, "send"])
def test_handler_that_cannot_be_is_refused_where_the_worker_is_made(tmp_path: Path, handler: Any) -> None:
    queue = SQLTaskQueue(ConnectionManager(tmp_path / "tasks.db"))
    with pytest.raises(ConfigurationError, match="'mail'"):
        TaskWorker(queue, {"mail": handler})


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b"])
def test_worker_id_that_no_table_keeps_is_refused_where_the_worker_is_made(tmp_path: Path, name: str) -> None:
    queue = SQLTaskQueue(ConnectionManager(tmp_path / "tasks.db"))
    with pytest.raises((StoreError, TooLong), match="worker id"):
        TaskWorker(queue, {"mail": print}, worker_id=name)


def test_worker_of_an_application_for_threads_works_on_its_queue(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path / 'app.db'}") as app:
        tasks, seen = app.tasks, []

        def handler(task: Task) -> None:
            seen.append((task.payload, app.tasks.get_stats()["processing"]))  # a handler may use the application, too
            worker.stop()

        with pytest.raises(ConfigurationError, match="give it the queue's store, and SyncTaskWorker its portal"):
            TaskWorker(tasks, {"default": handler})  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"not on a str\.$"):
            TaskWorker("tasks.db", {"default": handler})  # type: ignore[arg-type]
        task_id = tasks.enqueue("x")
        worker = TaskWorker(tasks.store, {"default": handler})
        SyncTaskWorker(worker, tasks.portal).run()
        assert seen == [("x", 1)]
        found = tasks.get(task_id)
        assert found is not None
        assert found.status == "completed"
