"""Repositories of failed operations, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_dead_letters import DeadLetterRecords
from holdfast.testing.contract.store_dead_letters_door import DeadLetterDoor, SummaryDoor
from holdfast.testing.contract.store_dead_letters_looking import DeadLetterCleaning, DeadLetterLists
from holdfast.testing.contract.store_dead_letters_replays import DeadLetterReplays

BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "redis")


class TestRecords(DeadLetterRecords):
    """One suite, every column."""


class TestReplays(DeadLetterReplays):
    """One suite, every column."""


class TestLists(DeadLetterLists):
    """One suite, every column."""


class TestCleaning(DeadLetterCleaning):
    """One suite, every column."""


class TestDoor(DeadLetterDoor):
    """One suite, every column."""


class TestSummaryDoor(SummaryDoor):
    """One suite, every column."""
