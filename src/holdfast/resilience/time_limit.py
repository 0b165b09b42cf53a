"""The time of async calls: one timer for all calls of a function that are under way.

Theory of operation. All calls of one function have the same time, so they become late in the order in which they began.
The timer is set for the first of them. When it fires it cancels those that are late, and is set for the next. So a call
that is in time costs a place in a dictionary, and no timer of its own. Loops have nothing in common: each has its calls
and its timer.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.resilience.interrupting import Late

if TYPE_CHECKING:
    from types import TracebackType


class TimeLimit:
    """So many seconds for each of any number of calls, on any loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._here = _Here()

    def __call__(self) -> _Timed:
        """Return the block in which one call has its time: ``Late`` is raised at its end if it was cancelled for that.

        A call that is cancelled by somebody else as well stays cancelled.
        """
        loop = asyncio.get_running_loop()
        underway = self._here.underway
        if underway is None or underway.loop is not loop:
            underway = self._here.underway = _Underway(loop)
        task = asyncio.current_task(loop)
        assert task is not None  # noqa: S101 -- what runs on a loop and is awaited is in a task
        return _Timed(underway, loop.time() + self._seconds, task, task.cancelling())


class _Underway:
    """The calls of one loop in the order in which they began, and the timer of the first that was not in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.calls: dict[_Timed, None] = {}
        self.timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Cancel those that are late; look again when the next one will be."""
        self.timer = None
        now = self.loop.time()
        for call in list(self.calls):
            if call.deadline > now:
                self.timer = self.loop.call_at(call.deadline, self.look)
                return
            call.cancel()


class _Timed(msgspec.Struct, eq=False):
    """One call; its task had been cancelled *before* so many times."""

    underway: _Underway
    deadline: float
    task: asyncio.Task[Any]
    before: int
    is_late: bool = False

    def __enter__(self) -> None:
        underway = self.underway
        underway.calls[self] = None
        if underway.timer is None:
            underway.timer = underway.loop.call_at(self.deadline, underway.look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.underway.calls.pop(self, None)
        if self.is_late and self.task.uncancel() <= self.before and kind is asyncio.CancelledError:
            raise Late from error

    def cancel(self) -> None:
        """Say that its time is over; on the loop."""
        del self.underway.calls[self]
        self.is_late = True
        self.task.cancel()


class _Here(threading.local):
    underway: _Underway | None = None


__all__ = ["TimeLimit"]
