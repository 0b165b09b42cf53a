"""Appending to streams, in the commit that records the operation; and what becomes of what a step has written live.

An entry gets its offset in the transaction that stores it. Only the holder of a run's token writes to its streams, and
the run's row is held against another token until commit, so nobody counts offsets at the same time.

What an attempt of a step writes live is seen at once. A row of ``stream_attempts`` says so until the step is recorded.
If that happens with another attempt, or never, the entries are thrown away: they are deleted, and a mark is appended by
which readers know that what they have seen from an offset on is void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast import faults
from holdfast.core.texts import check_text
from holdfast.errors import StreamClosed
from holdfast.workflows.parts import parts
from holdfast.workflows.queries import stream_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction

CLOSED = "__HOLDFAST_STREAM_CLOSED__"
RESET = "__HOLDFAST_STREAM_RESET__"


def check_key(stream: str) -> None:
    """Refuse what cannot be the key of a stream."""
    check_text("The key of a stream", stream)


class Entry(NamedTuple):
    """What is to be appended. Without a *serialization* it is no value: *value* is ``CLOSED`` or a ``RESET`` mark."""

    workflow_id: str
    stream: str
    value: str
    serialization: str | None
    position: int
    attempt: int | None = None
    entry_no: int | None = None


class Tails:
    """Where streams end, and how entries get the next offsets; for one transaction in which the runs are held."""

    def __init__(self, queries: Queries) -> None:
        self._tail = queries["streams_tail"]
        self._append = queries["stream_append"]
        self._last: dict[tuple[str, str], int] = {}
        self._closed: set[tuple[str, str]] = set()

    async def load(self, transaction: Transaction, streams: Iterable[tuple[str, str]]) -> None:
        """Find out where *streams* end."""
        wanted = sorted(set(streams) - self._last.keys())
        for each in wanted:
            self._last[each] = -1
        for row in await transaction.fetch_batch(self._tail, wanted, closed=CLOSED):
            self._last[row["id"], row["stream"]] = row["last_offset"]
            if row["closed"]:
                self._closed.add((row["id"], row["stream"]))

    def is_closed(self, workflow_id: str, stream: str) -> bool:
        """Whether a loaded stream takes no more entries."""
        return (workflow_id, stream) in self._closed

    def place(self, entry: Entry) -> tuple[Any, ...]:
        """Give *entry* the next offset of its stream; return its row of ``stream_append``."""
        stream = entry.workflow_id, entry.stream
        self._last[stream] = offset = self._last[stream] + 1
        if entry.serialization is None and entry.value == CLOSED:
            self._closed.add(stream)
        return (
            entry.workflow_id,
            entry.stream,
            offset,
            entry.value,
            entry.position,
            entry.serialization,
            entry.attempt,
            entry.entry_no,
        )

    async def append(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows that ``place`` has made, in statements of a size that every server takes."""
        for part in parts(rows):
            await transaction.execute_batch(self._append, part)


class AppendEntries:
    """Entries that commit with the record of an operation; a side kind. Rows are ``Entry``.

    A second end of a stream is left out. An entry behind the end is refused with ``StreamClosed``.
    """

    def __init__(self, queries: Queries, told: Callable[[Sequence[tuple[str, str]]], None]) -> None:
        self._queries = queries
        self._told = told

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        tails = Tails(self._queries)
        await tails.load(transaction, {(row[0], row[1]) for row in rows})
        placed: list[tuple[Any, ...]] = []
        for row in rows:
            entry = Entry(*row)
            if not tails.is_closed(entry.workflow_id, entry.stream):
                placed.append(tails.place(entry))
            elif entry.serialization is not None:
                raise stream_is_closed(entry.workflow_id, entry.stream)
        await tails.append(transaction, placed)

    def written(self, rows: Sequence[Values]) -> None:
        faults.point("stream.written")
        self._told([(row[0], row[1]) for row in rows])


class SettleAttempts:
    """What becomes of live entries when their operation is recorded; a side kind.

    Rows are (run, identity, token, attempt): the entries of that attempt stay, those of all others of the operation are
    thrown away. With None for the attempt none stays.
    """

    def __init__(self, queries: Queries, told: Callable[[Sequence[tuple[str, str]]], None]) -> None:
        self._attempts = Attempts(queries)
        self._told = told

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        stay = {(row[0], row[1], row[2], row[3]) for row in rows if row[3] is not None}
        found = await self._attempts.of(transaction, {(row[0], row[1]) for row in rows})
        void = [
            each for each in found if (each["id"], each["identity"], each["owner_xid"], each["attempt"]) not in stay
        ]
        await self._attempts.throw(transaction, void)
        await self._attempts.forget(transaction, found)

    def written(self, rows: Sequence[Values]) -> None:
        self._told([(row[0], "") for row in rows])


class CutStreams:
    """What runs that are tried again had written from the operation on that failed, within the cut of their records.

    It is thrown away like that of an attempt. Its offsets are not given again: a reader that has seen it would go on
    behind them, and miss what comes in its place.
    """

    def __init__(self, queries: Queries) -> None:
        self._written = queries["run_retry_streams"]
        self._cut = queries["run_retry_cut_streams"]
        self._queries = stream_queries(queries.dialect, queries.schema)

    async def cut(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Delete it, and leave a mark in each stream; rows as in the query ``run_retry``."""
        found = await transaction.fetch_batch(self._written, rows)
        if not found:
            return
        tails = Tails(self._queries)
        await tails.load(transaction, {(row["id"], row["stream"]) for row in found})
        await transaction.execute_batch(self._cut, rows)
        marks = [Entry(row["id"], row["stream"], f"{RESET}{row['first_offset']}", None, row["cut"]) for row in found]
        await tails.append(transaction, [tails.place(mark) for mark in marks])


class Attempts:
    """Finds live attempts, and throws their entries away. The caller holds the runs."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def of(self, transaction: Transaction, operations: Iterable[tuple[str, str]]) -> list[Row]:
        """Return the live attempts of operations, given as run and identity."""
        return await transaction.fetch_batch(self._queries["attempts_of"], sorted(operations))

    async def leftovers(self, transaction: Transaction, claimed: Sequence[tuple[str, str]]) -> list[Row]:
        """Hold runs that have these tokens; return the live attempts that earlier executions have left behind."""
        return await transaction.fetch_batch(self._queries["attempts_of_runs"], sorted(claimed))

    async def throw(self, transaction: Transaction, attempts: Sequence[Row]) -> None:
        """Delete what *attempts* have written, and leave a mark in each stream that can still take one."""
        if not attempts:
            return
        rows = [
            (each["id"], each["stream"], each["first_offset"], each["function_id"], each["attempt"])
            for each in attempts
        ]
        tails = Tails(self._queries)
        await tails.load(transaction, {(row[0], row[1]) for row in rows})
        await transaction.execute_batch(self._queries["entries_throw"], rows)
        marks = [
            tails.place(Entry(run, stream, f"{RESET}{first}", None, position))
            for run, stream, first, position, _ in rows
            if not tails.is_closed(run, stream)
        ]
        await tails.append(transaction, marks)

    async def forget(self, transaction: Transaction, attempts: Sequence[Row]) -> None:
        """Have *attempts* be live no more."""
        rows = [(each["id"], each["identity"], each["stream"]) for each in attempts]
        await transaction.execute_batch(self._queries["attempts_forget"], rows)


def stream_is_closed(workflow_id: str, stream: str) -> StreamClosed:
    """Return the error of a write behind the end."""
    return StreamClosed(
        f"The stream {stream!r} of run {workflow_id} is closed: write to it before close_stream(), or to another one."
    )
