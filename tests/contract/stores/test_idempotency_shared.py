"""Idempotency stores that several handles share."""

from __future__ import annotations

from holdfast.testing.contract.store_idempotency import SharedIdempotencyContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


class TestSharedIdempotencyStore(SharedIdempotencyContract):
    """One suite, every column."""
