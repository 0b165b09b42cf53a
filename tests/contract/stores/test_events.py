"""Event logs, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_events import EventContract

BACKENDS = ("sqlite", "postgres", "mariadb", "file")


class TestEventStore(EventContract):
    """One suite, every column."""
