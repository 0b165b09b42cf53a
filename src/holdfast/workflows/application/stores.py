"""The stores that hang from an application: its database, its connections, made when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.db.portal import Portal
    from holdfast.stores.breakers.blocking import SQLCircuitBreakerStateRepository
    from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository
    from holdfast.stores.checkpoints.blocking import SyncCheckpointStore
    from holdfast.stores.checkpoints.database import DBCheckpointStore
    from holdfast.stores.database import DatabaseStores
    from holdfast.stores.events.blocking import SyncEventStore
    from holdfast.stores.events.store import DBEventStoreBackend
    from holdfast.stores.executions.blocking import SyncExecutionStore
    from holdfast.stores.executions.database import DBExecutionStore
    from holdfast.stores.flow.documented import CheckpointBackend
    from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
    from holdfast.stores.idempotency.database import DBIdempotencyStore
    from holdfast.stores.locks.blocking import SyncLockStore
    from holdfast.stores.locks.database import SQLLockStore
    from holdfast.stores.tasks.blocking import SyncTaskQueue
    from holdfast.stores.tasks.database import SQLTaskQueue
    from holdfast.workflows.dead_letters.face import AsyncDeadLetters, DeadLetters
    from holdfast.workflows.engine.engine import Engine


class AppStores:
    """The stores of an application for code without an event loop; each is there from ``launch`` to ``close``."""

    _engine: Engine
    _portal: Portal

    @property
    def events(self) -> SyncEventStore:
        """The event log: streams of events, numbered without gaps."""
        from holdfast.stores.events.blocking import SyncEventStore  # noqa: PLC0415 -- what is not used is not loaded

        return SyncEventStore(_stores(self._engine).events, self._portal)

    @property
    def checkpoints(self) -> SyncCheckpointStore:
        """Named binary snapshots."""
        from holdfast.stores.checkpoints.blocking import SyncCheckpointStore  # noqa: PLC0415 -- as above

        return SyncCheckpointStore(_stores(self._engine).checkpoints, self._portal)

    @property
    def executions(self) -> SyncExecutionStore:
        """What became of executions that are not runs of this application."""
        from holdfast.stores.executions.blocking import SyncExecutionStore  # noqa: PLC0415 -- as above

        return SyncExecutionStore(_stores(self._engine).executions, self._portal)

    @property
    def idempotency(self) -> SyncIdempotencyStore:
        """Idempotency keys: who may do a thing, and what came of it."""
        from holdfast.stores.idempotency.blocking import SyncIdempotencyStore  # noqa: PLC0415 -- as above

        return SyncIdempotencyStore(_stores(self._engine).idempotency, self._portal)

    @property
    def tasks(self) -> SyncTaskQueue:
        """The task queue."""
        from holdfast.stores.tasks.blocking import SyncTaskQueue  # noqa: PLC0415 -- as above

        return SyncTaskQueue(_stores(self._engine).tasks, self._portal)

    @property
    def locks(self) -> SyncLockStore:
        """Locks with fencing tokens."""
        from holdfast.stores.locks.blocking import SyncLockStore  # noqa: PLC0415 -- as above

        return SyncLockStore(_stores(self._engine).locks, self._portal)

    @property
    def dead_letters(self) -> DeadLetters:
        """Failed work, kept to be replayed."""
        from holdfast.workflows.dead_letters.face import DeadLetters  # noqa: PLC0415 -- as above

        return DeadLetters(_dead_letters(self._engine), self._portal)

    @property
    def breakers(self) -> SQLCircuitBreakerStateRepository:
        """States of circuit breakers, shared by all processes."""
        from holdfast.stores.breakers.blocking import SQLCircuitBreakerStateRepository  # noqa: PLC0415 -- as above

        return SQLCircuitBreakerStateRepository(_stores(self._engine).breakers, self._portal)

    @property
    def flow_checkpoints(self) -> CheckpointBackend:
        """Snapshots of flows."""
        return _stores(self._engine).flow_checkpoints


class AsyncAppStores:
    """The stores of an application on the caller's event loop; each is there from ``launch`` to ``close``."""

    _engine: Engine

    @property
    def events(self) -> DBEventStoreBackend:
        """The event log: streams of events, numbered without gaps."""
        return _stores(self._engine).events

    @property
    def checkpoints(self) -> DBCheckpointStore:
        """Named binary snapshots."""
        return _stores(self._engine).checkpoints

    @property
    def executions(self) -> DBExecutionStore:
        """What became of executions that are not runs of this application."""
        return _stores(self._engine).executions

    @property
    def idempotency(self) -> DBIdempotencyStore:
        """Idempotency keys: who may do a thing, and what came of it."""
        return _stores(self._engine).idempotency

    @property
    def tasks(self) -> SQLTaskQueue:
        """The task queue."""
        return _stores(self._engine).tasks

    @property
    def locks(self) -> SQLLockStore:
        """Locks with fencing tokens."""
        return _stores(self._engine).locks

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """Failed work, kept to be replayed."""
        return _dead_letters(self._engine)

    @property
    def breakers(self) -> AsyncSQLCircuitBreakerStateRepository:
        """States of circuit breakers, shared by all processes."""
        return _stores(self._engine).breakers

    @property
    def flow_checkpoints(self) -> CheckpointBackend:
        """Snapshots of flows."""
        return _stores(self._engine).flow_checkpoints


def _stores(engine: Engine) -> DatabaseStores:
    engine.check_launched()
    return engine.stores


def _dead_letters(engine: Engine) -> AsyncDeadLetters:
    engine.check_launched()
    return engine.dead_letters
