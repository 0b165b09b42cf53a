"""Waiting for what goes on though the task that waits is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db.outlast import outlast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def _cancelled_while(work: Awaitable[Any], *answer: Callable[[], object]) -> tuple[asyncio.Task[Any], int]:
    """Cancel a task that outlasts *work* before each part of the answer; return it, and how often it was cancelled."""

    async def wait() -> Any:
        return await outlast(work)

    task = asyncio.get_running_loop().create_task(wait())
    for part in answer:
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        part()
    await asyncio.wait([task])
    return task, task.cancelling()


def test_coroutine_hears_every_answer_however_often_its_task_is_cancelled() -> None:
    async def scene() -> None:
        first, second = asyncio.Future[int](), asyncio.Future[int]()

        async def work() -> int:
            found = await first
            await asyncio.sleep(0)
            return found + await second

        task, cancelled = await _cancelled_while(work(), lambda: first.set_result(1), lambda: second.set_result(2))
        assert (task.result(), cancelled) == (3, 2)

    asyncio.run(scene())


def test_error_that_is_answered_is_raised_where_it_was_waited_for() -> None:
    async def scene() -> None:
        answer, caught = asyncio.Future[int](), []

        async def work() -> str:
            try:
                await answer
            except OSError as error:
                caught.append(str(error))
                raise
            return "nothing"

        task, cancelled = await _cancelled_while(work(), lambda: answer.set_exception(OSError("gone")))
        assert (str(task.exception()), caught, cancelled) == ("gone", ["gone"], 1)

    asyncio.run(scene())


def test_future_that_is_cancelled_itself_is_over() -> None:
    async def scene() -> None:
        answer = asyncio.Future[int]()
        task, _ = await _cancelled_while(answer, answer.cancel)
        assert task.cancelled()

    asyncio.run(scene())


def test_what_never_waits_is_done_at_once() -> None:
    async def scene() -> None:
        async def work() -> int:
            return 7

        there = asyncio.Future[int]()
        there.set_result(8)
        assert (await outlast(work()), await outlast(there)) == (7, 8)

    asyncio.run(scene())


def test_task_that_was_cancelled_before_it_waited_waits_nevertheless() -> None:
    async def scene() -> None:
        answer = asyncio.Future[int]()

        async def wait() -> int:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return await outlast(answer)

        task = asyncio.get_running_loop().create_task(wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        answer.set_result(1)
        assert await task == 1

    asyncio.run(scene())


def test_work_is_closed_with_the_task_that_is_given_up() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("closed")

    async def waits() -> None:
        await outlast(work())

    async def scene() -> None:
        waiting = waits()
        waiting.send(None)
        waiting.close()

    asyncio.run(scene())
    assert ended == ["closed"]


@pytest.mark.parametrize("debug", [False, True])
def test_python_tasks_wait_as_those_of_c_do(*, debug: bool) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, work, **options: asyncio.tasks._PyTask(work, loop=loop, **options))  # type: ignore[attr-defined]
        answer = asyncio.Future[int]()
        task, cancelled = await _cancelled_while(answer, lambda: answer.set_result(5))
        assert (task.result(), cancelled) == (5, 1)

    asyncio.run(scene(), debug=debug)
