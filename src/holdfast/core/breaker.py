"""What becomes of a shared circuit breaker: every change anybody may ask for, decided without a clock or a database.

Theory of operation. A breaker is one record. An *event* is what is asked of it; ``decide`` gives the record that
follows, the answer for whoever asked, and the entry for the history. A storage reads the record under a lock, or puts
the new one back only if nobody has written meanwhile, and knows nothing of the rules. So the backends cannot disagree.

::

               trip (quorum reached), force open
      CLOSED ────────────────────────────────────►  OPEN
        ▲                                           │  ▲
        │ successes reached the threshold,          │  │ a trial failed, force open
        │ force close, reset                        ▼  │
        └──────────────────────────────────────  HALF_OPEN ◄──┐ slot acquired, released,
                                       slot acquired └────────┘ reclaimed from the dead

An operator's word (a *pin*) comes before all of it while it holds: slots are refused, trips declined, nothing closes.
An expired pin is taken off by the first change of state after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.model.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    CircuitBreakerChange,
    CircuitBreakerCloseAttempt,
    CircuitBreakerOpenAttempt,
    CircuitBreakerStateData,
)

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.model.breaker import OpenTime


_LONGEST_WAIT = timedelta(minutes=1)


class Note(NamedTuple):
    """What the history says about a change besides its states."""

    event: str
    reason: str = ""
    controlled_by_id: int | None = None
    controlled_by: str = ""
    expires_at: datetime | None = None


class Outcome(NamedTuple):
    """What an event makes of a record: the record after it (None if it is gone), the answer, the history's entry."""

    record: CircuitBreakerStateData | None
    answer: Any
    note: Note | None = None


class Decision(NamedTuple):
    """An outcome that is ready to be stored; nothing is to be stored if *record* is the one that was there."""

    record: CircuitBreakerStateData | None
    answer: Any
    change: CircuitBreakerChange | None


class Event(ABC):
    """What may be asked of a breaker. *creates* says whether a breaker that is not there is made."""

    creates = True

    @abstractmethod
    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        """Return what becomes of *record*, which is a closed one if there was none and the event creates."""

    def on_nothing(self) -> Any:
        """Return the answer if there is no such breaker; for events that do not create one."""
        return False


def time_of(before: CircuitBreakerStateData | None, now: datetime) -> datetime:
    """Return the time at which a change is made of a breaker that may have been locked since *now* was read.

    Its time does not go back for that. A clock that was set back by more than anybody waits for a lock is believed.
    """
    last = None if before is None else before.updated_at
    return now if last is None or last - now > _LONGEST_WAIT else max(now, last)


def decide(before: CircuitBreakerStateData | None, service_name: str, event: Event, now: datetime) -> Decision:
    """Return what *event* makes of the breaker *before*, which is None if there is none."""
    if before is None and not event.creates:
        return Decision(None, event.on_nothing(), None)
    record = before or CircuitBreakerStateData(service_name=service_name, created_at=now, updated_at=now)
    after, answer, note = event.on(record, now)
    if after is before:
        return Decision(before, answer, None)
    if after is None:
        return Decision(None, answer, None)
    moved = note is not None or after.state != record.state
    after = replace(after, version=record.version + 1, epoch=record.epoch + moved, updated_at=now)
    return Decision(after, _with_state(answer, after), _change(record, after, note, now) if moved else None)


def _with_state(answer: Any, after: CircuitBreakerStateData) -> Any:
    """Give the answer the record as it is stored, with its new version."""
    if isinstance(answer, CircuitBreakerStateData):
        return after
    if isinstance(answer, (CircuitBreakerCloseAttempt, CircuitBreakerOpenAttempt)):
        return replace(answer, state=after)
    return answer


def _change(
    before: CircuitBreakerStateData, after: CircuitBreakerStateData, note: Note | None, now: datetime
) -> CircuitBreakerChange:
    said = note or Note(_EVENTS[after.state])
    return CircuitBreakerChange(
        service_name=after.service_name,
        epoch=after.epoch,
        from_state=before.state,
        to_state=after.state,
        at=now,
        **said._asdict(),
    )


_EVENTS = {CLOSED: "closed", OPEN: "opened", HALF_OPEN: "half_opened"}


def unpinned(record: CircuitBreakerStateData, now: datetime) -> CircuitBreakerStateData:
    """Return *record* without a pin that has expired; its reason stays."""
    if not record.manually_controlled or record.is_pin_active(now):
        return record
    return replace(
        record, manually_controlled=False, controlled_by_id=None, controlled_by="", manual_override_expires_at=None
    )


def without_slots(record: CircuitBreakerStateData) -> CircuitBreakerStateData:
    """Return *record* with no trials."""
    return replace(record, half_open_request_count=0, half_open_window_started_at=None, slots=())


def closed(record: CircuitBreakerStateData) -> CircuitBreakerStateData:
    """Return *record* closed, as if nothing had failed."""
    return replace(
        without_slots(record),
        state=CLOSED,
        failure_count=0,
        success_count=0,
        opened_at=None,
        retry_at=None,
        open_count=0,
        reports={},
    )


def opened(
    record: CircuitBreakerStateData, now: datetime, open_time: OpenTime | None, draw: float
) -> CircuitBreakerStateData:
    """Return *record* open, for as long as *open_time* says; *draw* is a random number from 0 to 1."""
    return replace(
        without_slots(record),
        state=OPEN,
        success_count=0,
        opened_at=now,
        retry_at=None if open_time is None else now + _open_for(open_time, record.open_count, draw),
        open_count=record.open_count + 1,
        reports={},
    )


def _open_for(open_time: OpenTime, before: int, draw: float) -> timedelta:
    try:
        grown = open_time.base * open_time.backoff**before
    except OverflowError:  # beyond what a timedelta holds, and so beyond the cap
        grown = open_time.cap
    return min(open_time.cap, grown) * (1 + open_time.jitter * draw)


@dataclass(frozen=True, slots=True)
class GetOrCreate(Event):
    """Make the breaker if it is not there."""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002 -- one shape for all events
        return Outcome(record, record)


@dataclass(frozen=True, slots=True)
class UpdateState(Event):
    """Write the fields that are given, whatever stands there; manual control is left alone."""

    state: str
    failure_count: int | None = None
    success_count: int | None = None
    opened_at: datetime | None = None
    last_failure_at: datetime | None = None
    half_open_request_count: int | None = None
    reset_half_open_count: bool = False
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002
        counted = without_slots(record) if self.reset_half_open_count else self._counted(record)
        after = replace(
            counted,
            state=self.state,
            failure_count=_given(self.failure_count, record.failure_count),
            success_count=_given(self.success_count, record.success_count),
            opened_at=_given(self.opened_at, record.opened_at),
            last_failure_at=_given(self.last_failure_at, record.last_failure_at),
            retry_at=record.retry_at if self.state == record.state and self.opened_at is None else None,
        )
        return Outcome(after, answer=True)

    def _counted(self, record: CircuitBreakerStateData) -> CircuitBreakerStateData:
        count = self.half_open_request_count
        if count is None:
            return record
        return replace(record, half_open_request_count=count, slots=record.slots[max(0, len(record.slots) - count) :])


def _given(value: Any, before: Any) -> Any:
    return before if value is None else value


@dataclass(frozen=True, slots=True)
class Reset(Event):
    """Close it, forget what was counted and the operator's word."""

    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002
        after = replace(
            closed(record),
            last_failure_at=None,
            manually_controlled=False,
            controlled_by_id=None,
            controlled_by="",
            control_reason="",
            manual_override_expires_at=None,
        )
        return Outcome(after, answer=True, note=Note("reset"))


@dataclass(frozen=True, slots=True)
class Delete(Event):
    """Remove it, and its history."""

    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002
        return Outcome(None, answer=True)


@dataclass(frozen=True, slots=True)
class Trip(Event):
    """Open a closed breaker, once *quorum* different reporters have asked for it *within* a time; pins decline."""

    failure_count: int = 0
    open_time: OpenTime | None = None
    draw: float = 0.0
    reporter: str = ""
    quorum: int = 1
    within: timedelta | None = None
    error: str = ""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        if record.state != CLOSED or record.is_pin_active(now):
            return Outcome(record, CircuitBreakerOpenAttempt(record, did_open=False))
        reports = self._reports(record, now)
        if len(reports) < self.quorum:
            after = replace(record, reports=reports, last_failure_at=now)
            return Outcome(after, CircuitBreakerOpenAttempt(after, did_open=False))
        after = replace(
            opened(unpinned(record, now), now, self.open_time, self.draw),
            failure_count=self.failure_count,
            last_failure_at=now,
        )
        return Outcome(after, CircuitBreakerOpenAttempt(after, did_open=True), Note("opened", self.error))

    def _reports(self, record: CircuitBreakerStateData, now: datetime) -> dict[str, datetime]:
        fresh = {who: at for who, at in record.reports.items() if self.within is None or now - at <= self.within}
        return {**fresh, self.reporter: now}


__all__ = [
    "Decision",
    "Delete",
    "Event",
    "GetOrCreate",
    "Note",
    "Outcome",
    "Reset",
    "Trip",
    "UpdateState",
    "closed",
    "decide",
    "opened",
    "time_of",
    "unpinned",
    "without_slots",
]
