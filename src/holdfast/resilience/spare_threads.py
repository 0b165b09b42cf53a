"""Threads for calls that may have to be left behind: used again when their call has ended, however late."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.db.process import this_process
from holdfast.resilience.interrupting import Late

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_IDLE = 16
_IDLE_FOR = 10.0


class _Job:
    """One call, and its outcome."""

    __slots__ = ("args", "call", "context", "done", "error", "kwargs", "value")

    def __init__(self, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.call = call
        self.args = args
        self.kwargs = kwargs
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None


class _Thread(threading.Thread):
    """Does one job after the other; ends when there was none for a while."""

    def __init__(self, name: str, idle: deque[_Thread]) -> None:
        super().__init__(name=name, daemon=True)
        self._idle = idle
        self._gate = threading.Lock()
        self._gate.acquire()
        self._job: _Job | None = None

    def give(self, job: _Job) -> None:
        """Have *job* done; this thread must be nobody else's."""
        self._job = job
        self._gate.release()

    def run(self) -> None:
        while self._gate.acquire(timeout=_IDLE_FOR) or not self._retires():
            job, self._job = self._job, None
            if job is None:  # taken at the last moment: its job is about to come
                continue
            try:
                job.value = job.context.run(job.call, *job.args, **job.kwargs)
            except BaseException as error:  # noqa: BLE001 -- raised again by whoever waits
                job.error = error
            job.done.release()
            del job
            if len(self._idle) >= _MOST_IDLE:
                return
            self._idle.append(self)

    def _retires(self) -> bool:
        try:
            self._idle.remove(self)
        except ValueError:  # somebody has just taken it
            return False
        return True


class SpareThreads:
    """Runs calls on threads and waits for them as long as they may take."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: deque[_Thread] = deque()
        this_process.tell(self)

    def forked(self) -> None:
        """Forget threads that a forked child does not have."""
        self._idle = deque()

    def run(self, call: Callable[..., Any], limit: float, args: Any, kwargs: Any) -> Any:
        """Return what *call* returns, or raise what it raises; ``Late`` if it was, and so was left behind."""
        job = _Job(call, args, kwargs)
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._name, self._idle)
            thread.start()
        thread.give(job)
        if not job.done.acquire(timeout=limit):
            raise Late
        if job.error is not None:
            try:
                raise job.error
            finally:
                job.error = None  # no circle of error, frame and job
        return job.value


__all__ = ["SpareThreads"]
