"""The threads sync workflows run on: at most so many run at once, and one that waits durably gives up its place.

So parents that wait for children cannot use up the pool, however many there are.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WorkflowThreads:
    """Runs jobs on threads, *most* at a time; further jobs wait in order. Those who return from a wait go first."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._jobs: deque[Callable[[], None]] = deque()
        self._returning: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self._mine = threading.local()

    @property
    def free(self) -> int:
        """How many jobs could begin now."""
        return max(0, self._free - len(self._jobs))

    def submit(self, job: Callable[[], None]) -> None:
        """Have *job* run when a place is free. It must not raise."""
        with self._lock:
            if self._free == 0:
                self._jobs.append(job)
                return
            self._free -= 1
        self._spawn(job)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give up this thread's place for the length of a durable wait; a thread that has none just waits."""
        if not getattr(self._mine, "place", False):
            yield
            return
        self._pass_on()
        try:
            yield
        finally:
            self._take_back()

    def _spawn(self, job: Callable[[], None]) -> None:
        threading.Thread(target=self._work, args=(job,), name="holdfast-workflow", daemon=True).start()

    def _work(self, job: Callable[[], None] | None) -> None:
        self._mine.place = True
        while job is not None:
            job()
            job = self._next_job()

    def _next_job(self) -> Callable[[], None] | None:
        """Return the next job for this place; None once the place went to somebody who returned, or is free."""
        with self._lock:
            if self._returning:
                self._returning.popleft().set()
                return None
            if self._jobs:
                return self._jobs.popleft()
            self._free += 1
            return None

    def _pass_on(self) -> None:
        job = self._next_job()
        if job is not None:
            self._spawn(job)

    def _take_back(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            back = threading.Event()
            self._returning.append(back)
        back.wait()
