"""Waiting for what goes on whether its task is cancelled or not: a commit that was asked for."""

from __future__ import annotations

import asyncio
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from contextvars import Context

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
            with suppress(Exception, asyncio.CancelledError):  # the future's own error is raised in *work* itself
                yield None if waits_for is None else _Deaf(waits_for)
    finally:
        steps.close()


class _Deaf:
    """A future as a task waits for it that must not cancel it: asked to, it agrees, and does nothing.

    asyncio waits for anything that behaves like a future.
    """

    __slots__ = ("_asyncio_future_blocking", "_future")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future
        future._asyncio_future_blocking = False  # noqa: SLF001 -- what a task does with a future that it is given
        self._asyncio_future_blocking = True

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future.get_loop()

    def add_done_callback(self, call: Callable[[asyncio.Future[Any]], object], *, context: Context) -> None:
        self._future.add_done_callback(call, context=context)

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 -- asyncio's signature
        return True
