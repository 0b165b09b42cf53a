"""A breaker's record in the time of this process: what it means now, and when that changes by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from holdfast.model.breaker import CLOSED, OPEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from holdfast.model.breaker import CircuitBreakerStateData

_NEVER = float("-inf")
_FOR_EVER = float("inf")


class View(NamedTuple):
    """How a breaker stands; *due* and *pinned_until* are moments of this process's monotonic clock."""

    state: str = CLOSED
    epoch: int | None = None
    due: float = _NEVER  # when an open breaker may be tried
    pinned_until: float = _NEVER
    reason: str = ""

    def is_pinned(self, now: float) -> bool:
        """Whether an operator's word holds at *now*."""
        return now < self.pinned_until


def view_of(
    record: CircuitBreakerStateData | None, storage_now: datetime, monotonic: float, open_for: timedelta
) -> View:
    """Return how *record*, as it was at *storage_now*, stands; *open_for* is for one that does not say for how long."""
    if record is None:
        return View()
    pinned_until = _NEVER
    if record.is_pin_active(storage_now):
        expires = record.manual_override_expires_at
        pinned_until = _FOR_EVER if expires is None else monotonic + (expires - storage_now).total_seconds()
    due = monotonic + _left(record, storage_now, open_for) if record.state == OPEN else _NEVER
    return View(record.state, record.epoch, due, pinned_until, record.control_reason)


def _left(record: CircuitBreakerStateData, storage_now: datetime, open_for: timedelta) -> float:
    """Return in how many seconds an open breaker may be tried: never more than it opened for, whatever was set back."""
    opened_at = record.opened_at
    retry_at = record.retry_at or (None if opened_at is None else opened_at + open_for)
    if retry_at is None:
        return 0.0
    left = retry_at - storage_now
    return (left if opened_at is None else min(left, retry_at - opened_at)).total_seconds()


@dataclass(frozen=True, slots=True, eq=False)
class Hearing:
    """Watches one record in a repository, and passes it on as a view."""

    view: Callable[[CircuitBreakerStateData | None, datetime], View]
    heard: Callable[[View], None]
    away: Callable[[Exception], None]
    ended: Callable[[], None]

    def seen(self, record: CircuitBreakerStateData | None, now: datetime) -> None:
        """Take notice of the record as it is at *now*, by the repository's clock."""
        self.heard(self.view(record, now))


__all__ = ["Hearing", "View", "view_of"]
