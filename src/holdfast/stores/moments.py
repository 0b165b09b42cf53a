"""Moments as the stores write them: ISO-8601 text in UTC, all of one width, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime | str) -> str:
    """Return a moment as it stands in the tables; ``ValueError`` unless it is one and says its time zone."""
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if at.tzinfo is None:
        raise ValueError(f"The time {at.isoformat()} does not say its time zone: give an aware one, such as in UTC.")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def utc_text_of(seconds: float) -> str:
    """Return the moment so many seconds after the epoch as it would stand in the tables."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


__all__ = ["utc_text", "utc_text_of"]
