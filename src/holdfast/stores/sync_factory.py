"""``SyncStoreFactory``: the stores of a program that has no event loop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.db.migrations.migrator import SCHEMA
from holdfast.db.portal import Portal
from holdfast.stores.factory import FOLDER, StoreFactory

if TYPE_CHECKING:
    import os
    from collections.abc import Coroutine
    from typing import Self

    from holdfast.model.world import World
    from holdfast.stores.checkpoints.blocking import SyncCheckpointStore
    from holdfast.stores.dead_letters.queue_blocking import SyncDeadLetterQueue
    from holdfast.stores.events.blocking import SyncEventStore
    from holdfast.stores.executions.blocking import SyncExecutionStore
    from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
    from holdfast.stores.locks.blocking import SyncLockStore
    from holdfast.stores.tasks.blocking import SyncTaskQueue

T = TypeVar("T")


class SyncStoreFactory:
    """Makes the stores of a program without an event loop; takes what ``StoreFactory`` takes, safe for any threads.

    Its loop runs in a thread of its own from the first call on, until ``close``.
    """

    _default: ClassVar[SyncStoreFactory | None] = None
    _choosing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        database_url: str | os.PathLike[str] | None = None,
        *,
        queue_url: str | None = None,
        folder: str | os.PathLike[str] = FOLDER,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
        **connection: Any,
    ) -> None:
        self._factory = StoreFactory(
            database_url,
            queue_url=queue_url,
            folder=folder,
            schema=schema,
            world=world,
            clock_offset_ms=clock_offset_ms,
            **connection,
        )
        self._portal = Portal("holdfast-stores")

    @classmethod
    def get_default(cls) -> SyncStoreFactory:
        """Return the factory that the whole process shares; made by the first call, as the environment then says."""
        with cls._choosing:
            if cls._default is None:
                cls._default = SyncStoreFactory()
            return cls._default

    @classmethod
    def reset(cls) -> None:
        """Forget the shared factory: the next ``get_default`` makes another. ``close`` the old one before that."""
        with cls._choosing:
            cls._default = None

    @property
    def is_level0(self) -> bool:
        """Whether no database URL is configured."""
        return self._factory.is_level0

    @property
    def database_url(self) -> str | None:
        """The database URL as it was given or found, password included; None at Level 0."""
        return self._factory.database_url

    @property
    def level(self) -> int:
        """0 without a database, 1 with one, 2 if the task queue has a URL of its own."""
        return self._factory.level

    def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing.

        Every ``create_`` method does it too. ``SchemaTooNew`` if a newer release has migrated the database: nothing is
        touched then. At Level 0 there is nothing to do.
        """
        self._call(self._factory.initialize())

    def close(self) -> None:
        """Finish what is being written and end all connections; a second call changes nothing.

        The stores that were made are closed. The factory may be used again and then makes others; what was in memory
        is gone.
        """
        if self._portal.is_running:
            self._portal.call(self._factory.close())
            self._portal.stop()

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_event_store(self) -> SyncEventStore:
        """Return the event log: in the database, or in a SQLite file."""
        from holdfast.stores.events.blocking import SyncEventStore  # noqa: PLC0415 -- what is not used is not loaded

        return SyncEventStore(self._call(self._factory.create_event_store()), self._portal)

    def create_checkpoint_store(self) -> SyncCheckpointStore:
        """Return the checkpoint store: in the database, or in files."""
        from holdfast.stores.checkpoints.blocking import SyncCheckpointStore  # noqa: PLC0415 -- as above

        return SyncCheckpointStore(self._call(self._factory.create_checkpoint_store()), self._portal)

    def create_dlq(self) -> SyncDeadLetterQueue:
        """Return the dead letter queue: in the database, or in a SQLite file."""
        from holdfast.stores.dead_letters.queue_blocking import SyncDeadLetterQueue  # noqa: PLC0415 -- as above

        return SyncDeadLetterQueue(self._call(self._factory.create_dlq()), self._portal)

    def create_execution_store(self) -> SyncExecutionStore:
        """Return the execution store: in the database, or in memory."""
        from holdfast.stores.executions.blocking import SyncExecutionStore  # noqa: PLC0415 -- as above

        return SyncExecutionStore(self._call(self._factory.create_execution_store()), self._portal)

    def create_idempotency_store(self) -> SyncIdempotencyStore | None:
        """Return the idempotency store of the database; None at Level 0, where there is none."""
        from holdfast.stores.idempotency.blocking import SyncIdempotencyStore  # noqa: PLC0415 -- as above

        store = self._call(self._factory.create_idempotency_store())
        return None if store is None else SyncIdempotencyStore(store, self._portal)

    def create_task_queue(self) -> SyncTaskQueue | None:
        """Return the task queue: where the queue URL says, else in the database; None if there is neither."""
        from holdfast.stores.tasks.blocking import SyncTaskQueue  # noqa: PLC0415 -- as above

        queue = self._call(self._factory.create_task_queue())
        return None if queue is None else SyncTaskQueue(queue, self._portal)

    def create_lock_store(self, backend: str | None = None) -> SyncLockStore:
        """Return the lock store: in the database, or in a SQLite file.

        *backend* "sql" is the same; "redis" is Redis at the queue URL, if it is one, else at ``REDIS_URL``.
        """
        from holdfast.stores.locks.blocking import SyncLockStore  # noqa: PLC0415 -- as above

        return SyncLockStore(self._call(self._factory.create_lock_store(backend)), self._portal)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        self._portal.start()
        return self._portal.call(work)


__all__ = ["SyncStoreFactory"]
