"""The execution store in memory: for one process, and lost when it ends."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.core.numbers import MOST_BITS, count
from holdfast.errors import StoreFull
from holdfast.model.world import RealWorld
from holdfast.stores.executions.store import ExecutionStatus, ExecutionStore, not_pending, taken
from holdfast.stores.moments import utc_text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.model.world import World
    from holdfast.stores.executions.store import Ended, Started

MOST = 10_000


class InMemoryExecutionStore(ExecutionStore):
    """Executions in memory, at most *max_entries*.

    A start that finds it full drops the execution that ended first. Pending ones are never dropped: a store full of
    them refuses the next start with ``StoreFull``.
    """

    def __init__(self, max_entries: int = MOST, *, world: World | None = None) -> None:
        super().__init__()
        self._most = count(max_entries, "max_entries", least=1, most=MOST_BITS)
        self._world = world or RealWorld()
        self._rows: dict[str, dict[str, Any]] = {}  # in the order of their starts
        self._ended: dict[str, None] = {}  # in the order of their ends

    async def _start(self, started: Started) -> None:
        there = self._rows.get(started.run_id)
        if there is not None:
            raise taken(started.run_id, there["status"])
        if len(self._rows) >= self._most:
            self._forget_one()
        self._rows[started.run_id] = {
            "run_id": started.run_id,
            "workflow_id": started.workflow_id,
            "status": ExecutionStatus.PENDING,
            "parameters": started.parameters,
            "result": None,
            "error": None,
            "started_at": utc_text_of(self._world.now()),
            "completed_at": None,
            "worker_id": started.worker_id,
            "metadata_json": started.metadata,
        }

    async def _end(self, ended: Ended) -> None:
        row = self._rows.get(ended.run_id)
        if row is None or row["status"] is not ExecutionStatus.PENDING:
            raise not_pending(ended.run_id, None if row is None else row["status"], ended.status)
        row |= {
            "status": ended.status,
            "result": ended.result,
            "error": ended.error,
            "completed_at": utc_text_of(self._world.now()),
        }
        self._ended[ended.run_id] = None

    async def _find(self, run_id: str) -> Mapping[str, Any] | None:
        return self._rows.get(run_id)

    async def _list(
        self, status: ExecutionStatus | None, workflow_id: str | None, limit: int, after: str | None
    ) -> list[Mapping[str, Any]]:
        fitting = (
            row
            for row in self._newest_first(after)
            if (status is None or row["status"] is status)
            and (workflow_id is None or row["workflow_id"] == workflow_id)
        )
        return list(islice(fitting, limit))

    def _newest_first(self, after: str | None) -> Iterable[Mapping[str, Any]]:
        rows = reversed(self._rows.values())
        if after is not None:
            any(row["run_id"] == after for row in rows)  # goes on to just behind it
        return rows

    def _forget_one(self) -> None:
        oldest = next(iter(self._ended), None)
        if oldest is None:
            raise StoreFull(
                f"This store holds {self._most} executions and all are pending, so none can be dropped: record how "
                "they ended, raise max_entries, or keep executions in a database."
            )
        del self._ended[oldest], self._rows[oldest]


__all__ = ["InMemoryExecutionStore"]
