"""What there is to do, asked in one statement for all queues: the whole cost of a process at rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.model.queue import Queue
from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.workflows.queues.store import queue_of

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.workflows.queues.store import QueueStore

_MOVED_AT_ONCE = 500

# Released and handed-over runs, and those that were started from outside. It has no limits and cannot be paused.
INTERNAL = Queue(queue_id=INTERNAL_QUEUE, name=INTERNAL_QUEUE, priority_enabled=True)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found. ``queues`` are those this process listens to; ``waiting`` names those in which runs wait.

    *due_in* is the seconds until the next delayed run is due, 0 or less if one is; *slot_in* the same of schedules.
    """

    queues: dict[str, Queue]
    waiting: frozenset[str]
    due_in: float | None
    overdue: bool
    parked: bool
    slot_in: float | None = None


class Surveys:
    """Looks at all queues. *listens* are those to claim from; None for every one that is registered, at any time."""

    def __init__(self, store: QueueStore, listens: frozenset[str] | None) -> None:
        self._store = store
        self._listens = listens
        store.claims_here = True

    async def survey(self) -> Survey:
        """Look at everything, without a lock."""
        store = self._store
        rows = await store.manager.fetch(store.queries["queues_survey"], internal_queue=INTERNAL_QUEUE)
        first = rows[0]
        found = [row for row in rows if row["name"] is not None and self._listens_to(row["name"])]
        queues = {row["name"]: queue_of(row) for row in found}
        queues = {INTERNAL_QUEUE: INTERNAL} | {k: v for k, v in store.in_memory.items() if k not in queues} | queues
        waiting = {row["name"] for row in found if row["waiting"]} | set(store.in_memory)
        if first["released"]:
            waiting.add(INTERNAL_QUEUE)
        return Survey(
            queues,
            frozenset(waiting),
            _seconds_until(first, "due_ms"),
            overdue=bool(first["overdue"]),
            parked=bool(first["parked"]),
            slot_in=_seconds_until(first, "slot_ms"),
        )

    async def move_due(self) -> int:
        """Put delayed runs that are due into their queues, a bounded number; return how many were moved."""
        store = self._store
        moved = 0
        while True:
            now = await store.manager.execute(store.queries["runs_due"], most=_MOVED_AT_ONCE)
            moved += now
            if now < _MOVED_AT_ONCE:
                return moved

    def _listens_to(self, name: str) -> bool:
        return self._listens is None or name in self._listens


def _seconds_until(row: Row, column: str) -> float | None:
    return None if row[column] is None else float(row[column] - row["now_ms"]) / 1000


__all__ = ["INTERNAL", "Survey", "Surveys"]
