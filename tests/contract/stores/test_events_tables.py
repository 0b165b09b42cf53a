"""The tables of the event log, on every database and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_events_tables import EventTableContract

BACKENDS = ("sqlite", "postgres", "mariadb")


class TestEventTables(EventTableContract):
    """One suite, every column."""
