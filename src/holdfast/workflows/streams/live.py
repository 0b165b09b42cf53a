"""Entries that a step writes live: seen before the step is recorded, and void if another attempt is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import AttemptOver, Superseded
from holdfast.workflows.streams.entries import Attempts, Entry, Tails, stream_is_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction


class LiveEntry(NamedTuple):
    """An entry of a live attempt, and whose it is. *entry_no* counts what the attempt writes, and is its key (I9)."""

    workflow_id: str
    token: str
    identity: str
    position: int
    attempt: int
    entry_no: int
    stream: str
    value: str
    serialization: str

    @property
    def operation(self) -> tuple[str, str]:
        """The step that writes."""
        return self.workflow_id, self.identity

    @property
    def voice(self) -> tuple[str, str, str]:
        """The step and the stream it writes to."""
        return self.workflow_id, self.identity, self.stream

    def entry(self) -> Entry:
        """Return what is appended."""
        return Entry(
            self.workflow_id,
            self.stream,
            self.value,
            self.serialization,
            self.position,
            self.attempt,
            self.entry_no,
        )


class WriteLive:
    """Writes live entries; a kind of the pipeline. Rows are those of ``LiveEntry``; the result is True.

    An entry fails alone with ``Superseded``, ``AttemptOver`` or ``StreamClosed``. The first entry of an attempt throws
    away what earlier attempts of its step have written.
    """

    name = "stream written"
    one_statement = False

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._attempts = Attempts(queries)

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        entries = [LiveEntry(*row) for row in rows]
        refused = await self._guarded(transaction, entries)
        left = [each for each in entries if each.operation not in refused]
        live, current = await self._begun(transaction, left)
        tails = Tails(self._queries)
        await tails.load(transaction, {(each.workflow_id, each.stream) for each in left})
        outcomes: list[Any] = []
        placed: list[tuple[Any, ...]] = []
        opened: list[tuple[Any, ...]] = []
        for each in entries:
            why = refused.get(each.operation) or _why_not(each, current, tails)
            if why is None:
                placed.append(tails.place(each.entry()))
                if each.voice not in live:
                    live.add(each.voice)
                    opened.append((*each.voice, each.token, each.attempt, each.position, placed[-1][2]))
            outcomes.append(why or True)
        await tails.append(transaction, placed)
        await transaction.execute_batch(self._queries["attempt_open"], opened)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        entries = [LiveEntry(*row) for row in rows]
        # An earlier commit, if it is still under way, holds the runs: what is not found now will not land any more.
        ids = sorted({each.workflow_id for each in entries})
        await transaction.fetch_batch(self._queries["runs_hold_to_ask"], [(each,) for each in ids])
        asked = [(*each.voice, each.token, each.attempt, each.entry_no) for each in entries]
        answer = await transaction.fetch_batch(self._queries["live_look"], asked)
        found = {(row["id"], row["identity"], row["stream"], row["attempt"], row["entry_no"]) for row in answer}
        return [True if (*each.voice, each.attempt, each.entry_no) in found else None for each in entries]

    async def _guarded(
        self, transaction: Transaction, entries: Sequence[LiveEntry]
    ) -> dict[tuple[str, str], BaseException]:
        """Hold the runs; return which steps may not write any more, and why."""
        asked = sorted({(each.workflow_id, each.token, each.identity, each.position) for each in entries})
        answer = await transaction.fetch_batch(self._queries["live_guard"], asked)
        recorded = {(row["id"], row["identity"]): row["recorded"] for row in answer}
        refused: dict[tuple[str, str], BaseException] = {}
        for each in entries:
            if each.operation not in recorded:
                refused[each.operation] = Superseded("another execution owns the run")
            elif recorded[each.operation] is not None:
                refused[each.operation] = _is_over(each)
        return refused

    async def _begun(
        self, transaction: Transaction, entries: Sequence[LiveEntry]
    ) -> tuple[set[tuple[str, str, str]], dict[tuple[str, str], int]]:
        """Throw away what older attempts have written.

        Return the steps and streams that are live already, and which attempt of each step is the current one.
        """
        tokens = {each.operation: each.token for each in entries}
        found = await self._attempts.of(transaction, tokens)
        current: dict[tuple[str, str], int] = {}
        for each in entries:
            current[each.operation] = max(current.get(each.operation, 0), each.attempt)
        for row in found:
            operation = row["id"], row["identity"]
            if row["owner_xid"] == tokens[operation]:
                current[operation] = max(current[operation], row["attempt"])
        void = [row for row in found if not _is_current(row, tokens, current)]
        await self._attempts.throw(transaction, void)
        await self._attempts.forget(transaction, void)
        live = {(row["id"], row["identity"], row["stream"]) for row in found if _is_current(row, tokens, current)}
        return live, current


def _is_current(row: Row, tokens: dict[tuple[str, str], str], current: dict[tuple[str, str], int]) -> bool:
    operation = row["id"], row["identity"]
    return bool(row["owner_xid"] == tokens[operation] and row["attempt"] == current[operation])


def _why_not(entry: LiveEntry, current: dict[tuple[str, str], int], tails: Tails) -> Exception | None:
    if entry.attempt < current[entry.operation]:
        return _is_over(entry)
    if tails.is_closed(entry.workflow_id, entry.stream):
        return stream_is_closed(entry.workflow_id, entry.stream)
    return None


def _is_over(entry: LiveEntry) -> AttemptOver:
    return AttemptOver(
        f"Attempt {entry.attempt} of operation {entry.identity} of run {entry.workflow_id} is over, and this code was "
        f"left behind by it: its entry for the stream {entry.stream!r} is refused."
    )
