"""What a backend of conversation threads does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write


class Threads(Protocol):
    """Checkpoints, large values and writes of threads. Every call is atomic; what was put is durable on return."""

    async def initialize(self) -> None:
        """Open; a second call changes nothing."""

    async def close(self) -> None:
        """End the connections."""

    async def put(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Store a checkpoint and *values*, its large values that may not be stored yet.

        False, and nothing is stored, if another large value it has was deleted meanwhile: put it with all of them.
        ``StorageError`` if it is a change on top of a parent that was deleted.
        """

    async def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store what a task has written on top of a checkpoint."""

    async def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""

    async def page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return so many checkpoints of *span*, newest first, that come after *after*.

        What has the same id in several threads has an order of its own, always the same.
        """

    async def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy everything of a thread; what the target has already stays as it is."""

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that belong to runs, with their writes, and the values nobody has any more."""

    async def prune(self, thread_ids: Sequence[str]) -> None:
        """Delete all but the newest checkpoint of each namespace, and what that one cannot be read without."""
