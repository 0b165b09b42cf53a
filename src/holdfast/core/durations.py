"""Durations as users give them, checked at the door: one that no clock can count is refused by name."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.errors import InvalidDuration
from holdfast.model.workflow import seconds

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration

_MOST_DAYS = 36_500  # a hundred years: what is longer is a mistake, and this every clock still counts
LONGEST = _MOST_DAYS * 86_400.0
_NO_NUMBERS = (str, bytes, bytearray, bool)  # though float() takes them: False is no age, and True no second
SHORTEST_LEASE = 0.001  # databases count in milliseconds, and who holds nothing for no time has nothing


def checked_seconds(
    duration: Duration, what: str, *, least: float = 0.0, most: float = LONGEST, past: bool = False
) -> float:
    """Return a duration in seconds. ``InvalidDuration`` unless it is from *least* to *most*, a hundred years.

    With *past* it may be below 0, as what is left until a moment may be, and is 0 then.
    """
    given: object = duration
    try:
        length = float("nan") if isinstance(given, _NO_NUMBERS) else seconds(duration)
    except (TypeError, ValueError, OverflowError):
        length = float("nan")
    if past and length < 0:
        return 0.0
    if not least <= length <= most:  # nor is it if this is no number
        longest = "a hundred years" if most == LONGEST else f"{most:g} s"
        raise InvalidDuration(
            f"{what} is a number of seconds, or a timedelta, from {least:g} s to {longest}, not {duration!r}."
        )
    return length


def patience(timeout: Duration | None) -> float | None:
    """Return how many seconds to wait, or None for ever. A moment in the past is 0 seconds."""
    return None if timeout is None else checked_seconds(timeout, "timeout", past=True)


def milliseconds(duration: Duration, what: str, *, least: float = 0.0) -> int:
    """Return a duration in whole milliseconds, checked likewise."""
    return round(checked_seconds(duration, what, least=least) * 1000)


def days(number: float, what: str, *, least: float = 0) -> timedelta:
    """Return a number of days as a duration. ``InvalidDuration`` unless it is from *least* to a hundred years."""
    return _span(number, what, least, "days", 86_400)


def minutes(number: float, what: str, *, least: float = 0) -> timedelta:
    """Return a number of minutes as a duration, checked likewise."""
    return _span(number, what, least, "minutes", 60)


def _span(number: object, what: str, least: float, unit: str, length: int) -> timedelta:
    most = int(LONGEST) // length
    # False is no age: taken as 0 it would mean all there is, to those who delete by it.
    if not isinstance(number, int | float) or isinstance(number, bool) or not least <= number <= most:
        raise InvalidDuration(f"{what} is a number of {unit} from {least} to {most}, not {number!r:.50}.")
    return timedelta(seconds=number * length)


__all__ = ["LONGEST", "SHORTEST_LEASE", "checked_seconds", "days", "milliseconds", "minutes", "patience"]
