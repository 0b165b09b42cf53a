"""Those who follow a stream and are at an event, not waiting for one, when their store is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import NotInitialized
from holdfast.stores import DBEventStoreBackend, StoreFactory, SyncStoreFactory

if TYPE_CHECKING:
    from pathlib import Path


def test_iteration_ends_with_the_factory(tmp_path: Path) -> None:
    async def scene() -> None:
        factory = StoreFactory(tmp_path / "events.db")
        store = await factory.create_event_store()
        await store.append("s", [{"type": "e"}])
        seen = []
        async for event in store.follow("s"):
            seen.append(event["sequence"])
            await factory.close()
        assert seen == [1]

    asyncio.run(scene())


def test_iteration_ends_with_the_factory_in_a_thread(tmp_path: Path) -> None:
    factory = SyncStoreFactory(tmp_path / "events.db")
    store = factory.create_event_store()
    store.append("s", [{"type": "e"}])
    seen = []
    for event in store.follow("s"):
        seen.append(event["sequence"])
        factory.close()
    assert seen == [1]
    with pytest.raises(NotInitialized):
        next(store.follow("s"))  # one that begins now is told


def test_iteration_over_a_manager_that_was_closed_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        manager = ConnectionManager(tmp_path / "events.db")
        store = DBEventStoreBackend(manager)
        await store.initialize()
        await store.append("s", [{"type": "e"}])
        events = store.follow("s")
        assert (await anext(events))["sequence"] == 1
        await manager.close()
        with pytest.raises(NotInitialized):
            await anext(events)

    asyncio.run(scene())
