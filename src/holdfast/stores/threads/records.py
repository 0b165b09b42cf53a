"""What is kept of a conversation thread. Its contents are bytes, which only the caller can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Place(NamedTuple):
    """Where a checkpoint is: in a namespace of a thread, under its own id. Ids rise with time."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


class LargeValue(NamedTuple):
    """One version of a value that is kept once, beside the checkpoints that have it."""

    channel: str
    version: str
    format: str
    data: bytes


class Saved(NamedTuple):
    """A checkpoint: its own bytes, its metadata as JSON, and the version of each large value it has, by channel."""

    place: Place
    parent_id: str | None
    run_id: str | None
    format: str
    data: bytes
    metadata: str
    large: Mapping[str, str]


class Write(NamedTuple):
    """What a task has written on top of a checkpoint; one with a negative *idx* replaces the one before."""

    task_id: str
    idx: int
    channel: str
    format: str
    data: bytes
    task_path: str


class Found(NamedTuple):
    """A checkpoint with everything that belongs to it; writes are in the order in which tasks are applied."""

    saved: Saved
    values: tuple[LargeValue, ...]
    writes: tuple[Write, ...]


class Span(NamedTuple):
    """Which checkpoints are wanted, newest first; None stands for all."""

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None


def in_order(writes: list[Write]) -> tuple[Write, ...]:
    """Return *writes* in the order in which the tasks of a step are applied."""
    return tuple(sorted(writes, key=lambda write: (write.task_path, write.task_id, write.idx)))
