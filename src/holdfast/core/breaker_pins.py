"""An operator's word about a breaker: pins, who set them, why, and until when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.core.breaker import Event, Note, Outcome, closed, without_slots
from holdfast.model.breaker import CLOSED, HALF_OPEN, OPEN, CircuitBreakerStateData

if TYPE_CHECKING:
    from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class SetManualControl(Event):
    """Pin the breaker in a state. What an earlier pin said, and this one does not, is gone."""

    state: str
    controlled_by_id: int | None = None
    reason: str = ""
    expires_at: datetime | None = None
    controlled_by: str = ""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        stays = record if self.state == HALF_OPEN else without_slots(record)
        after = pinned(
            replace(
                stays,
                state=self.state,
                opened_at={OPEN: now, CLOSED: None}.get(self.state, record.opened_at),
            ),
            self,
            self.expires_at,
        )
        return Outcome(after, answer=True, note=_said("pinned", self, self.expires_at))


@dataclass(frozen=True, slots=True)
class ClearManualControl(Event):
    """Take the pin off; the state stays, and an open breaker may be tried at once."""

    preserve_reason: bool = False
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        after = replace(
            record,
            manually_controlled=False,
            controlled_by_id=None,
            controlled_by="",
            manual_override_expires_at=None,
            control_reason=record.control_reason if self.preserve_reason else "",
            retry_at=now if record.state == OPEN and record.manually_controlled else record.retry_at,
        )
        return Outcome(after, answer=True, note=Note("unpinned", after.control_reason))


@dataclass(frozen=True, slots=True)
class ForceOpen(Event):
    """Open the breaker and keep it open for *ttl*, or until somebody says otherwise; counts stay."""

    reason: str = ""
    controlled_by_id: int | None = None
    ttl: timedelta | None = None
    controlled_by: str = ""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        expires = None if self.ttl is None else now + self.ttl
        after = pinned(replace(without_slots(record), state=OPEN, opened_at=now), self, expires)
        return Outcome(after, (True, record.state, OPEN), _said("forced_open", self, expires))


@dataclass(frozen=True, slots=True)
class ForceClose(Event):
    """Close the breaker and keep it closed for *ttl*, or until somebody says otherwise."""

    reason: str = ""
    controlled_by_id: int | None = None
    ttl: timedelta | None = None
    controlled_by: str = ""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:
        expires = None if self.ttl is None else now + self.ttl
        after = pinned(closed(record), self, expires)
        return Outcome(after, (True, record.state, CLOSED), _said("forced_close", self, expires))


@dataclass(frozen=True, slots=True)
class AtomicReset(Event):
    """Close the breaker, forget what was counted and every pin; the reason is kept."""

    reason: str = ""
    controlled_by_id: int | None = None
    controlled_by: str = ""
    creates = False

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002 -- one shape for all events
        after = replace(
            closed(record),
            last_failure_at=None,
            manually_controlled=False,
            controlled_by_id=None,
            controlled_by="",
            control_reason=self.reason,
            manual_override_expires_at=None,
        )
        return Outcome(after, (True, record.state, CLOSED), _said("reset", self, None))

    def on_nothing(self) -> tuple[bool, str, str]:
        return (False, "", "")


def pinned(
    record: CircuitBreakerStateData, word: SetManualControl | ForceOpen | ForceClose, expires: datetime | None
) -> CircuitBreakerStateData:
    """Return *record* held as an operator said; when the pin of an open one expires, it may be tried at once."""
    return replace(
        record,
        manually_controlled=True,
        controlled_by_id=word.controlled_by_id,
        controlled_by=word.controlled_by,
        control_reason=word.reason,
        manual_override_expires_at=expires,
        retry_at=expires if record.state == OPEN else None,
    )


def _said(event: str, word: SetManualControl | ForceOpen | ForceClose | AtomicReset, expires: datetime | None) -> Note:
    return Note(event, word.reason, word.controlled_by_id, word.controlled_by, expires)


__all__ = ["AtomicReset", "ClearManualControl", "ForceClose", "ForceOpen", "SetManualControl"]
