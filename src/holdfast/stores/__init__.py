"""Reliability state: event log, checkpoints, executions, idempotency keys, tasks, locks, dead letters, breakers.

Each store stands alone, hangs from an application, or comes out of a ``StoreFactory``. What is not used is not loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors import NotFoundError, StorageError
    from holdfast.stores.breakers import (
        CircuitBreakerChange,
        CircuitBreakerCloseAttempt,
        CircuitBreakerOpenAttempt,
        CircuitBreakerStateData,
        CircuitState,
        OpenTime,
    )
    from holdfast.stores.breakers.blocking import (
        InMemoryCircuitBreakerStateRepository,
        RedisCircuitBreakerStateRepository,
        SQLCircuitBreakerStateRepository,
    )
    from holdfast.stores.breakers.documented import CircuitBreakerStateRepository
    from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository
    from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository
    from holdfast.stores.breakers.redis_store import AsyncRedisCircuitBreakerStateRepository
    from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository
    from holdfast.stores.checkpoints.blocking import SyncCheckpointStore
    from holdfast.stores.checkpoints.database import DBCheckpointStore
    from holdfast.stores.checkpoints.disk import DiskStorage
    from holdfast.stores.checkpoints.store import CheckpointStore
    from holdfast.stores.dead_letters import (
        CompressedStatus,
        DeadLetterItem,
        DeadLetterStats,
        DLQCompressedEntry,
        FailedOperationData,
        FailedOperationStatus,
        ReplayEnd,
        ResolutionTrigger,
    )
    from holdfast.stores.dead_letters.interface import FailedOperationRepository
    from holdfast.stores.dead_letters.memory import AsyncInMemoryFailedOperationRepository
    from holdfast.stores.dead_letters.page import FailedOperationPage
    from holdfast.stores.dead_letters.queue import DBDeadLetterQueue, DeadLetterQueue, PersistentDLQ
    from holdfast.stores.dead_letters.queue_blocking import SyncDeadLetterQueue
    from holdfast.stores.dead_letters.redis import AsyncRedisDLQRepository
    from holdfast.stores.dead_letters.repositories import (
        InMemoryFailedOperationRepository,
        RedisDLQRepository,
        SQLFailedOperationRepository,
    )
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository
    from holdfast.stores.dead_letters.sql import AsyncSQLFailedOperationRepository
    from holdfast.stores.events.blocking import SyncEventStore
    from holdfast.stores.events.store import DBEventStoreBackend, SqliteEventStoreBackend, StoredEvent
    from holdfast.stores.executions.blocking import SyncExecutionStore
    from holdfast.stores.executions.database import DBExecutionStore
    from holdfast.stores.executions.memory import InMemoryExecutionStore
    from holdfast.stores.executions.store import Execution, ExecutionStatus, ExecutionStore
    from holdfast.stores.factory import StoreFactory
    from holdfast.stores.flow.asking import WaitingForInput, ask, pause_until
    from holdfast.stores.flow.documented import CheckpointBackend
    from holdfast.stores.flow.file import FileCheckpointBackend
    from holdfast.stores.flow.memory import InMemoryCheckpointBackend
    from holdfast.stores.flow.model import (
        CheckpointBehavior,
        CheckpointStatus,
        FlowCheckpoint,
        NodeCheckpointState,
        PendingInputContext,
    )
    from holdfast.stores.flow.opening import from_url
    from holdfast.stores.flow.redis import RedisCheckpointBackend
    from holdfast.stores.flow.sql import MySQLCheckpointBackend, PostgresCheckpointBackend, SQLiteCheckpointBackend
    from holdfast.stores.flow.steps import aresume, arun_steps, resume, run_steps
    from holdfast.stores.flow.verbs import CheckpointClaim
    from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
    from holdfast.stores.idempotency.database import DBIdempotencyStore
    from holdfast.stores.idempotency.entry import Claim, ClaimState, IdempotencyEntry
    from holdfast.stores.idempotency.executor import IdempotentExecutor, SyncIdempotentExecutor
    from holdfast.stores.idempotency.memory import InMemoryIdempotencyStore
    from holdfast.stores.idempotency.redis import RedisIdempotencyStore
    from holdfast.stores.idempotency.store import IdempotencyStore
    from holdfast.stores.locks.blocking import SyncLockStore
    from holdfast.stores.locks.database import SQLLockStore
    from holdfast.stores.locks.lease import Lease
    from holdfast.stores.locks.redis import RedisLockStore
    from holdfast.stores.locks.store import DistributedLock
    from holdfast.stores.redis import RedisLink
    from holdfast.stores.sync_factory import SyncStoreFactory
    from holdfast.stores.tasks.blocking import SyncTaskQueue
    from holdfast.stores.tasks.blocking_worker import SyncTaskWorker
    from holdfast.stores.tasks.database import SQLTaskQueue
    from holdfast.stores.tasks.redis import RedisTaskQueue
    from holdfast.stores.tasks.store import TaskQueue
    from holdfast.stores.tasks.task import Task, TaskStatus
    from holdfast.stores.tasks.worker import TaskWorker

__all__ = [
    "AsyncCircuitBreakerStateRepository",
    "AsyncFailedOperationRepository",
    "AsyncInMemoryCircuitBreakerStateRepository",
    "AsyncInMemoryFailedOperationRepository",
    "AsyncRedisCircuitBreakerStateRepository",
    "AsyncRedisDLQRepository",
    "AsyncSQLCircuitBreakerStateRepository",
    "AsyncSQLFailedOperationRepository",
    "CheckpointBackend",
    "CheckpointBehavior",
    "CheckpointClaim",
    "CheckpointStatus",
    "CheckpointStore",
    "CircuitBreakerChange",
    "CircuitBreakerCloseAttempt",
    "CircuitBreakerOpenAttempt",
    "CircuitBreakerStateData",
    "CircuitBreakerStateRepository",
    "CircuitState",
    "Claim",
    "ClaimState",
    "CompressedStatus",
    "DBCheckpointStore",
    "DBDeadLetterQueue",
    "DBEventStoreBackend",
    "DBExecutionStore",
    "DBIdempotencyStore",
    "DLQCompressedEntry",
    "DeadLetterItem",
    "DeadLetterQueue",
    "DeadLetterStats",
    "DiskStorage",
    "DistributedLock",
    "Execution",
    "ExecutionStatus",
    "ExecutionStore",
    "FailedOperationData",
    "FailedOperationPage",
    "FailedOperationRepository",
    "FailedOperationStatus",
    "FileCheckpointBackend",
    "FlowCheckpoint",
    "IdempotencyEntry",
    "IdempotencyStore",
    "IdempotentExecutor",
    "InMemoryCheckpointBackend",
    "InMemoryCircuitBreakerStateRepository",
    "InMemoryExecutionStore",
    "InMemoryFailedOperationRepository",
    "InMemoryIdempotencyStore",
    "Lease",
    "MySQLCheckpointBackend",
    "NodeCheckpointState",
    "NotFoundError",
    "OpenTime",
    "PendingInputContext",
    "PersistentDLQ",
    "PostgresCheckpointBackend",
    "RedisCheckpointBackend",
    "RedisCircuitBreakerStateRepository",
    "RedisDLQRepository",
    "RedisIdempotencyStore",
    "RedisLink",
    "RedisLockStore",
    "RedisTaskQueue",
    "ReplayEnd",
    "ResolutionTrigger",
    "SQLCircuitBreakerStateRepository",
    "SQLFailedOperationRepository",
    "SQLLockStore",
    "SQLTaskQueue",
    "SQLiteCheckpointBackend",
    "SqliteEventStoreBackend",
    "StorageError",
    "StoreFactory",
    "StoredEvent",
    "SyncCheckpointStore",
    "SyncDeadLetterQueue",
    "SyncEventStore",
    "SyncExecutionStore",
    "SyncIdempotencyStore",
    "SyncIdempotentExecutor",
    "SyncLockStore",
    "SyncStoreFactory",
    "SyncTaskQueue",
    "SyncTaskWorker",
    "Task",
    "TaskQueue",
    "TaskStatus",
    "TaskWorker",
    "WaitingForInput",
    "aresume",
    "arun_steps",
    "ask",
    "from_url",
    "pause_until",
    "resume",
    "run_steps",
]

# Where each public name is defined; the type checker reads the imports above instead.
_HOMES = {
    "SyncIdempotentExecutor": "idempotency.executor",
    "IdempotentExecutor": "idempotency.executor",
    "StoreFactory": "factory",
    "SyncStoreFactory": "sync_factory",
    "SyncLockStore": "locks.blocking",
    "SQLLockStore": "locks.database",
    "Lease": "locks.lease",
    "RedisLockStore": "locks.redis",
    "DistributedLock": "locks.store",
    "SyncTaskQueue": "tasks.blocking",
    "SyncTaskWorker": "tasks.blocking_worker",
    "SQLTaskQueue": "tasks.database",
    "RedisTaskQueue": "tasks.redis",
    "TaskQueue": "tasks.store",
    "Task": "tasks.task",
    "TaskStatus": "tasks.task",
    "TaskWorker": "tasks.worker",
    "CircuitBreakerChange": "breakers",
    "CircuitBreakerCloseAttempt": "breakers",
    "CircuitBreakerOpenAttempt": "breakers",
    "CircuitBreakerStateData": "breakers",
    "CircuitState": "breakers",
    "OpenTime": "breakers",
    "InMemoryCircuitBreakerStateRepository": "breakers.blocking",
    "RedisCircuitBreakerStateRepository": "breakers.blocking",
    "SQLCircuitBreakerStateRepository": "breakers.blocking",
    "CircuitBreakerStateRepository": "breakers.documented",
    "AsyncCircuitBreakerStateRepository": "breakers.interface",
    "AsyncInMemoryCircuitBreakerStateRepository": "breakers.memory",
    "AsyncRedisCircuitBreakerStateRepository": "breakers.redis_store",
    "AsyncSQLCircuitBreakerStateRepository": "breakers.sql_store",
    "DeadLetterItem": "dead_letters",
    "DeadLetterStats": "dead_letters",
    "CompressedStatus": "dead_letters",
    "DLQCompressedEntry": "dead_letters",
    "FailedOperationData": "dead_letters",
    "FailedOperationStatus": "dead_letters",
    "ReplayEnd": "dead_letters",
    "ResolutionTrigger": "dead_letters",
    "FailedOperationRepository": "dead_letters.interface",
    "AsyncInMemoryFailedOperationRepository": "dead_letters.memory",
    "FailedOperationPage": "dead_letters.page",
    "DBDeadLetterQueue": "dead_letters.queue",
    "DeadLetterQueue": "dead_letters.queue",
    "PersistentDLQ": "dead_letters.queue",
    "SyncDeadLetterQueue": "dead_letters.queue_blocking",
    "AsyncRedisDLQRepository": "dead_letters.redis",
    "AsyncFailedOperationRepository": "dead_letters.repository",
    "AsyncSQLFailedOperationRepository": "dead_letters.sql",
    "InMemoryFailedOperationRepository": "dead_letters.repositories",
    "RedisDLQRepository": "dead_letters.repositories",
    "SQLFailedOperationRepository": "dead_letters.repositories",
    "SyncEventStore": "events.blocking",
    "DBEventStoreBackend": "events.store",
    "SqliteEventStoreBackend": "events.store",
    "StoredEvent": "events.store",
    "SyncExecutionStore": "executions.blocking",
    "DBExecutionStore": "executions.database",
    "InMemoryExecutionStore": "executions.memory",
    "Execution": "executions.store",
    "ExecutionStatus": "executions.store",
    "ExecutionStore": "executions.store",
    "SyncCheckpointStore": "checkpoints.blocking",
    "DiskStorage": "checkpoints.disk",
    "DBCheckpointStore": "checkpoints.database",
    "CheckpointStore": "checkpoints.store",
    "SyncIdempotencyStore": "idempotency.blocking",
    "InMemoryIdempotencyStore": "idempotency.memory",
    "RedisIdempotencyStore": "idempotency.redis",
    "DBIdempotencyStore": "idempotency.database",
    "IdempotencyStore": "idempotency.store",
    "IdempotencyEntry": "idempotency.entry",
    "ClaimState": "idempotency.entry",
    "Claim": "idempotency.entry",
    "RedisLink": "redis",
    "CheckpointBackend": "flow.documented",
    "CheckpointClaim": "flow.verbs",
    "CheckpointBehavior": "flow.model",
    "CheckpointStatus": "flow.model",
    "FlowCheckpoint": "flow.model",
    "NodeCheckpointState": "flow.model",
    "PendingInputContext": "flow.model",
    "FileCheckpointBackend": "flow.file",
    "InMemoryCheckpointBackend": "flow.memory",
    "RedisCheckpointBackend": "flow.redis",
    "SQLiteCheckpointBackend": "flow.sql",
    "PostgresCheckpointBackend": "flow.sql",
    "MySQLCheckpointBackend": "flow.sql",
    "from_url": "flow.opening",
    "run_steps": "flow.steps",
    "arun_steps": "flow.steps",
    "resume": "flow.steps",
    "aresume": "flow.steps",
    "ask": "flow.asking",
    "pause_until": "flow.asking",
    "WaitingForInput": "flow.asking",
}


_ERRORS = frozenset({"NotFoundError", "StorageError"})  # the document's names, beside the calls that raise them


def __getattr__(name: str) -> Any:
    """Load a store when somebody asks for it: a program uses two or three of them."""
    if name in _ERRORS:
        return getattr(import_module("holdfast.errors"), name)
    if name in _HOMES:
        return getattr(import_module(f"holdfast.stores.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
