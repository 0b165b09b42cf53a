"""The idempotent executor, held to its contract on every idempotency store and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_executor import ExecutorContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis", "memory")


class TestIdempotentExecutor(ExecutorContract):
    """One suite, every column."""
