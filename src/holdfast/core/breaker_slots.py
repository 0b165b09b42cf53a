"""Trials of a half-open breaker: slots that are held under a token, and what their outcomes do.

A slot ends with its outcome, when it is released, or when its holder has been silent for longer than the stuck
timeout. An outcome under a token that is not held any more comes from an earlier window: it changes nothing. An
outcome without a token counts, and frees no slot.

A token that nobody named is the last one that a task or thread was given. If no trial is under way its trial came to
nothing, whatever is told now is the outcome of another call, and counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.core.breaker import Event, Note, Outcome, closed, opened, unpinned, without_slots
from holdfast.model.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    CircuitBreakerCloseAttempt,
    CircuitBreakerOpenAttempt,
    CircuitBreakerStateData,
    HalfOpenSlot,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from holdfast.model.breaker import OpenTime


@dataclass(frozen=True, slots=True)
class RecordFailure(Event):
    """Count a failure; no change of state."""

    token: str | None = None
    named: bool = True

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        if is_late(record, self.token, named=self.named):
            return Outcome(record, record)
        after = replace(released(record, self.token), failure_count=record.failure_count + 1, last_failure_at=now)
        return Outcome(after, after)


@dataclass(frozen=True, slots=True)
class RecordSuccess(Event):
    """Count a success; no change of state."""

    token: str | None = None
    named: bool = True

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002 -- one shape for all events
        if is_late(record, self.token, named=self.named):
            return Outcome(record, record)
        after = replace(released(record, self.token), success_count=record.success_count + 1)
        return Outcome(after, after)


@dataclass(frozen=True, slots=True)
class CloseCheck(Event):
    """Count a success, and close a half-open breaker that has had enough of them."""

    success_threshold: int
    token: str | None = None
    named: bool = True

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        if is_late(record, self.token, named=self.named):
            return Outcome(record, CircuitBreakerCloseAttempt(record, did_close=False))
        after = replace(released(record, self.token), success_count=record.success_count + 1)
        closes = record.state == HALF_OPEN and not record.is_pin_active(now)
        if not closes or after.success_count < self.success_threshold:
            return Outcome(after, CircuitBreakerCloseAttempt(after, did_close=False))
        after = closed(unpinned(after, now))
        return Outcome(after, CircuitBreakerCloseAttempt(after, did_close=True), Note("closed"))


@dataclass(frozen=True, slots=True)
class OpenCheck(Event):
    """Open a half-open breaker, since a trial failed; any other is left as it is."""

    open_time: OpenTime | None = None
    draw: float = 0.0
    error: str = ""
    token: str | None = None
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        if record.state != HALF_OPEN or record.is_pin_active(now) or is_late(record, self.token):
            return Outcome(record, CircuitBreakerOpenAttempt(record, did_open=False))
        after = opened(unpinned(record, now), now, self.open_time, self.draw)
        after = replace(after, failure_count=0, last_failure_at=now)
        return Outcome(after, CircuitBreakerOpenAttempt(after, did_open=True), Note("opened", self.error))

    def on_nothing(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class AcquireSlot(Event):
    """Begin a trial, in the documented order of branches; *epoch*, if given, must be that of an open breaker."""

    limit: int
    stuck_timeout: timedelta
    token: str
    epoch: int | None = None
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        if record.state == CLOSED or record.is_pin_active(now):
            return Outcome(record, (False, record.state, record.state))
        if record.state == OPEN:
            return self._on_open(unpinned(record, now), record, now)
        live = self._live(record, now)
        if live is None or len(live) >= self.limit:
            return Outcome(record, (False, HALF_OPEN, HALF_OPEN))
        return Outcome(self._added(record, live, now), (True, HALF_OPEN, HALF_OPEN))

    def on_nothing(self) -> tuple[bool, str, str]:
        return (False, CLOSED, CLOSED)

    def _on_open(self, record: CircuitBreakerStateData, before: CircuitBreakerStateData, now: datetime) -> Outcome:
        # Whoever saw an earlier opening than this one has not waited for this one's time to pass.
        if self.epoch is not None and self.epoch != record.epoch:
            return Outcome(before, (False, OPEN, OPEN))
        return Outcome(self._fresh(replace(record, state=HALF_OPEN), now), (True, OPEN, HALF_OPEN), Note("half_opened"))

    def _fresh(self, record: CircuitBreakerStateData, now: datetime) -> CircuitBreakerStateData:
        slots = (HalfOpenSlot(self.token, now),)
        return replace(record, success_count=0, half_open_request_count=1, half_open_window_started_at=now, slots=slots)

    def _live(self, record: CircuitBreakerStateData, now: datetime) -> tuple[HalfOpenSlot, ...] | None:
        """Return the trials that still count: below the limit all; at it those not stuck, or None if none is stuck."""
        if record.half_open_request_count < self.limit:
            return record.slots
        window = record.half_open_window_started_at
        if window is not None and not self._is_stuck(window, now):
            return None
        return tuple(slot for slot in record.slots if not self._is_stuck(slot.started_at, now))

    def _is_stuck(self, since: datetime, now: datetime) -> bool:
        """Whether what began *since* has had its time; so it has if that lies far ahead, since a clock was set back."""
        return abs(now - since) > self.stuck_timeout

    def _added(
        self, record: CircuitBreakerStateData, live: tuple[HalfOpenSlot, ...], now: datetime
    ) -> CircuitBreakerStateData:
        below = record.half_open_request_count < self.limit
        if not below and not live:  # the whole window is stuck
            return self._fresh(unpinned(record, now), now)
        window = record.half_open_window_started_at or now
        return replace(
            record,
            half_open_request_count=(record.half_open_request_count if below else len(live)) + 1,
            half_open_window_started_at=window if below else min(slot.started_at for slot in live),
            slots=(*live, HalfOpenSlot(self.token, now)),
        )


@dataclass(frozen=True, slots=True)
class ReleaseSlot(Event):
    """End a trial that came to nothing: it was cancelled, or its error does not count."""

    token: str
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002
        if is_late(record, self.token):
            return Outcome(record, answer=False)
        return Outcome(released(record, self.token), answer=True)


@dataclass(frozen=True, slots=True)
class ResetHalfOpenCount(Event):
    """Forget all trials."""

    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002
        return Outcome(without_slots(record), None)

    def on_nothing(self) -> None:
        return None


def is_late(record: CircuitBreakerStateData, token: str | None, *, named: bool = True) -> bool:
    """Whether *token* is of a trial that does not count any more; where none is under way, only if it was *named*."""
    if token is None or any(slot.token == token for slot in record.slots):
        return False
    return named or record.state == HALF_OPEN


def released(record: CircuitBreakerStateData, token: str | None) -> CircuitBreakerStateData:
    """Return *record* without the slot of *token*, if it is held."""
    left = tuple(slot for slot in record.slots if slot.token != token)
    if len(left) == len(record.slots):
        return record
    return replace(record, slots=left, half_open_request_count=max(0, record.half_open_request_count - 1))


__all__ = [
    "AcquireSlot",
    "CloseCheck",
    "OpenCheck",
    "RecordFailure",
    "RecordSuccess",
    "ReleaseSlot",
    "ResetHalfOpenCount",
    "is_late",
    "released",
]
