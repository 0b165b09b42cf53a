"""How each kind of single value is written in portable JSON, and which of them are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DECIMAL_DIGITS = 10_000
"""How long a Decimal may be when written out without an exponent."""

SETTLED: frozenset[type] = frozenset({bool, NoneType, UUID, date, timedelta, bytes, bytearray, memoryview})
"""Types of which the encoder writes every value by our rules."""


class UnfitError(Exception):
    """A value cannot be written; the text says why. Who knows its path turns this into the error that users see."""


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnfitError("its text has a lone surrogate, which UTF-8 cannot hold; store it as bytes") from None
    return str.__str__(value)


def _int(value: int) -> int:
    number = int.__index__(value)
    try:
        str(number)
    except ValueError:
        raise UnfitError(f"an integer of {number.bit_length()} bits has too many digits to be read back") from None
    return number


def _float(value: float) -> float:
    if not isfinite(value):
        raise UnfitError("NaN and Infinity have no place in JSON; use None")
    return float.__float__(value)


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise UnfitError("NaN and Infinity have no place in JSON; use None")
    if abs(value.adjusted()) > MAX_DECIMAL_DIGITS or len(value.as_tuple().digits) > MAX_DECIMAL_DIGITS:
        raise UnfitError(f"a Decimal is written without exponent, in at most {MAX_DECIMAL_DIGITS} digits")
    return format(value, "f")


def _datetime(value: datetime) -> datetime:
    try:
        utc = value.replace(tzinfo=UTC) if value.utcoffset() is None else value.astimezone(UTC)
    except OverflowError:
        raise UnfitError("in UTC its year is not between 1 and 9999") from None
    return datetime(*utc.timetuple()[:6], utc.microsecond, tzinfo=UTC)


def _date(value: date) -> date:
    return date(value.year, value.month, value.day)


def _time(value: time) -> time:
    if value.tzinfo is not None:
        raise UnfitError("a time of day with a time zone means nothing without its date; store a datetime")
    return time(value.hour, value.minute, value.second, value.microsecond)


def _timedelta(value: timedelta) -> timedelta:
    return timedelta(value.days, value.seconds, value.microseconds)


def _uuid(value: UUID) -> UUID:
    return UUID(int=value.int)


SCALARS: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: _int,
    float: _float,
    Decimal: _decimal,
    datetime: _datetime,
    date: _date,
    time: _time,
    timedelta: _timedelta,
    UUID: _uuid,
    bytes: bytes,
    bytearray: bytes,
}
"""For a type and its subclasses: returns what the encoder writes by our rules, or raises ``UnfitError``."""


def _is_utc(value: datetime) -> bool:
    return value.tzinfo is UTC


def _is_plain(value: Decimal) -> bool:
    return value.is_finite() and "E" not in str(value)


def _is_naive(value: time) -> bool:
    return value.tzinfo is None


CHECKS: dict[type, Callable[[Any], bool]] = {
    float: isfinite,
    datetime: _is_utc,
    Decimal: _is_plain,
    time: _is_naive,
}
"""For types of which the encoder writes some values by our rules: whether it does so for this one."""

__all__ = ["CHECKS", "SCALARS", "SETTLED", "UnfitError"]
