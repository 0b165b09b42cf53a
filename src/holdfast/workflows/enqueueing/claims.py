"""An entry of a queue, and the claim of what waits there, in one commit.

A process at rest would claim what it enqueues next of all, with a commit of its own, for which the run would wait. So
the claim rides with the entry. It is the claim that would come anyway: of what waits longest, within what is free here,
and of nothing if the queue has a limit or is paused by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.db.pipeline.operation import Unwritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row, Transaction
    from holdfast.model.queue import Queue
    from holdfast.workflows.facts import EnqueueRuns


class ClaimToCome(NamedTuple):
    """A claim from a queue without limits, not carried out yet: its query, what that is given, where it begins."""

    query: Query
    values: dict[str, Any]
    bound: dict[str, Any]


class Entered(NamedTuple):
    """What became of an entry, and the rows that were claimed with it."""

    outcome: Any
    rows: list[Row]


class NotEntered(Unwritten, Entered):
    """The answer for an entry that was there already: nothing was written, and nothing claimed with it."""

    __slots__ = ()


class EnqueueAndClaim:
    """none -> ENQUEUED, and of what waits in that queue ENQUEUED -> PENDING for this executor. Rows are (entry, claim).

    The result is ``Entered``. Where it is not known whether the commit took place, nothing counts as claimed: the beat
    hands back what was.
    """

    name = "run enqueued and claimed"
    one_statement = False

    def __init__(self, enqueue: EnqueueRuns) -> None:
        self._enqueue = enqueue

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await self._enqueue.apply(transaction, [entry for entry, _ in rows])
        return [
            outcome if isinstance(outcome, Exception) else _entered(outcome, await _claimed(transaction, claim))
            for outcome, (_, claim) in zip(outcomes, rows, strict=True)
        ]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await self._enqueue.recall(transaction, [entry for entry, _ in rows])
        return [None if outcome is None else Entered(outcome, []) for outcome in outcomes]


def _entered(outcome: Any, rows: list[Row]) -> Entered:
    is_new = rows or not isinstance(outcome, Unwritten)
    return Entered(outcome, rows) if is_new else NotEntered(outcome, rows)


async def _claimed(transaction: Transaction, claim: ClaimToCome) -> list[Row]:
    return await transaction.fetch(claim.query, **claim.values, **claim.bound)


class Ride(NamedTuple):
    """A claim that goes with an entry. Its holder must end it, with the rows that were claimed or with none."""

    queue: Queue
    most: int
    caps: Mapping[str, int]
    claim: ClaimToCome
    end: Callable[[Ride, list[Row]], None]


__all__ = ["ClaimToCome", "EnqueueAndClaim", "Entered", "Ride"]
