"""How much may be claimed now: decided from limits and from what has been counted, with no clock and no database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue or a partition allows: so many at once, so many starts within a period. None is no limit."""

    concurrency: int | None = None
    rate_max: int | None = None
    period_ms: int = 0

    def __bool__(self) -> bool:
        return self.concurrency is not None or self.rate_max is not None


@dataclass(frozen=True, slots=True)
class Use:
    """What has been counted: how many run, how many were started within the period, and when the first of those was."""

    running: int = 0
    starts: int = 0
    oldest_start_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How many may be claimed now; and in how many milliseconds more may be, if time alone brings that."""

    free: int
    again_ms: int | None = None


def room(limits: Limits, use: Use, now_ms: int, most: int) -> Room:
    """Return how many of *most* the limits leave.

    Where the rate is what leaves less than *most*, the first start leaves the period at ``again_ms`` from now: at least
    one millisecond, so that a clock that stands still is not asked without end.
    """
    free = most
    if limits.concurrency is not None:
        free = min(free, limits.concurrency - use.running)
    again = None
    if limits.rate_max is not None:
        left = limits.rate_max - use.starts
        if left < free and use.oldest_start_ms is not None:
            again = max(1, use.oldest_start_ms + limits.period_ms - now_ms)
        free = min(free, left)
    return Room(max(0, free), again)


def worker_room(capacity: int, running: int, worker_concurrency: int | None, of_queue: int) -> int:
    """Return how many more runs of a queue one process takes: within its capacity, and the queue's limit for one."""
    free = capacity - running
    if worker_concurrency is not None:
        free = min(free, worker_concurrency - of_queue)
    return max(0, free)


def shares(total: int, free: Sequence[int]) -> list[int]:
    """Give *total* out, one to each in turn from the first on, to nobody more than *free*; return who gets what."""
    given = [0] * len(free)
    wanting = [place for place, most in enumerate(free) if most > 0]
    while total > 0 and wanting:
        each = max(1, total // len(wanting))
        for place in wanting[:total]:
            got = min(each, free[place] - given[place])
            given[place] += got
            total -= got
        wanting = [place for place in wanting if given[place] < free[place]]
    return given


def soonest(*waits: float | None) -> float | None:
    """Return the shortest of several waits; None is a wait for nothing."""
    known = [wait for wait in waits if wait is not None]
    return min(known) if known else None


__all__ = ["Limits", "Room", "Use", "room", "shares", "soonest", "worker_room"]
