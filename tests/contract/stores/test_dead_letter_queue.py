"""The small dead letter queue, held to its contract on every database and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_dead_letter_queue import SmallQueue

BACKENDS = ("sqlite", "postgres", "mariadb")


class TestQueue(SmallQueue):
    """One suite, every column."""
