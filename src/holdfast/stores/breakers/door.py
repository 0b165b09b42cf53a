"""What is let in: values that every storage of breakers keeps as they are. Any other is refused by name.

A value that is written and cannot be read again would take the breaker from the whole fleet.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.core import numbers
from holdfast.core.durations import LONGEST, checked_seconds
from holdfast.errors import InvalidDuration, MisuseError
from holdfast.model.breaker import CircuitState
from holdfast.serialize.exact import clean
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from holdfast.model.breaker import OpenTime

_STATES = frozenset(CircuitState)


def name(service_name: str) -> str:
    """Return the name if every storage can keep it, the same check before every call; ``InvalidKey`` or ``TooLong``."""
    return checked_key(service_name, "name of a breaker")


def token(value: str | None) -> str | None:
    """Return the token of a half-open slot, if it is given; checked as a name is."""
    return None if value is None else checked_key(value, "token of a half-open slot")


def state(value: str) -> str:
    """Return *value* if there is such a state."""
    if value not in _STATES:
        raise MisuseError(f"A breaker cannot be {value!r}: it is {', '.join(each.value for each in CircuitState)}.")
    return CircuitState(value).value


def count(value: int | None, what: str) -> int | None:
    """Return *value* if it can be counted to, or is not given."""
    return None if value is None else numbers.count(value, what)


def operator(controlled_by_id: int | None) -> int | None:
    """Return the id of an operator, if it is given."""
    return None if controlled_by_id is None else numbers.number(controlled_by_id, "controlled_by_id")


def text(value: str, what: str) -> str:
    """Return what a person or an error said, with halves of characters escaped, which no database keeps."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {type(value).__name__}.")
    return clean(value, len(value))


def moment(value: datetime | None, what: str) -> datetime | None:
    """Return *value* in UTC, if it says its zone, as a time that others are compared with must, or is not given."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"{what} is a datetime, not {type(value).__name__}.")
    if value.utcoffset() is None:
        raise MisuseError(f"{what} has no time zone: give an aware datetime, as datetime.now(UTC) is.")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise MisuseError(f"{what} is beyond the years 1 to 9999 in UTC: {value.isoformat()}.") from None


def stuck(stuck_timeout_seconds: float) -> timedelta:
    """Return for how long a trial may be silent."""
    return timedelta(seconds=checked_seconds(stuck_timeout_seconds, "stuck_timeout_seconds"))


def minutes(ttl: object) -> timedelta | None:
    """Return for how long a pin holds; None if for ever, as 0 and less are."""
    if ttl is None:
        return None
    if not isinstance(ttl, int | float) or not ttl <= LONGEST / 60:  # nor if it is NaN
        raise InvalidDuration(f"ttl_minutes is a number of minutes up to a hundred years, or None, not {ttl!r}.")
    return timedelta(minutes=ttl) if ttl > 0 else None


def within(time: timedelta | None) -> timedelta | None:
    """Return the time in which a quorum has to come together, if there is one."""
    if time is None:
        return None
    if not isinstance(time, timedelta):
        raise InvalidDuration(f"within is a timedelta, or None, not {time!r}.")
    checked_seconds(time, "within")
    return time


def open_time(times: OpenTime | None) -> OpenTime | None:
    """Return *times*, if they are given and a clock can count them."""
    if times is not None:
        checked_seconds(times.base, "open_time.base")
        checked_seconds(times.cap, "open_time.cap")
        if not (times.backoff >= 0 and 0 <= times.jitter <= 1):
            raise ValueError("open_time.backoff is a number from 0 on, and open_time.jitter one from 0 to 1.")
    return times


__all__ = [
    "count",
    "minutes",
    "moment",
    "name",
    "open_time",
    "operator",
    "state",
    "stuck",
    "text",
    "token",
    "within",
]
