"""Cancelling runs, with the runs they have started or alone, and those whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.transitions import Event, allowed
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.control.changing import fetch_each, sort_out, write_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.control.changing import Changing, Work
    from holdfast.workflows.control.refusals import Refusals


class Cancelling:
    """PENDING, ENQUEUED, DELAYED -> CANCELLED."""

    def __init__(self, changing: Changing, queries: Queries) -> None:
        self._changing = changing
        self._cancel = queries["runs_cancel"]
        self._children = queries["runs_children"]
        self._hold_overdue = queries["runs_hold_overdue"]

    def runs(self, ids: Sequence[str], key: str, *, children: bool) -> Work[Refusals]:
        """Return the work that cancels *ids* and, with *children*, all below those that it changes."""

        async def work(transaction: Transaction) -> Refusals:
            held = await self._changing.hold(transaction, ids)
            ready, why = sort_out(held, ids, Event.CANCEL, key)
            await self._write(transaction, ready, key, together=key)
            if children:
                await self._cancel_below(transaction, ready, key)
            return why

        return work

    async def _cancel_below(self, transaction: Transaction, parents: Sequence[str], key: str) -> None:
        """Cancel level by level what *parents*, which are cancelled and held, have started.

        The start of a child holds its parent's row to its commit. So whoever was starting one has committed by now, and
        a statement that begins now sees the child; whoever comes later finds its token gone. A child that has ended is
        left as it is, but what it has started is looked for.
        """
        seen = set(parents)
        level = list(parents)
        while level:
            found = await fetch_each(transaction, self._children, [(each,) for each in level])
            level = sorted({row["workflow_uuid"] for row in found} - seen)
            seen.update(level)
            held = await self._changing.hold(transaction, level)
            await self._write(transaction, _cancellable(held.values()), key, together=key)

    def overdue(self, ids: Sequence[str], key: str) -> Work[list[str]]:
        """Return the work that cancels those of *ids* whose deadline has passed, and returns them.

        Children have their parents' deadlines, so nobody looks for them here. A run that somebody else holds is left.
        """

        async def work(transaction: Transaction) -> list[str]:
            rows = await fetch_each(transaction, self._hold_overdue, [(each,) for each in sorted(ids)])
            ready = _cancellable(row for row in rows if row["overdue"])
            await self._write(transaction, ready, key, together=None)
            before = {row["workflow_uuid"] for row in rows if row["change_key"] == key}
            return [each for each in ids if each in before.union(ready)]

        return work

    async def _write(self, transaction: Transaction, ids: Sequence[str], key: str, *, together: str | None) -> None:
        """Cancel *ids*; *together* is what all of them have that are cancelled at once, by default their deadline."""
        await write_each(transaction, self._cancel, [(each,) for each in ids], key=key, cancel_key=together)


def _cancellable(rows: Iterable[Row]) -> list[str]:
    return [row["workflow_uuid"] for row in rows if allowed(WorkflowStatus(row["status"]), Event.CANCEL)]
