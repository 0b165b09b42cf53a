"""Waiting for entries of streams: one look at the database for all who wait in this process.

A reader that waits is woken at once by what is written here, by hints of other processes, and by the clock otherwise:
often at first, and more rarely with time.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.outage import Outage
from holdfast.db.outlast import first_of
from holdfast.errors import DatabaseError, NotInitialized, QueryFailed, WorkflowNotFound
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.streams.entries import CLOSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World

logger = logging.getLogger("holdfast.workflows")

CHUNK = 100  # entries that are read at once for one who waits
_FIRST_WAIT = 0.01
_LONGEST_WAIT = 0.5
_LONGEST_HINTED = 2.0
_MOST_AT_ONCE = 200
_FIRST_LOOK = 2.0  # seconds it may take at most: nobody is kept waiting by a database that hangs


class RawEntry(NamedTuple):
    """A row of a stream as it is stored."""

    offset: int
    value: str
    serialization: str | None


class Chunk(NamedTuple):
    """The next rows of a stream, the offset behind them, and whether that is where the reading ends."""

    rows: list[RawEntry]
    next_offset: int
    ended: bool


@dataclass(eq=False, slots=True)
class _Wait:
    """One who waits; *patience* is counted from the first look on, so that even none is enough for what is there."""

    workflow_id: str
    stream: str
    offset: int
    follow: bool
    patience: float | None
    told: asyncio.Future[Chunk]
    _limit: asyncio.Timeout | None = None
    _seen: bool = False

    async def chunk(self) -> Chunk:
        try:
            async with asyncio.timeout(None if self.patience is None else self.patience + _FIRST_LOOK) as self._limit:
                return await self.told
        except TimeoutError:
            raise TimeoutError(
                f"The stream {self.stream!r} of run {self.workflow_id} had nothing new from offset {self.offset} on in "
                f"{self.patience:g} s"
            ) from None
        finally:
            self._limit = None

    def looked_at(self) -> None:
        limit = self._limit
        if self.patience is None or self._seen or limit is None or limit.expired():
            return
        self._seen = True
        limit.reschedule(asyncio.get_running_loop().time() + self.patience)


class Feed:
    """Reads streams for all who ask. Lives on the loop of its manager; *hinted* tells whether hints would be heard."""

    def __init__(self, manager: ConnectionManager, queries: Queries, world: World, hinted: Callable[[], bool]) -> None:
        self._manager = manager
        self._stand = queries["streams_stand"]
        self._chunk = queries["stream_chunk"]
        self._world = world
        self._hinted = hinted
        self._waits: list[_Wait] = []
        self._news: set[tuple[str, str]] = set()
        self._look_at_all = False
        self._stirred = asyncio.Event()
        self._pause = _FIRST_WAIT
        self._outage = Outage()
        self._poll: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def waiting(self) -> int:
        """How many wait for entries."""
        return len(self._waits)

    async def next(
        self, workflow_id: str, stream: str, offset: int, *, follow: bool, patience: float | None = None
    ) -> Chunk:
        """Return what the stream has from *offset* on; with *follow* wait until there is something, or an end.

        Raises ``WorkflowNotFound`` if there is no such run, ``TimeoutError`` when *patience* is over.
        """
        if self._stopped:
            raise _closed(stream, workflow_id)
        self._manager.backend()  # on another loop nobody could ever be told: refused
        wait = _Wait(workflow_id, stream, offset, follow, patience, asyncio.get_running_loop().create_future())
        self._waits.append(wait)
        self._pause = _FIRST_WAIT
        self._stir({(workflow_id, stream)})
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._run(), name="holdfast-streams")
        try:
            return await wait.chunk()
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    def written(self, streams: Iterable[tuple[str, str]]) -> None:
        """Look again for those who read one of *streams*, given as run and key; with no key, for all of the run."""
        if self._waits:
            self._stir(set(streams))

    def hint(self) -> None:
        """Look again for everybody: another process may have written."""
        if self._waits:
            self._look_at_all = True
            self._stirred.set()

    async def stop(self) -> None:
        """Look no more, and say so to whoever waits."""
        self._stopped = True
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.gather(self._poll, return_exceptions=True)
        for wait in self._waits:
            if not wait.told.done():
                wait.told.set_exception(_closed(wait.stream, wait.workflow_id))

    def _stir(self, streams: set[tuple[str, str]]) -> None:
        runs = {run for run, stream in streams if not stream}
        found = {
            (each.workflow_id, each.stream)
            for each in self._waits
            if (each.workflow_id, each.stream) in streams or each.workflow_id in runs
        }
        if found:
            self._news |= found
            self._stirred.set()

    async def _run(self) -> None:
        while self._waits and not self._stopped:
            news, self._news = self._news, set()
            everybody, self._look_at_all = self._look_at_all or not news, False
            self._stirred.clear()
            some = [each for each in self._waits if everybody or (each.workflow_id, each.stream) in news]
            try:
                await self._look(some)
                self._outage.is_over()
            except QueryFailed as error:  # whoever asks for what no database can answer must not blind the others
                _tell_all(some, error)
            except DatabaseError as error:  # the database is away: whoever waits has a patience of their own
                if self._outage.is_told(self._world.monotonic()):
                    logger.warning("Looking for entries of streams fails and is tried again: %s", error)
            for wait in some:
                wait.looked_at()
            if self._waits and not self._stopped:
                await self._rest()

    async def _rest(self) -> None:
        """Wait until something is said to be new, or for a while that grows."""
        await first_of(self._stirred.wait(), self._world.sleep(self._pause))
        if not self._stirred.is_set():
            self._pause = min(_LONGEST_HINTED if self._hinted() else _LONGEST_WAIT, self._pause * 1.5)

    async def _look(self, waits: Sequence[_Wait]) -> None:
        for first in range(0, len(waits), _MOST_AT_ONCE):
            some = waits[first : first + _MOST_AT_ONCE]
            for wait, found in zip(some, await self._read(some), strict=True):
                if found is None or wait.told.done():
                    continue
                if isinstance(found, Chunk):
                    wait.told.set_result(found)
                else:
                    wait.told.set_exception(found)

    async def _read(self, waits: Sequence[_Wait]) -> list[Chunk | Exception | None]:
        """Return for each who waits what there is, why there is nothing, or None if it is to go on waiting."""

        async def work(transaction: Transaction) -> list[Chunk | Exception | None]:
            asked = [(each.workflow_id, each.stream) for each in waits]
            stand = await transaction.fetch_batch(self._stand, asked, closed=CLOSED)
            return [await self._judged(transaction, *each) for each in zip(waits, _in_order(stand), strict=True)]

        return await self._manager.run(work)

    async def _judged(self, transaction: Transaction, wait: _Wait, stand: Row) -> Chunk | Exception | None:
        """Tell what becomes of *wait*, and read what there is for it."""
        if stand["status"] is None:
            return WorkflowNotFound(
                f"There is no run {wait.workflow_id!r}, so it has no streams; it was never started, or was deleted."
            )
        last = -1 if stand["last_offset"] is None else stand["last_offset"]
        if last >= wait.offset:
            high = min(last, wait.offset + CHUNK - 1)
            rows = await self._rows(transaction, wait, high)
            return Chunk(rows, high + 1, ended=bool(stand["closed"]) and high == last)
        if not wait.follow or stand["closed"] or WorkflowStatus(stand["status"]).has_ended:
            return Chunk([], wait.offset, ended=True)
        return None

    async def _rows(self, transaction: Transaction, wait: _Wait, high: int) -> list[RawEntry]:
        found = await transaction.fetch(
            self._chunk, id=wait.workflow_id, stream=wait.stream, low=wait.offset, high=high
        )
        return [RawEntry(row["place"], row["value"], row["serialization"]) for row in found]


def _tell_all(waits: Iterable[_Wait], error: Exception) -> None:
    for wait in waits:
        if not wait.told.done():
            wait.told.set_exception(error)


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["n"]))


def _closed(stream: str, workflow_id: str) -> NotInitialized:
    return NotInitialized(
        f"The application or client that reads the stream {stream!r} of run {workflow_id} was closed; the run goes on."
    )
