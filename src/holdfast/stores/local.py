"""The stores of Level 0, where no database was named: files in a folder, and memory."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from holdfast.db.manager import ConnectionManager

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.model.world import World
    from holdfast.stores.checkpoints.disk import DiskStorage
    from holdfast.stores.dead_letters.queue import PersistentDLQ
    from holdfast.stores.events.store import SqliteEventStoreBackend
    from holdfast.stores.executions.memory import InMemoryExecutionStore
    from holdfast.stores.locks.database import SQLLockStore
    from holdfast.stores.opened import Openable


S = TypeVar("S", bound="Openable")


class LocalStores:
    """Stores in *folder*: ``events.sqlite``, ``dead_letters.sqlite``, ``locks.sqlite``, ``checkpoints/``; and memory.

    A file is made when its store is first asked for. There is no idempotency store and no task queue.
    """

    idempotency = None
    tasks = None

    def __init__(self, folder: Path, *, world: World | None = None) -> None:
        self._folder = folder
        self._world = world
        self._ready: list[Openable] = []

    async def ready(self, store: S) -> S:
        """Return *store* when its place has been made."""
        if store not in self._ready:
            self._folder.mkdir(parents=True, exist_ok=True)
            await store.initialize()
            self._ready.append(store)
        return store

    async def close(self) -> None:
        """Finish what is being written, and close the files."""
        while self._ready:
            await self._ready.pop().close()
        if self._lock_manager.is_open:
            await self._lock_manager.close()

    @cached_property
    def events(self) -> SqliteEventStoreBackend:
        """The event log."""
        from holdfast.stores.events.store import SqliteEventStoreBackend  # noqa: PLC0415 -- what is not used is not loaded

        return SqliteEventStoreBackend(self._folder / "events.sqlite", world=self._world)

    @cached_property
    def checkpoints(self) -> DiskStorage:
        """Named binary snapshots."""
        from holdfast.stores.checkpoints.disk import DiskStorage  # noqa: PLC0415 -- as above

        return DiskStorage(self._folder / "checkpoints", world=self._world)

    @cached_property
    def executions(self) -> InMemoryExecutionStore:
        """What became of executions."""
        from holdfast.stores.executions.memory import InMemoryExecutionStore  # noqa: PLC0415 -- as above

        return InMemoryExecutionStore(world=self._world)

    @cached_property
    def dead_letters(self) -> PersistentDLQ:
        """Dead letters, by the small door."""
        from holdfast.stores.dead_letters.queue import PersistentDLQ  # noqa: PLC0415 -- as above

        return PersistentDLQ(self._folder / "dead_letters.sqlite", world=self._world)

    @cached_property
    def locks(self) -> SQLLockStore:
        """Locks with fencing tokens, between the processes of this machine."""
        from holdfast.stores.locks.database import SQLLockStore  # noqa: PLC0415 -- as above

        return SQLLockStore(self._lock_manager, world=self._world)

    @cached_property
    def _lock_manager(self) -> ConnectionManager:
        return ConnectionManager(self._folder / "locks.sqlite")


__all__ = ["LocalStores"]
