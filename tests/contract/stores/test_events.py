"""Event logs, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_events import EventContract
from holdfast.testing.contract.store_events_following import FollowingContract

BACKENDS = ("sqlite", "postgres", "mariadb", "file")


class TestEventStore(EventContract, FollowingContract):
    """One suite, every column."""
