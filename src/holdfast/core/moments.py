"""Moments as users give them, checked at the door, and as databases keep them: milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def checked_moment(moment: object, what: str) -> datetime:
    """Return *moment*; raise ``ConfigurationError``, which begins with *what* it is, unless it is an aware datetime."""
    if not isinstance(moment, datetime):
        raise ConfigurationError(f"{what} is a datetime with a time zone, not {moment!r:.100}.")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ConfigurationError(
            f"{what} needs a time zone, which {moment.isoformat()} does not have, so it is no moment."
        )
    return moment


def milliseconds_of(moment: datetime) -> int:
    """Return an aware moment, of whatever time zone, in milliseconds since the epoch, exactly."""
    return (moment - _EPOCH) // _MILLISECOND


def moment_of(milliseconds: int) -> datetime:
    """Return a moment, in UTC, from milliseconds since the epoch, exactly."""
    return _EPOCH + milliseconds * _MILLISECOND


__all__ = ["checked_moment", "milliseconds_of", "moment_of"]
