"""How far this process has claimed from queues, so that the next claim begins there and not at the first entry.

On PostgreSQL what was claimed and has ended stays in front of the index of a queue until it is vacuumed, which an old
snapshot puts off for as long as it is held: every claim from the beginning reads all of it again. What waits before the
mark, because it was enqueued by a commit that came late, or has come back, is found by a claim from the beginning.
There is one each second, and whenever nothing is found behind the mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.model.queue import Queue

_FROM_THE_START_EVERY = 1.0


class _Mark(NamedTuple):
    created_at: int
    workflow_id: str
    until: float


class Passed:
    """The marks of one process; *now* is its monotonic clock. Only queues in the order of age have one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._marks: dict[str, _Mark] = {}

    def bound(self, queue: Queue) -> dict[str, Any]:
        """Return the parameters of a claim that begins behind the mark; none of a claim from the beginning."""
        mark = self._marks.get(queue.name)
        if mark is None or queue.priority_enabled or queue.partition_queue or self._now() >= mark.until:
            return {}
        return {"after_ms": mark.created_at, "after_id": mark.workflow_id}

    def note(self, queue: Queue, rows: Sequence[Row], bound: dict[str, Any]) -> None:
        """Set the mark behind *rows*, which a claim with *bound* has given, the oldest first."""
        if rows and not queue.priority_enabled and not queue.partition_queue:
            until = self._marks[queue.name].until if bound else self._now() + _FROM_THE_START_EVERY
            self._marks[queue.name] = _Mark(rows[-1]["created_at"], rows[-1]["workflow_uuid"], until)


__all__ = ["Passed"]
