"""Running a loop on the thread that waits: for short work, where waking another thread would take the longest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_ROUNDS = 3  # of the loop until the end of a connection has come through: noticed, passed on, told


class DrivenLoop(asyncio.SelectorEventLoop):
    """A loop for a thread that may be interrupted anywhere: what interrupts a callback is passed on to who drives it.

    asyncio would log it and go on, and its thread might wait for ever for what the callback was to do.
    """

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Raise what is no mere error; log the rest."""
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, Exception | asyncio.CancelledError):
            raise error
        super().call_exception_handler(context)


def drive(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end on *loop*, which runs only meanwhile.

    It has no task, which spares it rounds of the loop: so it may wait for plain futures alone, without
    ``asyncio.timeout``, as the statements of asyncpg do. An interrupt of this thread ends it where it waits.
    """
    waits_for: asyncio.Future[Any] | None = None
    try:
        while True:
            waits_for = work.send(None)
            waits_for._asyncio_future_blocking = False  # noqa: SLF001 -- what a task does with a future that it is given
            waits_for.add_done_callback(lambda _: loop.stop())
            while not waits_for.done():
                _run(loop)
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    except BaseException:
        if waits_for is not None:
            waits_for.cancel()
        work.close()
        raise


def drive_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run *work*, which may be anything, to its end as a task of *loop*, which runs only meanwhile.

    An interrupt of this thread cancels it and waits until it has ended: nothing is left behind.
    """
    task = loop.create_task(_stopping(loop, work))
    try:
        while not task.done():
            _run(loop)
    finally:
        if not task.done():
            task.add_done_callback(lambda _: loop.stop())  # for one that has not begun
            task.cancel()
            while not task.done():
                _run(loop)
            work.close()
    return task.result()


def hear(loop: asyncio.AbstractEventLoop) -> None:
    """Let *loop*, which was at rest, hear what was said to it meanwhile."""
    for _ in range(_ROUNDS):
        loop.stop()
        _run(loop)


async def _stopping(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Stop the loop together with *work*: to be told of its end the loop would go round once more."""
    try:
        return await work
    finally:
        loop.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop* until it is stopped, on a thread that may have another one, which its caller blocks anyway."""
    outer = asyncio._get_running_loop()  # noqa: SLF001 -- documented for those who run loops
    if outer is None:
        loop.run_forever()
        return
    asyncio._set_running_loop(None)  # noqa: SLF001 -- the same
    try:
        loop.run_forever()
    finally:
        asyncio._set_running_loop(outer)  # noqa: SLF001 -- the same
