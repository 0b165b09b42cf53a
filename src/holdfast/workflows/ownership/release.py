"""Giving the runs of executors that are gone back to their queues, oldest first, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.workflow import INTERNAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Transaction

_AT_ONCE = 500


class Releases:
    """Releases runs whose incarnation has no row any more; any executor may, whatever its version."""

    def __init__(self, manager: ConnectionManager, queries: Queries) -> None:
        self._manager = manager
        self._queries = queries

    async def release(self, incarnation: str, enough: Callable[[], bool]) -> None:
        """Release the runs of *incarnation*, which is gone, until there are no more or it has been *enough*."""
        query = self._queries["runs_release"]
        released = _AT_ONCE
        while released >= _AT_ONCE and not enough():
            released = await self._manager.execute(
                query, incarnation=incarnation, most=_AT_ONCE, internal_queue=INTERNAL_QUEUE
            )

    async def hand_back(self, runs: Sequence[tuple[str, str]], starts: Query | None = None) -> None:
        """Put runs (id, token) that were not begun back into their queues, attempts unchanged, if the token holds.

        With *starts*, a query that takes tokens, the ledger of starts forgets these claims in the same commit.
        """
        query = self._queries["run_hand_over"]

        async def work(transaction: Transaction) -> None:
            await transaction.fetch_batch(query, runs, internal_queue=INTERNAL_QUEUE, begun=0)
            if starts is not None:
                await transaction.execute_batch(starts, [(token,) for _, token in runs])

        await self._manager.run(work)
