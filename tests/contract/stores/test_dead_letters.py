"""Repositories of failed operations, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_dead_letters import DeadLetterRecords, DeadLetterReplays
from holdfast.testing.contract.store_dead_letters_looking import DeadLetterCleaning, DeadLetterLists

BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "redis")


class TestRecords(DeadLetterRecords):
    """One suite, every column."""


class TestReplays(DeadLetterReplays):
    """One suite, every column."""


class TestLists(DeadLetterLists):
    """One suite, every column."""


class TestCleaning(DeadLetterCleaning):
    """One suite, every column."""
