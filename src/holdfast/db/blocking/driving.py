"""Running a loop on the thread that waits: for short work, where waking another thread would take the longest."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.blocking.lines import Line

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Coroutine

T = TypeVar("T")

_ROUNDS = 3  # of the loop until the end of a connection has come through: noticed, passed on, told
_FAREWELLS = 20  # times of that many rounds, for what is cancelled to end
_WAITS = 64  # for answers until the loop has its turn
_WORDS = 16  # heard while one answer is waited for, until the loop has its turn


class DrivenLoop(asyncio.SelectorEventLoop):
    """A loop for a thread that may be interrupted anywhere: an interrupt of a callback is raised to whoever drives it.

    asyncio would log it and go on, and its thread might wait for ever for what the callback was to do. The first of its
    connections has a line: a thread that waits for an answer hears it without a round of the loop.

    *is_torn* once its thread was interrupted. That may have been in the middle of a driver's code, which would take the
    next answer for another one, or crash: the loop is then to be cut, and nothing of it to be used any more.
    """

    def __init__(self) -> None:
        super().__init__()
        self._line: Line | None = None
        self._connected: list[asyncio.Transport] = []
        self.is_torn = False
        self._waits = 0
        # What asyncio is to call next. Where it has no such inner part any more, every answer takes rounds of the loop.
        self._to_call: deque[asyncio.Handle] | None = getattr(self, "_ready", None)

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Do as asyncio does."""
        return self._lined(await super().create_connection(*args, **options))

    async def create_unix_connection(self, *args: Any, **options: Any) -> Any:
        """Do as asyncio does."""
        return self._lined(await super().create_unix_connection(*args, **options))

    def hears(self, answer: asyncio.Future[Any]) -> bool:
        """Wait a short while for *answer* on the line, while the loop rests; return whether it is there.

        What it has called soon has then been called, as by the loop. Now and then the loop has its turn all the same:
        it alone ends what is out of time, and puts away timeouts that were not needed.
        """
        line, to_call = self._line, self._to_call
        self._waits += 1
        if line is None or to_call is None or self._waits % _WAITS == 0:
            return answer.done()
        outer = asyncio._get_running_loop()  # noqa: SLF001 -- documented for those who run loops
        try:
            asyncio._set_running_loop(self)  # noqa: SLF001 -- the same
            for _ in range(_WORDS):
                if answer.done() or to_call or not line.hear():
                    break
                for _ in range(len(to_call)):  # what they call soon themselves is for the loop
                    to_call.popleft()._run()  # noqa: SLF001 -- what a loop does with it
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001 -- the same
        return answer.done()

    def cut(self) -> None:
        """End all connections at once, so that nothing is heard any more, then what waits for them, and the loop."""
        try:
            for transport in self._connected:
                transport.abort()
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            for _ in range(_FAREWELLS):
                hear(self)
                if all(task.done() for task in left):
                    break
        finally:
            self.close()

    def _lined(self, connected: tuple[asyncio.Transport, Any]) -> tuple[asyncio.Transport, Any]:
        transport = connected[0]
        if self._line is None or not self._line.is_open:
            self._line = Line.to(transport, self)
        self._connected = [each for each in self._connected if not each.is_closing()] + [transport]
        return connected

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Raise what is no mere error; log the rest."""
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, Exception | asyncio.CancelledError):
            raise error
        super().call_exception_handler(context)


def drive(loop: DrivenLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end on *loop*, which runs only meanwhile.

    It has no task, which spares it rounds of the loop: so it may wait for plain futures alone, without
    ``asyncio.timeout``, as the statements of asyncpg do. An interrupt of this thread ends it where it waits.
    """
    waits_for: asyncio.Future[Any] | None = None
    try:
        while True:
            waits_for = work.send(None)
            waits_for._asyncio_future_blocking = False  # noqa: SLF001 -- what a task does with a future that it is given
            loop.is_torn = True  # unless the answer comes
            if not loop.hears(waits_for):
                waits_for.add_done_callback(lambda _: loop.stop())
                while not waits_for.done():
                    _run(loop)
            loop.is_torn = False
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    except BaseException:
        if waits_for is not None:
            waits_for.cancel()
        work.close()
        raise


def drive_task(loop: DrivenLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run *work*, which may be anything, to its end as a task of *loop*, which runs only meanwhile."""
    task = loop.create_task(_stopping(loop, work))
    loop.is_torn = True  # unless it comes to its end
    try:
        while not task.done():
            _run(loop)
    except BaseException:
        if task.done() and not task.cancelled():
            task.exception()  # which is what was raised here
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()
        raise
    loop.is_torn = False
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
    try:
        asyncio._set_running_loop(None)  # noqa: SLF001 -- the same
        loop.run_forever()
    finally:
        asyncio._set_running_loop(outer)  # noqa: SLF001 -- the same
