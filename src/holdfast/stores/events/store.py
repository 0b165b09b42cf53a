"""The event log: streams of events, numbered from 1 without gaps, in PostgreSQL, MariaDB/MySQL or SQLite."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.durations import checked_seconds
from holdfast.core.numbers import MOST_BITS, count, number
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.db.url import DialectName
from holdfast.errors import (
    CannotDeserialize,
    CannotSerialize,
    Conflict,
    DatabaseError,
    FailureKind,
    MisuseError,
    NotInitialized,
    UnknownCommit,
)
from holdfast.model.world import RealWorld, World
from holdfast.serialize import PortableJSON
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.events.facts import ONE_EVENT, Appended, AppendEvent, AppendEvents, AppendExpected
from holdfast.stores.events.followers import Followers
from holdfast.stores.events.queries import event_queries
from holdfast.stores.keys import checked_key
from holdfast.stores.moments import utc_text
from holdfast.stores.near import Near
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.model.workflow import Duration
    from holdfast.stores.events.followers import Follower

StoredEvent: TypeAlias = "dict[str, Any]"
_Stored: TypeAlias = "tuple[int, str, str]"  # number, JSON and time of an event

FILE = Path(".holdfast") / "events.sqlite"
POLL_INTERVAL = 0.1
_OURS = ("sequence", "timestamp")
_UNTYPED = "unknown"
_PAGE = 500
_PRUNED_AT_ONCE = 1_000


class DBEventStoreBackend(Near):
    """An append-only log of streams in a database, for any number of tasks, threads and processes.

    Each stream counts its events from 1 without gaps, also after old ones were deleted. A number is never seen before
    the ones below it, so whoever remembers the last one it has read misses nothing.

    *manager* is the caller's, and stays open. Concurrent appends become one commit: of *pipeline*, if one is given that
    stands on the same manager, else of a pipeline of the store's own. Times are the database's. Whoever follows a
    stream hears at once of appends through this store, and every *poll_interval* of those of other stores.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        pipeline: Pipeline | None = None,
        poll_interval: Duration = POLL_INTERVAL,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        self._manager = manager
        self._schema = schema
        self._world = world or RealWorld()
        self._commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._queries = event_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)
        self._poll_interval = checked_seconds(poll_interval, "poll_interval", least=0.001)
        self._followers = Followers(self._last_sequences, self._world, self._poll_interval)
        self._json = PortableJSON()

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """Finish what is being written, and end the iterations of those who follow. The manager stays open."""
        await self._followers.close()
        await self._commits.close()

    async def append(
        self, stream_key: str, events: Sequence[Mapping[str, Any]], *, expected_sequence: int | None = None
    ) -> list[StoredEvent]:
        """Add *events* to the end of a stream, all or none, in one commit; return them as ``get`` will.

        An event is a dict of JSON values, by custom with ``type`` and ``data``. It comes back as it was, with
        ``sequence`` and ``timestamp`` besides; one that brings these itself is refused. ``CannotSerialize`` names the
        part that does not fit.

        With *expected_sequence* the stream must have come to exactly that number, 0 for one that has no events yet;
        else ``SequenceConflict`` says which it has, and nothing is written. Without it, every append succeeds. After a
        lost connection the database is asked whether the append is there: it happens once.
        """
        stream_key = checked_key(stream_key, "stream key")
        if expected_sequence is not None:
            number(expected_sequence, "expected_sequence")
        written = [each for event in self._written(events) for each in event]
        if not written and expected_sequence is None:
            return []
        row = (stream_key, self._world.new_id(), expected_sequence, *written)
        kind: AppendEvents | AppendEvent | AppendExpected = self._append
        if expected_sequence is not None:
            kind = self._append_expected
        elif len(written) == ONE_EVENT:
            kind = self._append_one
        try:
            where: Appended = await self._commits.write(kind, row)
        except Conflict as error:
            raise _overtaken(stream_key) from error
        texts = enumerate(written[1::2], where.sequence)
        stored = self._events(stream_key, [(sequence, data, where.timestamp) for sequence, data in texts])
        if self._followers.are_there(stream_key):
            self._commits.tell(self._followers.tell, stream_key, where.sequence + len(stored) - 1)
        return stored

    async def get(self, stream_key: str, *, limit: int | None = None) -> list[StoredEvent]:
        """Return the events of a stream in order, the first *limit* of them if it is given."""
        return await self.get_after(stream_key, 0, limit=limit)

    async def get_after(self, stream_key: str, after_sequence: int, *, limit: int | None = None) -> list[StoredEvent]:
        """Return the events of a stream with a greater number than *after_sequence*, at most *limit* if it is given.

        The number of the last one is where the next page begins. ``CannotDeserialize`` names the first row among them
        that somebody else has written and that is no event: pages before and behind it can be read.
        """
        return self._events(stream_key, await self._rows(stream_key, after_sequence, limit))

    async def follow(
        self,
        stream_key: str,
        after: int = 0,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 -- it ends the iteration, and is no error
    ) -> AsyncIterator[StoredEvent]:
        """Yield the events of a stream with a greater number than *after*, those there are and those to come.

        Every event comes once and in order; what is deleted before it was read does not come. The iteration ends when
        nothing new has come for *timeout*, if it is given, and when the store is closed. A database that cannot be
        reached is waited for. ``CannotDeserialize`` names a row that is no event, after those before it.
        """
        patience = None if timeout is None else checked_seconds(timeout, "timeout")
        with self._followers.follow(checked_key(stream_key, "stream key")) as follower:
            known: int | None = 0
            while known is not None and not follower.is_over:
                page = await self._page(stream_key, after, follower)
                for event in self._in_turn(stream_key, page):
                    after = event["sequence"]
                    yield event
                if not page:
                    after = max(after, known)  # the stream had come so far before, and now nothing is there: deleted
                    known = await follower.beyond(after, patience)

    async def last_sequence(self, stream_key: str) -> int:
        """Return the number of the last event a stream ever had, deleted ones included; 0 if it never had any."""
        key = checked_key(stream_key, "stream key")
        row = await self._manager.fetchone(self._queries["stream_last"], stream_key=key)
        return 0 if row is None else int(row["last_sequence"])

    async def count(self, stream_key: str) -> int:
        """Return how many events a stream has."""
        key = checked_key(stream_key, "stream key")
        row = await self._manager.fetchone(self._queries["events_count"], stream_key=key)
        return 0 if row is None else int(row["events"])

    async def stream_keys(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the keys of the streams that have events, sorted; those behind *after*, at most *limit*, if given."""
        behind = None if after is None or after == "" else checked_key(after, "stream key")
        rows = await self._manager.fetch(self._queries["stream_keys"], after_key=behind, most=_checked_limit(limit))
        return [row["stream_key"] for row in rows]

    async def delete_before(self, timestamp: datetime | str) -> int:
        """Delete the events older than an aware time, or its ISO-8601 text, some at a time; return how many.

        The streams count on from where they were. If a connection is lost on the way the number may be too small.
        """
        before = utc_text(timestamp, "timestamp")
        deleted = 0
        while True:
            some = await self._prune(before)
            deleted += some
            if some < _PRUNED_AT_ONCE:
                return deleted

    async def _rows(self, stream_key: str, after_sequence: int, limit: int | None) -> list[_Stored]:
        rows = await self._manager.fetch(
            self._queries["events_after"],
            stream_key=checked_key(stream_key, "stream key"),
            after_sequence=number(after_sequence, "after_sequence"),
            most=_checked_limit(limit),
        )
        return [(row["sequence"], row["data"], row["timestamp"]) for row in rows]

    async def _page(self, stream_key: str, after: int, follower: Follower) -> list[_Stored]:
        """Return the next events for one who follows, as soon as the database can be reached; none if it is closed."""
        while not follower.is_over:
            try:
                return await self._rows(stream_key, after, _PAGE)
            except DatabaseError as error:
                if error.kind is FailureKind.FATAL:
                    raise
                await self._world.sleep(self._poll_interval)
            except NotInitialized:
                if not follower.is_over:
                    raise
        return []

    async def _prune(self, before: str) -> int:
        query = self._queries["events_prune"]
        try:
            return await self._manager.execute(query, before=before, most=_PRUNED_AT_ONCE)
        except UnknownCommit:  # what was deleted stays deleted; the rest is found again
            return await self._manager.execute(query, before=before, most=_PRUNED_AT_ONCE)

    @cached_property
    def _append(self) -> AppendEvents:
        return AppendEvents(self._queries)

    @cached_property
    def _append_one(self) -> AppendEvents | AppendEvent:
        is_sqlite = self._manager.dialect is DialectName.SQLITE
        return AppendEvent(self._append, self._queries) if is_sqlite else self._append

    @cached_property
    def _append_expected(self) -> AppendExpected:
        return AppendExpected(self._append)

    async def _last_sequences(self, stream_keys: Sequence[str]) -> dict[str, int]:
        """Look where streams have come to; not in a transaction, which on SQLite would hold up whoever writes."""
        backend = self._manager.backend()
        calls = self._queries["streams_look"].batch([(key,) for key in stream_keys])
        rows = [row for text, values in calls for row in await backend.fetch(text, values)]
        return {row["stream_key"]: row["last_sequence"] for row in rows}

    def _written(self, events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
        """Yield type and JSON of each event; refuse what is none."""
        if isinstance(events, dict | str | bytes):
            raise MisuseError("append() takes a list of events, each a dict: pass [event] for a single one.")
        for at, event in enumerate(events):
            if not isinstance(event, dict):
                raise CannotSerialize(f"Cannot store the event at $[{at}]: it is a {type(event).__name__}, not a dict.")
            for key in _OURS:
                if key in event:
                    raise CannotSerialize(
                        f"Cannot store the event at $[{at}]: the store itself sets {key!r}; leave it out or rename it."
                    )
            yield _type(event, at), self._text(event, at)

    def _text(self, event: Mapping[str, Any], at: int) -> str:
        try:
            return self._json.serialize(event)
        except CannotSerialize:
            return self._json.serialize([*[None] * at, event])  # once more, for the path from the list on

    def _in_turn(self, stream_key: str, rows: Sequence[_Stored]) -> Iterable[StoredEvent]:
        """Return the events of *rows*; those before a row that is none come before the error that it raises."""
        try:
            return self._events(stream_key, rows)
        except CannotDeserialize:
            return (event for row in rows for event in self._events(stream_key, [row]))

    def _events(self, stream_key: str, rows: Sequence[_Stored]) -> list[StoredEvent]:
        """Return events as they are given to users."""
        try:
            events: list[StoredEvent] = self._json.deserialize(f"[{','.join([data for _, data, _ in rows])}]")
            for event, (sequence, _, timestamp) in zip(events, rows, strict=True):
                event["sequence"] = sequence
                event["timestamp"] = timestamp
        except (CannotDeserialize, TypeError, ValueError) as error:  # it is no JSON, no object, or several
            if len(rows) == 1:
                raise _no_event(stream_key, rows[0][0]) from error
            return [event for row in rows for event in self._events(stream_key, [row])]
        return events


class SqliteEventStoreBackend(DBEventStoreBackend):
    """The event log in a SQLite file of its own, by default ``.holdfast/events.sqlite`` in the current folder.

    It is opened by ``initialize`` or ``async with``, and ended by ``close``; any number of processes may share it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        poll_interval: Duration = POLL_INTERVAL,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        self._path = Path(FILE if path is None else path)
        super().__init__(
            ConnectionManager(self._path), poll_interval=poll_interval, world=world, clock_offset_ms=clock_offset_ms
        )

    async def initialize(self) -> None:
        """Make the file and its tables, as far as they are missing; a second call changes nothing."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        await super().initialize()

    async def close(self) -> None:
        """Finish what is being written, end the iterations of those who follow, and close the file."""
        await super().close()
        await self._manager.close()


def _type(event: Mapping[str, Any], at: int) -> str:
    """Return the type of an event as it stands in its column."""
    named = event.get("type", event.get("event_type", _UNTYPED))
    try:
        return checked_key(named, "type of an event")
    except (TypeError, ValueError) as error:
        raise CannotSerialize(f"Cannot store the event at $[{at}]: {error}") from error


def _checked_limit(limit: int | None) -> int | None:
    return None if limit is None else count(limit, "limit", most=MOST_BITS)


def _no_event(stream_key: str, sequence: int) -> CannotDeserialize:
    """Say which row was written past this store, and is no event."""
    return CannotDeserialize(
        f"The row {sequence} of the stream {stream_key!r} in holdfast_events is no event: its data is not one JSON "
        f"object. Mend or delete it, or read on behind it, with get_after or follow from {sequence}."
    )


def _overtaken(stream_key: str) -> Conflict:
    """Say that a number which an append took is the number of an event already: it was not taken as appends do."""
    return Conflict(
        f"The stream {stream_key!r} has an event with a number that is still to come: a row was written into "
        "holdfast_events past this store. Set its last_sequence in holdfast_event_streams to the greatest sequence "
        "it has, or add that row, and append again."
    )


__all__ = ["DBEventStoreBackend", "SqliteEventStoreBackend", "StoredEvent"]
