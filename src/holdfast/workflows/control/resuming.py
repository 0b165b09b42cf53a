"""Letting runs go on that were cancelled or given up, with the children that were cancelled together with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.transitions import Event
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.workflows.control.changing import fetch_each, sort_out, write_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.control.changing import Changing, Work
    from holdfast.workflows.control.refusals import Refusals


class Resuming:
    """CANCELLED, MAX_RECOVERY_ATTEMPTS_EXCEEDED -> ENQUEUED."""

    def __init__(self, changing: Changing, queries: Queries) -> None:
        self._changing = changing
        self._resume = queries["runs_resume"]
        self._children = queries["runs_children"]

    def runs(
        self, ids: Sequence[str], key: str, *, queue_name: str | None, partition_key: str | None
    ) -> Work[Refusals]:
        """Return the work that resumes *ids*, to *queue_name*, and what was cancelled below them at the same time.

        Without a *partition_key* each keeps its own.
        """

        async def work(transaction: Transaction) -> Refusals:
            held = await self._changing.hold(transaction, ids)
            ready, why = sort_out(held, ids, Event.RESUME, key)
            below = await self._below(transaction, [held[each] for each in ready])
            await self._write(transaction, ready, key, queue_name or INTERNAL_QUEUE, partition_key)
            await self._write(transaction, [each for each in below if each not in ready], key, INTERNAL_QUEUE, None)
            return why

        return work

    async def _below(self, transaction: Transaction, parents: Sequence[Row]) -> list[str]:
        """Hold what was cancelled together with its parent, level by level."""
        found: list[str] = []
        level = {row["workflow_uuid"]: row for row in parents if row["status"] == WorkflowStatus.CANCELLED}
        keys = {row["cancel_key"] for row in level.values()} - {None}
        while level:
            rows = await fetch_each(transaction, self._children, [(each,) for each in level])
            held = await self._changing.hold(transaction, sorted({row["workflow_uuid"] for row in rows} - set(found)))
            level = {
                each: row
                for each, row in held.items()
                if row["status"] == WorkflowStatus.CANCELLED and row["cancel_key"] in keys
            }
            found += level
        return found

    async def _write(
        self, transaction: Transaction, ids: Sequence[str], key: str, queue_name: str, partition_key: str | None
    ) -> None:
        rows = [(each,) for each in ids]
        await write_each(transaction, self._resume, rows, key=key, queue_name=queue_name, partition_key=partition_key)
