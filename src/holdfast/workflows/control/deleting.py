"""Deleting runs that have ended and that nobody waits for, alone or with all below them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.core.transitions import Event
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.control.changing import fetch_each, sort_out, write_each
from holdfast.workflows.control.refusals import refused_because

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.control.changing import Changing, Work
    from holdfast.workflows.control.refusals import Refusals


class Deleting:
    """Ended -> none, with everything that is recorded of the run."""

    def __init__(self, changing: Changing, queries: Queries) -> None:
        self._changing = changing
        self._stand = queries["runs_stand"]
        self._children = queries["runs_children"]
        self._delete = queries["runs_delete"]

    def runs(self, ids: Sequence[str], key: str, *, children: bool) -> Work[Refusals]:
        """Return the work that deletes *ids* and, with *children*, all below those that it deletes.

        Nothing is left of a deleted run to hold a key. So each attempt notes the creation keys of what it is about to
        delete; for an attempt after a lost reply, a run that is not there any more, or is another one, is deleted.
        """
        tried: dict[str, str | None] = {}

        async def work(transaction: Transaction) -> Refusals:
            held = await self._changing.hold(transaction, ids)
            left = [
                each
                for each in ids
                if each not in tried or (each in held and held[each]["creation_key"] == tried[each])
            ]
            ready, why = sort_out(held, left, Event.DELETE, key)
            why |= await self._awaited(transaction, [held[each] for each in ready])
            ready = [each for each in ready if each not in why]
            if children:
                below, busy = await self._below(transaction, {each: held[each] for each in ready})
                why |= busy
                ready = [run for each in ready if each not in why for run in (each, *below[each])]
            await write_each(transaction, self._delete, [(each,) for each in dict.fromkeys(ready)])
            tried.update({each: held[each]["creation_key"] for each in ready if each in held})
            return why

        return work

    async def _awaited(self, transaction: Transaction, rows: Sequence[Row]) -> Refusals:
        """Return why those are refused whose parents have not ended, and may ask for their results.

        The parents need not be held: one that has ended now and is sent back later is as if sent back after the delete.
        """
        parents = {row["parent_workflow_id"] for row in rows} - {None}
        found = await fetch_each(transaction, self._stand, [(each,) for each in sorted(parents)])
        busy = {row["workflow_uuid"]: row["status"] for row in found if not WorkflowStatus(row["status"]).has_ended}
        return {
            row["workflow_uuid"]: refused_because(
                row["workflow_uuid"],
                WorkflowStatus(row["status"]),
                Event.DELETE,
                f"its parent {parent} is {busy[parent]} and may ask for its result",
                "Wait for the parent's end, or cancel the parent first.",
            )
            for row in rows
            if (parent := row["parent_workflow_id"]) in busy
        }

    async def _below(self, transaction: Transaction, roots: dict[str, Row]) -> tuple[dict[str, list[str]], Refusals]:
        """Return all that is below each of *roots*, held, and why a root is refused: one below has not ended."""
        children: dict[str, list[str]] = defaultdict(list)
        rows = dict(roots)
        level = list(roots)
        while level:
            found = await fetch_each(transaction, self._children, [(each,) for each in level])
            ids = {row["workflow_uuid"] for row in found}
            fresh = await self._changing.hold(transaction, sorted(ids - rows.keys()))
            for each in ids:
                row = fresh.get(each) or rows.get(each)
                if row is not None:
                    children[row["parent_workflow_id"]].append(each)
            rows |= fresh
            level = list(fresh)
        below = {root: _descendants(root, children) for root in roots}
        why: Refusals = {}
        for root, runs in below.items():
            busy = next((run for run in runs if not WorkflowStatus(rows[run]["status"]).has_ended), None)
            if busy is not None:
                why[root] = refused_because(
                    root,
                    WorkflowStatus(roots[root]["status"]),
                    Event.DELETE,
                    f"{busy}, which it has started or which was started below it, is {rows[busy]['status']}",
                    "Wait for its end or cancel it first, or delete without children.",
                )
        return below, why


def _descendants(root: str, children: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    left = list(children.get(root, ()))
    while left:
        run = left.pop()
        if run not in found and run != root:
            found.append(run)
            left += children.get(run, ())
    return found
