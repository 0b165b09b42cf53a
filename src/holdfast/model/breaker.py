"""The state of a circuit breaker as it is shared, what became of attempts to change it, and its history."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class CircuitState(StrEnum):
    """Where a breaker stands: calls pass, calls are refused, or a few calls are tried."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


CLOSED, OPEN, HALF_OPEN = (state.value for state in CircuitState)


@dataclass(frozen=True, slots=True)
class HalfOpenSlot:
    """A trial that somebody has begun: the token of whoever holds it, and since when."""

    token: str
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreakerStateData:
    """The state of one breaker, with the documented names; times are aware.

    Beyond the document: *retry_at* is when an open breaker lets trials through; *open_count* how often it has opened
    since it was closed last; *slots* the trials under way that have a token; *reports* who has seen the dependency
    fail while a quorum is gathered, and when; *controlled_by* the name of the operator; *epoch* counts changes of
    state and of manual control, *version* all changes.
    """

    service_name: str
    id: int | None = None
    state: str = CLOSED
    failure_count: int = 0
    success_count: int = 0
    last_failure_at: datetime | None = None
    opened_at: datetime | None = None
    manually_controlled: bool = False
    controlled_by_id: int | None = None
    control_reason: str = ""
    manual_override_expires_at: datetime | None = None
    half_open_request_count: int = 0
    half_open_window_started_at: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    retry_at: datetime | None = None
    open_count: int = 0
    slots: tuple[HalfOpenSlot, ...] = ()
    reports: dict[str, datetime] = field(default_factory=dict)
    controlled_by: str = ""
    epoch: int = 0
    version: int = 0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self.state == OPEN

    @property
    def is_closed(self) -> bool:
        """Whether calls pass."""
        return self.state == CLOSED

    @property
    def is_half_open(self) -> bool:
        """Whether a few calls are tried."""
        return self.state == HALF_OPEN

    def is_pin_active(self, now: datetime) -> bool:
        """Whether an operator's word holds at *now*: it was given, and has not expired."""
        expires = self.manual_override_expires_at
        return self.manually_controlled and (expires is None or expires > now)


@dataclass(frozen=True, slots=True)
class CircuitBreakerCloseAttempt:
    """What came of a success: *did_close* is True for the one call that closed the breaker, and for no other."""

    state: CircuitBreakerStateData
    did_close: bool


@dataclass(frozen=True, slots=True)
class CircuitBreakerOpenAttempt:
    """What came of a failure: *did_open* is True for the one call that opened the breaker, and for no other."""

    state: CircuitBreakerStateData
    did_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreakerChange:
    """One entry in the history of a breaker: what happened, between which states, by whom and why."""

    service_name: str
    epoch: int
    event: str
    from_state: str
    to_state: str
    at: datetime
    reason: str = ""
    controlled_by_id: int | None = None
    controlled_by: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTime:
    """For how long a breaker stays open: *base*, times *backoff* for each opening in a row, at most *cap*.

    *jitter* is the part of it by which it may be longer, so that fleets do not try all at once.
    """

    base: timedelta = timedelta(seconds=60)
    backoff: float = 1.0
    cap: timedelta = timedelta(hours=1)
    jitter: float = 0.0


__all__ = [
    "CLOSED",
    "HALF_OPEN",
    "OPEN",
    "CircuitBreakerChange",
    "CircuitBreakerCloseAttempt",
    "CircuitBreakerOpenAttempt",
    "CircuitBreakerStateData",
    "CircuitState",
    "HalfOpenSlot",
    "OpenTime",
]
