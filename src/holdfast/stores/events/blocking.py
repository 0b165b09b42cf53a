"""The event log for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import NotInitialized
from holdfast.stores.blocking import BlockingStore
from holdfast.stores.events.store import DBEventStoreBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.stores.events.store import StoredEvent


class SyncEventStore(BlockingStore[DBEventStoreBackend]):
    """An event log, called from threads; its loop is *portal*'s."""

    def close(self) -> None:
        """Finish what is being written, and end the iterations of those who follow. The manager stays open."""
        self._call(self._store.close())

    def append(
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
        return self._write(lambda store: store.append(stream_key, events, expected_sequence=expected_sequence))

    def get(self, stream_key: str, *, limit: int | None = None) -> list[StoredEvent]:
        """Return the events of a stream in order, the first *limit* of them if it is given."""
        return self._call(self._store.get(stream_key, limit=limit))

    def get_after(self, stream_key: str, after_sequence: int, *, limit: int | None = None) -> list[StoredEvent]:
        """Return the events of a stream with a greater number than *after_sequence*, at most *limit* if it is given.

        The number of the last one is where the next page begins. ``CannotDeserialize`` names the first row among them
        that somebody else has written and that is no event: pages before and behind it can be read.
        """
        return self._call(self._store.get_after(stream_key, after_sequence, limit=limit))

    def follow(self, stream_key: str, after: int = 0, *, timeout: Duration | None = None) -> Iterator[StoredEvent]:
        """Yield the events of a stream with a greater number than *after*, those there are and those to come.

        Every event comes once and in order; what is deleted before it was read does not come. The iteration ends when
        nothing new has come for *timeout*, if it is given, and when the store is closed. A database that cannot be
        reached is waited for. ``CannotDeserialize`` names a row that is no event, after those before it.
        """
        events = self._store.follow(stream_key, after, timeout=timeout)
        event = self._call(_next(events))
        while event is not None:
            yield event
            try:
                event = self._call(_next(events))
            except NotInitialized:
                if self._portal.is_running:
                    raise
                return  # the loop has ended meanwhile, and the store with it

    def last_sequence(self, stream_key: str) -> int:
        """Return the number of the last event a stream ever had, deleted ones included; 0 if it never had any."""
        return self._call(self._store.last_sequence(stream_key))

    def count(self, stream_key: str) -> int:
        """Return how many events a stream has."""
        return self._call(self._store.count(stream_key))

    def stream_keys(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the keys of the streams that have events, sorted; those behind *after*, at most *limit*, if given."""
        return self._call(self._store.stream_keys(after=after, limit=limit))

    def delete_before(self, timestamp: datetime | str) -> int:
        """Delete the events older than an aware time, or its ISO-8601 text, some at a time; return how many.

        The streams count on from where they were. If a connection is lost on the way the number may be too small.
        """
        return self._call(self._store.delete_before(timestamp))


async def _next(events: AsyncIterator[StoredEvent]) -> StoredEvent | None:
    return await anext(events, None)


__all__ = ["SyncEventStore"]
