"""The threads sync workflows run on: at most so many run at once, and one that waits durably gives up its place.

So parents that wait for children cannot use up the pool, however many there are; nor can code that never ends, once
nobody waits for it any more.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Place:
    """The right of a job to run: *held* while it counts, *left* once nobody waits for the job."""

    __slots__ = ("held", "left")

    def __init__(self) -> None:
        self.held = False
        self.left = False


class _Job(NamedTuple):
    call: Callable[[], None]
    place: Place


class WorkflowThreads:
    """Runs jobs on threads, *most* at a time; further jobs wait in order. Those who return from a wait go first."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._jobs: deque[_Job] = deque()
        self._returning: deque[tuple[threading.Event, Place]] = deque()
        self._lock = threading.Lock()
        self._mine = threading.local()

    @property
    def free(self) -> int:
        """How many jobs could begin now."""
        return max(0, self._free - len(self._jobs))

    def submit(self, call: Callable[[], None]) -> Place:
        """Have *call* run when a place is free; return its place. It must not raise."""
        job = _Job(call, Place())
        with self._lock:
            if self._free == 0:
                self._jobs.append(job)
                return job.place
            self._free -= 1
            job.place.held = True
        self._spawn(job)
        return job.place

    def leave(self, place: Place) -> None:
        """Give the place of a job to others, since nobody waits for it any more: it may never end."""
        with self._lock:
            place.left = True
            held, place.held = place.held, False
        if held:
            self._pass_on()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give up this thread's place for the length of a durable wait; a thread that has none just waits."""
        place: Place | None = getattr(self._mine, "place", None)
        if place is None:
            yield
            return
        self._let_go(place)
        try:
            yield
        finally:
            self._take_back(place)

    def _spawn(self, job: _Job) -> None:
        threading.Thread(target=self._work, args=(job,), name="holdfast-workflow", daemon=True).start()

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            self._mine.place = job.place
            try:
                job.call()
            except BaseException:
                self._let_go(job.place)
                raise
            with self._lock:
                if not job.place.held:  # the place was given to another job meanwhile
                    return
                job.place.held = False
            job = self._next_job()

    def _next_job(self) -> _Job | None:
        """Return the next job for a place; None once the place went to somebody who returned, or is free."""
        with self._lock:
            while self._returning:
                back, place = self._returning.popleft()
                place.held = not place.left
                back.set()
                if place.held:
                    return None
            while self._jobs:
                job = self._jobs.popleft()
                job.place.held = not job.place.left
                if job.place.held:
                    return job
                self._spawn(job)  # on top of the others
            self._free += 1
            return None

    def _let_go(self, place: Place) -> None:
        with self._lock:
            held, place.held = place.held, False
        if held:
            self._pass_on()

    def _pass_on(self) -> None:
        job = self._next_job()
        if job is not None:
            self._spawn(job)

    def _take_back(self, place: Place) -> None:
        with self._lock:
            if place.left:
                return
            if self._free:
                self._free -= 1
                place.held = True
                return
            back = threading.Event()
            self._returning.append((back, place))
        back.wait()


__all__ = ["Place", "WorkflowThreads"]
