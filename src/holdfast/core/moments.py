"""Moments as users give them, checked at the door: what is none, or has no time zone, is refused by name."""

from __future__ import annotations

from datetime import datetime

from holdfast.errors import ConfigurationError


def checked_moment(moment: object, what: str) -> datetime:
    """Return *moment*; raise ``ConfigurationError``, which begins with *what* it is, unless it is an aware datetime."""
    if not isinstance(moment, datetime):
        raise ConfigurationError(f"{what} is a datetime with a time zone, not {moment!r:.100}.")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ConfigurationError(
            f"{what} needs a time zone, which {moment.isoformat()} does not have, so it is no moment."
        )
    return moment


__all__ = ["checked_moment"]
