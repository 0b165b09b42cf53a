"""Threads for handlers that are plain functions. What Python cannot interrupt does not hold the process back."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class HandlerThreads(Executor):
    """Does each call at once: on a thread that is idle, or on a new one. So its user decides how many there are.

    They are daemons: a call that has not ended when the process does is cut off.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # for idle threads, one for each
        self._idle = 0
        self._over = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have *fn* called; return its future."""
        future: Future[T] = Future()
        job = future, partial(fn, *args, **kwargs)
        with self._lock:
            if self._over:
                raise RuntimeError("The worker has ended, and calls no handler any more.")
            is_one_idle = self._idle > 0
            self._idle -= is_one_idle
        if is_one_idle:
            self._jobs.put(job)
        else:
            threading.Thread(target=self._work, args=(job,), name="holdfast-task", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 -- an executor's signature
        """End the threads that are idle, and the others when their calls have ended; nobody waits for these."""
        with self._lock:
            self._over, idle, self._idle = True, self._idle, 0
        for _ in range(idle):
            self._jobs.put(None)

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            _done(*job)
            del job  # whatever the handler has left in it
            with self._lock:
                if self._over:
                    return
                self._idle += 1
            job = self._jobs.get()


def _done(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001 -- raised again by whoever waits
        future.set_exception(error)
    else:
        future.set_result(found)


__all__ = ["HandlerThreads"]
