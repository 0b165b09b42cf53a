"""Flow checkpoints: snapshots of a flow of many nodes that survive a crash, and the waits of its nodes."""

from holdfast.errors import DamagedCheckpoint, NotFoundError, StaleCheckpoint, StorageError
from holdfast.stores.flow.asking import WaitingForInput, ask, pause_until
from holdfast.stores.flow.backend import CheckpointBackend, CheckpointClaim
from holdfast.stores.flow.file import FileCheckpointBackend
from holdfast.stores.flow.memory import InMemoryCheckpointBackend
from holdfast.stores.flow.model import (
    CheckpointBehavior,
    CheckpointStatus,
    FlowCheckpoint,
    NodeCheckpointState,
    PendingInputContext,
)
from holdfast.stores.flow.redis import RedisCheckpointBackend
from holdfast.stores.flow.sql import MySQLCheckpointBackend, PostgresCheckpointBackend, SQLiteCheckpointBackend
from holdfast.stores.flow.steps import aresume, arun_steps, resume, run_steps

__all__ = [
    "CheckpointBackend",
    "CheckpointBehavior",
    "CheckpointClaim",
    "CheckpointStatus",
    "DamagedCheckpoint",
    "FileCheckpointBackend",
    "FlowCheckpoint",
    "InMemoryCheckpointBackend",
    "MySQLCheckpointBackend",
    "NodeCheckpointState",
    "NotFoundError",
    "PendingInputContext",
    "PostgresCheckpointBackend",
    "RedisCheckpointBackend",
    "SQLiteCheckpointBackend",
    "StaleCheckpoint",
    "StorageError",
    "WaitingForInput",
    "aresume",
    "arun_steps",
    "ask",
    "pause_until",
    "resume",
    "run_steps",
]
