"""Waiting for what goes on whether its task is cancelled or not, as a commit that was asked for; and for the first."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator

T = TypeVar("T")


@types.coroutine
def outlast(work: Awaitable[T]) -> Generator[Any, None, T]:
    """Return or raise the outcome of *work*, however often this task is cancelled meanwhile.

    That it was is seen by ``Task.cancelling()``. A coroutine runs in this task, which spares the loop the rounds that
    a task of its own would take; so ``asyncio.timeout``, which cancels the task, ends nothing in it.
    """
    steps = work.__await__()
    try:
        while True:
            try:
                waits_for = steps.send(None)
            except StopIteration as done:
                outcome: T = done.value
                return outcome
            try:
                yield None if waits_for is None else _Deaf(waits_for)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001, S112 -- *work* is told its future's own error
                continue
    finally:
        steps.close()


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of *waits* has ended, and end the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class _Deaf:
    """A future that a task may wait for but cannot cancel: ``cancel`` says yes and does nothing.

    asyncio waits for anything that behaves like a future.
    """

    __slots__ = ("_asyncio_future_blocking", "add_done_callback", "get_loop")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        future._asyncio_future_blocking = False  # noqa: SLF001 -- what a task does with a future that it is given
        self._asyncio_future_blocking = True
        self.add_done_callback = future.add_done_callback
        self.get_loop = future.get_loop

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 -- asyncio's signature
        return True
