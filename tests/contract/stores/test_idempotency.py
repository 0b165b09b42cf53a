"""Idempotency stores, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_idempotency import IdempotencyContract
from holdfast.testing.contract.store_idempotency_owners import IdempotencyOwnersContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis", "memory")


class TestIdempotencyStore(IdempotencyContract, IdempotencyOwnersContract):
    """One suite, every column."""
