"""Waking runs that were put away: at once when what they wait for ends here, and by every poll in any case."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.parking.waits import Awaited

logger = logging.getLogger("holdfast.dispatch")

_AT_ONCE = 1000
_FROM_THE_START = ("", "", "")
_CHAIN = "chain"  # the kind of those who wait until all before them have ended


class Wakes:
    """Finds the runs whose wait is over. Lives on the loop.

    Whoever brings about what is awaited looks, after the commit, who waits for it; and whoever puts a run away looks,
    after the commit, whether what it waits for has come. So one of the two sees the other. What is lost because one of
    them died in between costs a poll: ``sweep`` goes through all waits, so many at a time, and begins again.
    """

    def __init__(self, manager: ConnectionManager, parking: Queries, woken: Callable[[], None]) -> None:
        self._manager = manager
        self._queries = parking
        self._woken = woken
        self._after = _FROM_THE_START
        self._told: list[tuple[str, str]] = []
        self._put_away: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.any = True  # whether somebody may be put away for more than a moment: until the dispatcher has looked, yes

    def put_away(self, workflow_id: str, *, may_have_come: bool) -> None:
        """Take notice that a run was put away here: what ends its wait may be told before the dispatcher looks.

        With *may_have_come* that may also have happened while it was being put away, unseen by either side.
        """
        self.any = True
        if may_have_come:
            self._put_away.append(workflow_id)
            self._begin()

    def ended(self, workflow_id: str) -> None:
        """Say that a run has ended; whoever was put away for its result, or is next in a chain, is woken soon."""
        self._tell_soon([("result", workflow_id), (_CHAIN, workflow_id)])

    def happened(self, things: Iterable[Awaited]) -> None:
        """Say that messages have arrived, or events were set; whoever was put away for them is woken soon."""
        self._tell_soon((each.kind, each.digest()) for each in things)

    def _tell_soon(self, what: Iterable[tuple[str, str]]) -> None:
        if self.any:
            self._told += what
            self._begin()

    def _begin(self) -> None:
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._work(), name="holdfast-wakes")

    async def sweep(self) -> int:
        """Wake the next of those whose wait is over, and forget waits nobody has any more; return how many woke."""
        kind, key, run = self._after
        rows = await self._manager.fetch(
            self._queries["waits_look"], after_kind=kind, after_key=key, after_run=run, most=_AT_ONCE
        )
        last = rows[-1] if len(rows) == _AT_ONCE else None
        self._after = _FROM_THE_START if last is None else (last["wait_kind"], last["wait_key"], last["workflow_uuid"])
        over = [row for row in rows if row["happened"] or not row["waits"]]
        return await self._wake(over) if over else 0

    async def stop(self) -> None:
        """Wake nobody any more, also if runs end while their executor closes: the polls of others do."""
        self._stopped = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._told or self._put_away:
            told, self._told = self._told[:_AT_ONCE], self._told[_AT_ONCE:]
            put, self._put_away = self._put_away[:_AT_ONCE], self._put_away[_AT_ONCE:]
            try:
                await self.tell(told)
                await self._look_once_more(put)
            except DatabaseError as error:  # the next poll finds them
                logger.warning("Waking runs that were put away is left to the next poll: %s", error)

    async def tell(self, what: Iterable[tuple[str, str]]) -> None:
        """Wake whoever was put away for something of these kinds and keys, which has happened."""
        found = await self._found("waits_of", list(dict.fromkeys(what)))
        if found:
            await self._wake(found)

    async def _look_once_more(self, runs: list[str]) -> None:
        found = await self._found("waits_look_of", [(each,) for each in runs])
        over = [row for row in found if row["happened"] and row["waits"]]
        if over:
            await self._wake(over)

    async def _found(self, name: str, rows: Sequence[tuple[str, ...]]) -> list[Row]:
        return await self._manager.fetch_batch(self._queries[name], rows)

    async def _wake(self, waits: list[Row]) -> int:
        wake, clear = self._queries["waits_wake"], self._queries["waits_clear"]
        ids = [(each,) for each in sorted({row["workflow_uuid"] for row in waits})]
        keys = [(row["workflow_uuid"], row["wait_kind"], row["wait_key"]) for row in waits]

        async def work(transaction: Transaction) -> int:
            woken = await transaction.execute_batch(wake, ids)
            await transaction.execute_batch(clear, keys)
            return woken

        woken = await self._manager.run(work)
        if woken:
            self._woken()
        self._tell_soon((_CHAIN, row["workflow_uuid"]) for row in waits if row["wait_kind"] == _CHAIN)  # may have ended
        return woken
