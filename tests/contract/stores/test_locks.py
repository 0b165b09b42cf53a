"""Locks, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_locks import LockContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


class TestLocks(LockContract):
    """One suite, every column."""
