"""Moments as the stores write them: ISO-8601 text in UTC, all of one width, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime | str, what: str) -> str:
    """Return a moment as it stands in the tables.

    ``ValueError``, or ``TypeError``, which begins with *what* it is, unless it is one and says its time zone.
    """
    at = checked_datetime(from_text(moment, what), what)
    if at.utcoffset() is None:
        raise ValueError(f"{what} does not say its time zone, {at.isoformat()}: give an aware one, such as in UTC.")
    return in_utc(at, what).isoformat(timespec="microseconds")


def from_text(moment: datetime | str, what: str) -> datetime:
    """Return *moment*, read if it is text; ``ValueError``, which begins with *what* it is, if it is no moment's."""
    if not isinstance(moment, str):
        return moment
    try:
        return datetime.fromisoformat(moment)
    except ValueError:
        raise ValueError(f"{what} is a datetime or its ISO-8601 text, not {moment!r:.50}.") from None


def checked_datetime(moment: object, what: str) -> datetime:
    """Return *moment*; ``TypeError``, which begins with *what* it is, unless it is a datetime."""
    if not isinstance(moment, datetime):
        raise TypeError(f"{what} is a datetime, not {type(moment).__name__}.")
    return moment


def in_utc(moment: datetime, what: str) -> datetime:
    """Return an aware moment in UTC; ``ValueError``, which begins with *what* it is, if no year there is its own.

    One of a class of its own is a plain one afterwards: not every backend can write another.
    """
    try:
        there = moment.astimezone(UTC)
        return there if type(there) is datetime else datetime.combine(there.date(), there.time(), UTC)
    except OverflowError:
        raise ValueError(f"{what} is beyond the years 1 to 9999 in UTC: {moment.isoformat()}.") from None


def utc_text_of(seconds: float) -> str:
    """Return the moment so many seconds after the epoch as it would stand in the tables."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


__all__ = ["checked_datetime", "from_text", "in_utc", "utc_text", "utc_text_of"]
