"""Deleting runs that have ended and that nobody may ask for any more, alone or with all below them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.core.transitions import Event
from holdfast.errors import Retryable
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.control.changing import fetch_each, sort_out, write_each
from holdfast.workflows.control.refusals import refused_because

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.control.changing import Begin, Changing, Work
    from holdfast.workflows.control.refusals import Refusals


class Deleting:
    """Ended -> none, with everything that is recorded of the run."""

    def __init__(self, changing: Changing, queries: Queries) -> None:
        self._changing = changing
        self._stand = queries["runs_stand"]
        self._children = queries["runs_children"]
        self._named = queries["runs_named"]
        self._delete = queries["runs_delete"]

    def begin(self, *, children: bool) -> Begin:
        """Return how runs are deleted, with *children* also all below them.

        Nothing is left of a deleted run to hold a key. So what is about to be deleted is noted with its creation key:
        after a lost reply, or for a child that went with its parent, a run that was noted and is not there any more, or
        is another one, is deleted.
        """
        noted: dict[str, str | None] = {}

        def begin(ids: Sequence[str], key: str) -> Work[Refusals]:
            async def work(transaction: Transaction) -> Refusals:
                held = await self._changing.hold(transaction, ids)
                left = [each for each in ids if each not in noted or _is_same(held.get(each), noted[each])]
                ready, why = sort_out(held, left, Event.DELETE, key)
                why |= await self._awaited(transaction, [held[each] for each in ready])
                below: dict[str, list[str]] = {each: [] for each in ready if each not in why}
                if children:
                    below, busy = await self._below(transaction, list(below), held)
                    why |= busy
                why |= await self._needed(transaction, {each: below[each] for each in below if each not in why}, held)
                gone = {run for each in below if each not in why for run in (each, *below[each])}
                noted.update({each: held[each]["creation_key"] for each in gone})
                if await write_each(transaction, self._delete, [(each,) for each in sorted(gone)]) < len(gone):
                    raise Retryable("A run that was to be deleted is in the record of another that was made just now.")
                return why

            return work

        return begin

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

    async def _needed(self, transaction: Transaction, below: dict[str, list[str]], held: dict[str, Row]) -> Refusals:
        """Return why runs are refused, with those *below* them: a run that has not ended has one in its record.

        That is a fork, or a run that was imported: it may ask for the results of children it has not started.
        """
        every = sorted({run for each, runs in below.items() for run in (each, *runs)})
        found = await fetch_each(transaction, self._named, [(each,) for each in every])
        named_by = {row["workflow_uuid"]: row["named_by"] for row in found}
        return {
            each: refused_because(
                each,
                WorkflowStatus(held[each]["status"]),
                Event.DELETE,
                f"{run} is in the record of {named_by[run]}, which has not ended and may ask for its result",
                "Wait for that run's end, or cancel it first.",
            )
            for each, runs in below.items()
            for run in (each, *runs)
            if run in named_by
        }

    async def _below(
        self, transaction: Transaction, roots: Sequence[str], held: dict[str, Row]
    ) -> tuple[dict[str, list[str]], Refusals]:
        """Return all that is below each of *roots*, and why a root is refused: one below has not ended.

        Everything below is held as well, and added to *held*.
        """
        children: dict[str, list[str]] = defaultdict(list)
        seen = set(roots)
        level = list(roots)
        while level:
            found = await fetch_each(transaction, self._children, [(each,) for each in level])
            level = sorted({row["workflow_uuid"] for row in found} - seen)
            seen.update(level)
            held |= await self._changing.hold(transaction, [each for each in level if each not in held])
            level = [each for each in level if each in held]
        for each in seen & held.keys():
            children[held[each]["parent_workflow_id"]].append(each)
        below = {root: _descendants(root, children) for root in roots}
        busy = {
            root: run
            for root, runs in below.items()
            for run in runs
            if not WorkflowStatus(held[run]["status"]).has_ended
        }
        return below, {root: _has_busy(held[root], held[run]) for root, run in busy.items()}


def _is_same(row: Row | None, creation_key: str | None) -> bool:
    return row is not None and row["creation_key"] == creation_key


def _has_busy(root: Row, run: Row) -> Exception:
    return refused_because(
        root["workflow_uuid"],
        WorkflowStatus(root["status"]),
        Event.DELETE,
        f"{run['workflow_uuid']}, which was started by it or below it, is {run['status']}",
        "Wait for its end or cancel it first, or delete without children.",
    )


def _descendants(root: str, children: dict[str, list[str]]) -> list[str]:
    found = {root}
    left = [root]
    while left:
        fresh = [child for child in children.get(left.pop(), ()) if child not in found]
        found.update(fresh)
        left += fresh
    return sorted(found - {root})
