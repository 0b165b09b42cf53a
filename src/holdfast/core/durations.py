"""Durations as users give them, checked at the door: one that no clock can count is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import InvalidDuration
from holdfast.model.workflow import seconds

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration

LONGEST = 100 * 365 * 86_400.0  # a hundred years: what comes after it is a mistake, and every clock still counts it


def checked_seconds(duration: Duration, what: str, *, least: float = 0.0) -> float:
    """Return a duration in seconds. ``InvalidDuration`` unless it is from *least* to a hundred years."""
    try:
        length = seconds(duration)
    except (TypeError, ValueError):
        length = float("nan")
    if not least <= length <= LONGEST:  # nor is it if this is no number
        raise InvalidDuration(
            f"{what} is a number of seconds, or a timedelta, from {least:g} s to a hundred years, not {duration!r}."
        )
    return length


def milliseconds(duration: Duration, what: str, *, least: float = 0.0) -> int:
    """Return a duration in whole milliseconds, checked likewise."""
    return round(checked_seconds(duration, what, least=least) * 1000)


__all__ = ["LONGEST", "checked_seconds", "milliseconds"]
