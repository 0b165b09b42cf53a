"""What becomes of messages and events when a run goes back, by a rewind or a retry, or is forked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.identity import following
from holdfast.workflows.operations.operation import OF_OTHERS
from holdfast.workflows.queries import messaging_queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction

_AT_ONCE = 500


class GoingBack:
    """Works in the database of *queries*, within the transaction that cuts or copies the records of runs."""

    def __init__(self, queries: Queries) -> None:
        self._queries = messaging_queries(queries.dialect, queries.schema)

    async def cut(self, transaction: Transaction, cuts: Sequence[tuple[str, int]]) -> None:
        """Undo what operations from a position on have done; *cuts* are ids and positions.

        The messages they had received wait for the run again. Each event has the value it had before, or none. What
        they have sent to others stays sent. A wait that is gone back to has all its time again.
        """
        ids = [(each,) for each, _ in cuts]
        for first in range(0, len(cuts), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            await transaction.execute_batch(self._queries["messages_return"], cuts[some])
            await transaction.execute_batch(self._queries["events_cut"], cuts[some])
            await transaction.execute_batch(self._queries["events_clear"], ids[some])
        await self.restore(transaction, [each for each, _ in cuts])
        await self._forget_ends(transaction, [each for each, _ in cuts])

    async def copy(self, transaction: Transaction, pairs: Sequence[tuple[str, str]], start_step: int) -> None:
        """Give forks, whose ids come second, the events that were set before *start_step*.

        They have no messages: what the original had received stands in the records they were given, and what waits for
        it is meant for it.
        """
        for first in range(0, len(pairs), _AT_ONCE):
            some = pairs[first : first + _AT_ONCE]
            await transaction.execute_batch(self._queries["events_copy"], some, start_step=start_step)
        await self.restore(transaction, [new for _, new in pairs])
        await self._forget_ends(transaction, [new for _, new in pairs])

    async def _forget_ends(self, transaction: Transaction, ids: Sequence[str]) -> None:
        """Remove the ends of waits that are not recorded themselves: such a wait begins anew, and sets its end anew."""
        for first in range(0, len(ids), _AT_ONCE):
            some = [(each,) for each in ids[first : first + _AT_ONCE]]
            rows = await transaction.fetch_batch(self._queries["waits_recorded"], some)
            ends = [row for row in rows if row["function_name"] not in OF_OTHERS]
            there = {(row["workflow_uuid"], row["identity"]) for row in rows}
            left = [
                (end["workflow_uuid"], end["function_id"])
                for end in ends
                if (end["workflow_uuid"], following(end["identity"])) not in there
            ]
            if left:
                await transaction.execute_batch(self._queries["ends_forget"], left)

    async def restore(self, transaction: Transaction, ids: Sequence[str]) -> None:
        """Give runs that have no events those of their history: of each key what was set last."""
        for first in range(0, len(ids), _AT_ONCE):
            some = [(each,) for each in ids[first : first + _AT_ONCE]]
            await transaction.execute_batch(self._queries["events_restore"], some)
