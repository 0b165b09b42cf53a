"""What whoever holds a lock has of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """A lock that *owner* holds until *expires_at*, by the clock of the storage, unless it is extended.

    *token* is greater than that of every lease of this key before. Hand it to what you write to, and have that refuse
    a smaller one than it has seen: a holder that was paused for longer than its lease is then harmless.
    """

    key: str
    owner: str
    token: int
    expires_at: datetime


def checked_lease(lease: Lease) -> Lease:
    """Return *lease*; raise ``TypeError`` for its key, or the None of a lock that was not acquired."""
    if not isinstance(lease, Lease):
        raise TypeError(f"A lock is given back by the Lease that acquire() has returned, not by {lease!r:.50}.")
    return lease


@dataclass(frozen=True, slots=True)
class Held:
    """A lock is somebody else's, for so many seconds more unless it is extended."""

    seconds: float


def lease_of(key: str, owner: str, token: int, expires_at_ms: float) -> Lease:
    """Make a lease of what is stored."""
    return Lease(key, owner, token, datetime.fromtimestamp(expires_at_ms / 1000, UTC))


__all__ = ["Held", "Lease", "checked_lease", "lease_of"]
