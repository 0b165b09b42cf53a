"""Idempotency stores that several handles share."""

from __future__ import annotations

from holdfast.testing.contract.store_idempotency_shared import SharedIdempotencyContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


class TestSharedIdempotencyStore(SharedIdempotencyContract):
    """One suite, every column."""
