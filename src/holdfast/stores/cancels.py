"""What is carried to its end though the calling task is cancelled, and whether it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.outlast import outlast

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

PATIENCE = 5.0  # seconds, of whoever has something else to do than to wait for a database that is away

_running = asyncio._get_running_loop  # noqa: SLF001 -- asks without raising, which would take longer than the call


def cancels() -> int:
    """Return how often the calling task has been asked to stop, and not been told to go on all the same.

    A store in memory is also driven by threads, which have no task.
    """
    loop = _running()
    task = None if loop is None else asyncio.current_task(loop)
    return 0 if task is None else task.cancelling()


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for *work* until it is done, even if this task is cancelled meanwhile: it may have been carried out.

    It is a task of its own, where the time limits of drivers still end what they are set for.
    """
    return await outlast(asyncio.ensure_future(work))


async def cancelled_after(work: Coroutine[Any, Any, T]) -> T:
    """Do as ``to_the_end``; if this task is cancelled meanwhile, ``CancelledError`` comes when *work* is done."""
    before = cancels()
    result = await to_the_end(work)
    if cancels() > before:
        raise asyncio.CancelledError
    return result


def leave(task: asyncio.Future[Any]) -> None:
    """Wait for *task* no more: what it raises in the end is nobody's concern."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


__all__ = ["PATIENCE", "cancelled_after", "cancels", "leave", "to_the_end"]
