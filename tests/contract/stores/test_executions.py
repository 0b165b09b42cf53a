"""Execution stores, held to their contract on every backend and in both colours."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import StoreFull
from holdfast.stores import InMemoryExecutionStore
from holdfast.testing.contract.store_executions import ExecutionContract, ids

BACKENDS = ("sqlite", "postgres", "mariadb", "memory")


class TestExecutionStore(ExecutionContract):
    """One suite, every column."""


def test_memory_store_drops_the_execution_that_ended_first() -> None:
    async def scene() -> None:
        store = InMemoryExecutionStore(max_entries=3)
        for name in ("a", "b", "c"):
            await store.record_start(name)
        await store.record_completion("b")
        await store.record_failure("a", "why")
        await store.get_execution("b")  # reading does not make it younger
        await store.record_start("d")
        assert ids([dict(each) for each in await store.list_executions()]) == ["d", "c", "a"]
        await store.record_start("e")
        assert ids([dict(each) for each in await store.list_executions()]) == ["e", "d", "c"]

    asyncio.run(scene())


def test_memory_store_full_of_pending_runs_refuses_the_next() -> None:
    async def scene() -> None:
        store = InMemoryExecutionStore(max_entries=2)
        await store.record_start("a")
        await store.record_start("b")
        with pytest.raises(StoreFull, match="2 executions and all are pending"):
            await store.record_start("c")
        assert await store.get_execution("c") is None
        await store.record_completion("a")
        await store.record_start("c")
        assert await store.get_execution("a") is None

    asyncio.run(scene())


def test_memory_store_holds_ten_thousand() -> None:
    async def scene() -> None:
        store = InMemoryExecutionStore()
        for number in range(10_000):
            await store.record_start(str(number))
        with pytest.raises(StoreFull):
            await store.record_start("one more")

    asyncio.run(scene())
