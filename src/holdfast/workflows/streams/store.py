"""What the streams of a run hold, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import WorkflowNotFound
from holdfast.workflows.streams.entries import CLOSED

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.payloads import Payloads


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """A stream of a run: how many values it holds, the offset behind its last row, and whether it is closed."""

    key: str
    entries: int
    next_offset: int
    closed: bool


class StreamStore:
    """Looks at the streams of one database."""

    def __init__(self, manager: ConnectionManager, queries: Queries, payloads: Payloads) -> None:
        self._manager = manager
        self._queries = queries
        self._payloads = payloads

    async def entries(self, workflow_id: str) -> dict[str, list[Any]]:
        """Return the values of every stream of a run, in order. Raises ``WorkflowNotFound``."""
        rows = await self._of(workflow_id, "streams_of_run", {})
        found: dict[str, list[Any]] = {}
        for row in rows:
            value = self._payloads.shown(row["value"], row["serialization"])
            found.setdefault(row["stream"], []).append(value)
        return found

    async def states(self, workflow_id: str) -> list[StreamState]:
        """Return the streams of a run, by key. Raises ``WorkflowNotFound``."""
        rows = await self._of(workflow_id, "streams_list", {"closed": CLOSED})
        return [
            StreamState(
                key=row["stream"],
                entries=row["entries"],
                next_offset=row["last_offset"] + 1,
                closed=bool(row["closed"]),
            )
            for row in rows
        ]

    async def _of(self, workflow_id: str, query: str, named: dict[str, Any]) -> list[Row]:
        async def work(transaction: Transaction) -> tuple[Row | None, list[Row]]:
            there = await transaction.fetchone(self._queries["stream_run_there"], workflow_id=workflow_id)
            return there, await transaction.fetch(self._queries[query], workflow_id=workflow_id, **named)

        there, rows = await self._manager.run(work)
        if there is None:
            raise WorkflowNotFound(f"There is no run {workflow_id!r}; it was never started, or was deleted.")
        return rows
