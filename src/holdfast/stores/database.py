"""The stores of one database: one connection manager, one pipeline, each store made when it is first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.migrations.migrator import SCHEMA
from holdfast.db.pipeline.pipeline import Pipeline
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.model.world import World
    from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository
    from holdfast.stores.checkpoints.database import DBCheckpointStore
    from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
    from holdfast.stores.events.store import DBEventStoreBackend
    from holdfast.stores.executions.database import DBExecutionStore
    from holdfast.stores.flow.documented import CheckpointBackend
    from holdfast.stores.idempotency.database import DBIdempotencyStore
    from holdfast.stores.locks.database import SQLLockStore
    from holdfast.stores.opened import Closable
    from holdfast.stores.tasks.database import SQLTaskQueue


S = TypeVar("S", bound="Closable")


class DatabaseStores:
    """Every store there is, over *manager*, whose tables are up to date. What was asked for once stays the same object.

    Their writes share a pipeline of their own, so that whatever is written at one moment is one commit. The manager
    stays open when they are closed.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        self._manager = manager
        self._pipeline = Pipeline(manager)
        self._options: dict[str, Any] = {
            "schema": schema,
            "world": world,
            "clock_offset_ms": clock_offset_ms,
            "pipeline": self._pipeline,
        }
        self._making = threading.RLock()  # threads of the sync colour ask too
        self._made: dict[Any, Any] = {}
        self._flow: CheckpointBackend | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def open(self) -> None:
        """Begin to take writes, on this loop."""
        await self._pipeline.open()

    async def close(self) -> None:
        """Finish what is being written, and end those who follow or wait."""
        while self._closing:
            await self._closing.pop()()
        await self._pipeline.close()

    async def ready(self, store: S) -> S:
        """Return *store*: its tables are there."""
        return store

    @property
    def events(self) -> DBEventStoreBackend:
        """The event log."""
        from holdfast.stores.events.store import DBEventStoreBackend  # noqa: PLC0415 -- what is not used is not loaded

        return self._one(DBEventStoreBackend)

    @property
    def checkpoints(self) -> DBCheckpointStore:
        """Named binary snapshots."""
        from holdfast.stores.checkpoints.database import DBCheckpointStore  # noqa: PLC0415 -- as above

        return self._one(DBCheckpointStore)

    @property
    def executions(self) -> DBExecutionStore:
        """What became of executions."""
        from holdfast.stores.executions.database import DBExecutionStore  # noqa: PLC0415 -- as above

        return self._one(DBExecutionStore)

    @property
    def idempotency(self) -> DBIdempotencyStore:
        """Idempotency keys."""
        from holdfast.stores.idempotency.database import DBIdempotencyStore  # noqa: PLC0415 -- as above

        return self._one(DBIdempotencyStore)

    @property
    def tasks(self) -> SQLTaskQueue:
        """The task queue; a task that had its last attempt becomes a dead letter here."""
        from holdfast.stores.tasks.database import SQLTaskQueue  # noqa: PLC0415 -- as above

        return self._one(SQLTaskQueue, dead_letters=self.dead_letters)

    @property
    def locks(self) -> SQLLockStore:
        """Locks with fencing tokens."""
        from holdfast.stores.locks.database import SQLLockStore  # noqa: PLC0415 -- as above

        return self._one(SQLLockStore)

    @property
    def dead_letters(self) -> DBDeadLetterQueue:
        """Dead letters, by the small door."""
        from holdfast.stores.dead_letters.queue import DBDeadLetterQueue  # noqa: PLC0415 -- as above

        return self._one(DBDeadLetterQueue)

    @property
    def breakers(self) -> AsyncSQLCircuitBreakerStateRepository:
        """States of circuit breakers."""
        from holdfast.stores.breakers.sql_store import (  # noqa: PLC0415 -- as above
            AsyncSQLCircuitBreakerStateRepository,
        )

        return self._one(AsyncSQLCircuitBreakerStateRepository)

    @property
    def flow_checkpoints(self) -> CheckpointBackend:
        """Snapshots of flows, for both colours: its connections are its own, and opened by the first call."""
        with self._making:
            if self._flow is None:
                self._flow = self._flow_backend()
                self._closing.append(self._flow.aclose)
            return self._flow

    def _flow_backend(self) -> CheckpointBackend:
        from holdfast.stores.flow import sql  # noqa: PLC0415 -- as above
        from holdfast.stores.flow.queries import TABLE  # noqa: PLC0415

        url, surroundings = self._manager.url, {name: self._options[name] for name in ("world", "clock_offset_ms")}
        if url.dialect is DialectName.POSTGRES:
            table_name = f"{self._options['schema']}.{TABLE}"
            return sql.PostgresCheckpointBackend(url.secret_text(), table_name, **surroundings)
        if url.dialect is DialectName.MYSQL:
            return sql.MySQLCheckpointBackend(url.secret_text(), **surroundings)
        return sql.SQLiteCheckpointBackend(url.secret_text(), **surroundings)

    def of_class(self, make: Callable[..., S], **more: Any) -> S:
        """Return the store of a class that this does not name, made with *more* when it is first asked for."""
        return self._one(make, **more)

    def _one(self, make: Callable[..., S], **more: Any) -> S:
        with self._making:
            if make not in self._made:
                store = self._made[make] = make(self._manager, **self._options, **more)
                self._closing.append(store.close)
            made: S = self._made[make]
            return made


__all__ = ["DatabaseStores"]
