"""Backends of flow checkpoints for the suites, behind one async face in both colours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.stores import (
    CheckpointStatus,
    FileCheckpointBackend,
    FlowCheckpoint,
    InMemoryCheckpointBackend,
    MySQLCheckpointBackend,
    PostgresCheckpointBackend,
    RedisCheckpointBackend,
    SQLiteCheckpointBackend,
)
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_ground import Threaded

if TYPE_CHECKING:
    from holdfast.stores import CheckpointBackend
    from holdfast.testing.contract.store_ground import Ground

BACKENDS = ("sqlite", "postgres", "mariadb", "redis", "memory", "file")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

_SQL: dict[str, Any] = {
    "sqlite": SQLiteCheckpointBackend,
    "postgres": PostgresCheckpointBackend,
    "mariadb": MySQLCheckpointBackend,
}


class AsyncFace:
    """A backend whose calls for tasks go by their plain names."""

    def __init__(self, backend: CheckpointBackend) -> None:
        self.backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, f"a{name}")


def make_backend(ground: Ground, **options: Any) -> CheckpointBackend:
    """Return one more backend over what the test has to itself; of "memory" there is one in a test."""
    name = ground.venue.name
    if name in _SQL:
        options = {"table_name": f"flow_{ground.prefix}", "clock_offset_ms": ground.clock_offset_ms, **options}
        made: CheckpointBackend = _SQL[name](ground.venue.url, world=ground.world, **options)
        return made
    if name == "redis":
        options.pop("ttl", None)
        options = {"prefix": f"{{{ground.prefix}}}:", "clock_offset_key": ground.clock_offset_key, **options}
        return RedisCheckpointBackend(url=ground.venue.url, world=ground.world, **options)
    if name == "file":
        return FileCheckpointBackend(ground.folder / ground.prefix, world=ground.world, **options)
    return InMemoryCheckpointBackend(world=ground.world, **options)


async def open_backend(ground: Ground, **options: Any) -> Any:
    """Return one more backend, behind the face of the test's colour."""
    backend = make_backend(ground, **options)
    ground.afterwards.push_async_callback(backend.aclose)
    if ground.colour is Colour.ASYNC:
        return AsyncFace(backend)
    threaded = Threaded(backend)
    ground.afterwards.callback(threaded.end)
    return threaded


async def open_two(ground: Ground) -> tuple[Any, Any]:
    """Return two backends over the same checkpoints; in memory they are one."""
    first = await open_backend(ground)
    return first, first if ground.venue.name == "memory" else await open_backend(ground)


def checkpoint(flow_id: str = "flow", run_id: str = "run", minute: int = 0, **fields: Any) -> FlowCheckpoint:
    """Return a checkpoint that was created so many minutes after noon."""
    return FlowCheckpoint(flow_id=flow_id, run_id=run_id, created_at=NOON + timedelta(minutes=minute), **fields)


async def saved(backend: Any, *made: FlowCheckpoint) -> list[str]:
    """Save each; return their ids."""
    return [await backend.save(each) for each in made]


def ended(minute: int, **fields: Any) -> FlowCheckpoint:
    """Return a checkpoint of a run that has ended."""
    return checkpoint(minute=minute, status=CheckpointStatus.COMPLETED, **fields)


__all__ = ["BACKENDS", "NOON", "checkpoint", "ended", "make_backend", "open_backend", "open_two", "saved"]
