"""Breakers that share a repository, on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_breakers_shared import SharedBreakers

BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "redis")


class TestShared(SharedBreakers):
    """One suite, every column."""
