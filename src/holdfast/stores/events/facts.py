"""The durable facts of the event log, as kinds of the commit pipeline: events appended, at any place or at one.

A row is an append: ``(stream_key, append_key, expected_sequence, type, data, type, data, ...)``. Of its events the
first is stored with the append's key, which no other append of the stream has: by it a lost reply is asked for, and an
append that reaches the database a second time is refused there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.db.url import DialectName
from holdfast.errors import SequenceConflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction

_HEAD = 3  # what a row has before its events
ONE_EVENT = 2  # values, as which an event stands in a row
_MOST_EVENTS = 1_000  # in one statement
_MANY_STREAMS = 32  # in a batch; from here on a join takes longer than to sort
_MOST_CHARACTERS = 1024 * 1024  # well below MariaDB's default max_allowed_packet of 16 MiB, however they are escaped


class Appended(NamedTuple):
    """Where the events of an append are: the first one's number, and the time they share."""

    sequence: int
    timestamp: str


class AppendEvents:
    """Events at the end of their streams, wherever that is. The result of a row is ``Appended``.

    PostgreSQL does all of it in one statement. The others take the numbers first; SQLite has ``AppendEvent`` besides.
    """

    name = "events appended"

    def __init__(self, queries: Queries) -> None:
        self.one_statement = queries.dialect is DialectName.POSTGRES
        self._append = queries["events_append"] if self.one_statement else None
        self._append_to_many = queries["events_append_to_many"] if self.one_statement else None
        self._raise = queries["streams_raise"]
        self._insert = queries["events_insert"]
        self._look = queries["appends_look"]

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        added, places = _places(rows)
        append = self._append if len(added) < _MANY_STREAMS else self._append_to_many
        if append is not None:
            events = [event for row, place in zip(rows, places, strict=True) for event in _behind(row, place, added)]
            answer = await transaction.fetch_batch(append, events)
            lasts = {row["stream_key"]: row for row in answer}
        else:
            lasts = await self.raised(transaction, added)
        outcomes = [_appended(lasts[row[0]], added[row[0]], place) for row, place in zip(rows, places, strict=True)]
        if append is None:
            events = [event for row, where in zip(rows, outcomes, strict=True) for event in _numbered(row, where)]
            for portion in _portions(events):
                await transaction.execute_batch(self._insert, portion)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Look with the streams held: an append of unknown outcome is there by then, or will never be."""
        await self.raised(transaction, {row[0]: 0 for row in rows})
        answer = await transaction.fetch_batch(self._look, [(row[0], row[1]) for row in rows])
        found = {(row["stream_key"], row["append_key"]): row for row in answer}
        return [
            Appended(there["sequence"], there["timestamp"]) if (there := found.get((row[0], row[1]))) else None
            for row in rows
        ]

    async def raised(self, transaction: Transaction, added: Mapping[str, int]) -> dict[str, Row]:
        """Add to the last numbers of streams, and return what they are now; the streams are held until commit."""
        answer = await transaction.fetch_batch(self._raise, sorted(added.items()))
        return {row["stream_key"]: row for row in answer}


class AppendEvent:
    """Appends of one event each, on SQLite: one statement, while ``AppendEvents`` takes two and a transaction."""

    name = "event appended"
    one_statement = True

    def __init__(self, append: AppendEvents, queries: Queries) -> None:
        self._append = append
        self._write = queries["event_append"]

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        _, places = _places(rows)
        events = [
            (stream_key, place, event_type, data, append_key)
            for (stream_key, append_key, _, event_type, data), place in zip(rows, places, strict=True)
        ]
        answer = await transaction.fetch_batch(self._write, events)
        written = {row["append_key"]: Appended(row["sequence"], row["timestamp"]) for row in answer}
        return [written[row[1]] for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        return await self._append.recall(transaction, rows)


class AppendExpected:
    """Events at the end of their streams if that is where the writer expects it. ``SequenceConflict`` if it is not."""

    name = "events appended as expected"
    one_statement = False

    def __init__(self, append: AppendEvents) -> None:
        self._append = append

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        lasts = await self._append.raised(transaction, {row[0]: 0 for row in rows})
        present = {stream_key: last["last_sequence"] for stream_key, last in lasts.items()}
        outcomes: list[Any] = []
        granted: list[int] = []
        for place, row in enumerate(rows):
            stream_key, expected = row[0], row[2]
            outcomes.append(Appended(present[stream_key] + 1, lasts[stream_key]["last_timestamp"]))
            if present[stream_key] != expected:
                outcomes[place] = _conflict(stream_key, expected, present[stream_key])
            elif _count(row):
                granted.append(place)
                present[stream_key] += _count(row)
        written = await self._append.apply(transaction, [rows[place] for place in granted]) if granted else []
        for place, outcome in zip(granted, written, strict=True):
            outcomes[place] = outcome
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        return await self._append.recall(transaction, rows)


def _count(row: Values) -> int:
    return (len(row) - _HEAD) // 2


def _places(rows: Sequence[Values]) -> tuple[dict[str, int], list[int]]:
    """Return how many events each stream gets, and for each row how many of them go before its own."""
    added: dict[str, int] = {}
    places = []
    for row in rows:
        before = added.get(row[0], 0)
        places.append(before)
        added[row[0]] = before + _count(row)
    return added, places


def _appended(last: Row, added: int, place: int) -> Appended:
    return Appended(last["last_sequence"] - added + place + 1, last["last_timestamp"])


def _behind(row: Values, place: int, added: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """Yield the events of an append with how far each is from the last one of its stream in this batch."""
    stream_key, append_key = row[:2]
    back = added[stream_key] - place - 1
    for at, (event_type, data) in enumerate(zip(row[_HEAD::2], row[_HEAD + 1 :: 2], strict=True)):
        yield stream_key, back - at, event_type, data, append_key if at == 0 else None


def _numbered(row: Values, where: Appended) -> Iterator[tuple[Any, ...]]:
    """Yield the events of an append with their numbers."""
    stream_key, append_key = row[:2]
    for at, (event_type, data) in enumerate(zip(row[_HEAD::2], row[_HEAD + 1 :: 2], strict=True)):
        key = append_key if at == 0 else None
        yield stream_key, where.sequence + at, event_type, data, key, where.timestamp


def _portions(events: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Cut a batch into what a server takes in one statement; a single event is never cut."""
    portion: list[tuple[Any, ...]] = []
    size = 0
    for event in events:
        if portion and (len(portion) >= _MOST_EVENTS or size + len(event[3]) > _MOST_CHARACTERS):
            yield portion
            portion, size = [], 0
        portion.append(event)
        size += len(event[3])
    if portion:
        yield portion


def _conflict(stream_key: str, expected: int, present: int) -> SequenceConflict:
    return SequenceConflict(
        f"The last event of stream {stream_key!r} has the number {present}, not {expected} as expected: read what "
        "was added with get_after(), decide anew, and append again.",
        stream_key=stream_key,
        expected=expected,
        present=present,
    )
