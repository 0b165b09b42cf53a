"""When a breaker trips by what one process has seen, and what it remembers to know that."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.core.numbers import count

_BUCKETS = 10


class Tally(NamedTuple):
    """The calls of a window: how many, how many of them failed, how many were slow."""

    calls: int = 0
    failures: int = 0
    slow: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TripRules:
    """What is too much: any one rule that is not None trips.

    *failures* in a row; a *failure_rate* or *slow_call_rate*, from 0 to 1, among the last *window* calls, or the calls
    of the last *window_seconds*, once there are *minimum_calls* of them. A call of *slow_call_seconds* or more is slow.
    """

    failures: int | None = 5
    failure_rate: float | None = 0.5
    slow_call_rate: float | None = None
    slow_call_seconds: float | None = None
    window: int = 100
    window_seconds: float | None = None
    minimum_calls: int = 10

    def __post_init__(self) -> None:
        for name, rate in (("failure_rate", self.failure_rate), ("slow_call_rate", self.slow_call_rate)):
            if rate is not None and not (type(rate) in {int, float} and 0 < rate <= 1):
                raise ValueError(f"{name} is a part of the calls, above 0 and up to 1, not {rate!r:.50}.")
        if (self.slow_call_rate is None) != (self.slow_call_seconds is None):
            raise ValueError("slow_call_rate and slow_call_duration belong together: give both or neither.")
        if self.failures is not None:
            count(self.failures, "failures", least=1)
        count(self.window, "window", least=1)
        count(self.minimum_calls, "minimum_calls", least=1)
        if self.window_seconds is not None and self.window_seconds <= 0:
            raise ValueError("window_duration is above 0 seconds.")

    def reason(self, in_a_row: int, tally: Tally) -> str | None:
        """Say why it trips, or None if it does not."""
        if self.failures is not None and in_a_row >= self.failures:
            return f"{in_a_row} failures in a row"
        if tally.calls < self.minimum_calls:
            return None
        if self.failure_rate is not None and tally.failures >= self.failure_rate * tally.calls:
            return f"{tally.failures} of {tally.calls} calls failed"
        if self.slow_call_rate is not None and tally.slow >= self.slow_call_rate * tally.calls:
            return f"{tally.slow} of {tally.calls} calls were slow"
        return None


class Window(Protocol):
    """What is remembered of calls; from any thread."""

    def add(self, now: float, *, failed: bool = False, slow: bool = False) -> None:
        """Remember a call that ended at *now*."""

    def tally(self, now: float) -> Tally:
        """Count what the window holds at *now*."""

    def clear(self) -> None:
        """Forget everything."""


class CountWindow:
    """The last *size* calls. Remembering one is a single append, which needs no lock; counting walks over all."""

    def __init__(self, size: int) -> None:
        self._calls: deque[int] = deque(maxlen=size)
        self.succeeded = self._calls.append  # the fast way to remember a quick success: succeeded(0)

    def add(self, now: float, *, failed: bool = False, slow: bool = False) -> None:  # noqa: ARG002 -- a count knows no time
        self._calls.append(failed + 2 * slow)

    def tally(self, now: float) -> Tally:  # noqa: ARG002
        calls = self._calls.copy()
        return Tally(len(calls), sum(each & 1 for each in calls), sum(each >> 1 for each in calls))

    def clear(self) -> None:
        self._calls.clear()


class TimeWindow:
    """The calls of the last *seconds*, in ten buckets: the oldest tenth goes at once."""

    def __init__(self, seconds: float) -> None:
        self._width = seconds / _BUCKETS
        self._lock = threading.Lock()
        self._buckets: deque[tuple[int, list[int]]] = deque()  # number of the bucket, and its calls, failures, slow
        self._counts = [0, 0, 0]  # of the last bucket, in which calls are counted before *next*
        self._next = float("-inf")

    def add(self, now: float, *, failed: bool = False, slow: bool = False) -> None:
        with self._lock:
            if now >= self._next:
                number = int(now / self._width)
                self._forget(number)
                self._counts = [0, 0, 0]
                self._buckets.append((number, self._counts))
                self._next = (number + 1) * self._width
            counts = self._counts
            counts[0] += 1
            if failed or slow:
                counts[1] += failed
                counts[2] += slow

    def tally(self, now: float) -> Tally:
        with self._lock:
            self._forget(int(now / self._width))
            return Tally(*(sum(counts[at] for _, counts in self._buckets) for at in range(3)))

    def clear(self) -> None:
        with self._lock:
            self._buckets.clear()
            self._next = float("-inf")

    def _forget(self, number: int) -> None:
        while self._buckets and self._buckets[0][0] <= number - _BUCKETS:
            self._buckets.popleft()


def window_for(rules: TripRules) -> CountWindow | TimeWindow:
    """Return the window that *rules* need."""
    return CountWindow(rules.window) if rules.window_seconds is None else TimeWindow(rules.window_seconds)


__all__ = ["CountWindow", "Tally", "TimeWindow", "TripRules", "Window", "window_for"]
