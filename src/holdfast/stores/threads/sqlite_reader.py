"""Reading checkpoints from a SQLite file on the thread that asks."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.db.queries.calls import taker
from holdfast.db.sqlite.file import OpenFile
from holdfast.db.sqlite.forks import forks
from holdfast.db.sqlite.sqlite import meaning
from holdfast.errors import NotInitialized, WrongLoop
from holdfast.stores.threads.reading import large_of, page_values
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.db.queries.calls import Take
    from holdfast.db.queries.queries import Queries
    from holdfast.db.settings import Settings

_ANY = 2**31 - 1  # bytes: SQLite holds no more in a value
_SHORT = 4096  # bytes of data that come with a page


class Seen(NamedTuple):
    """A checkpoint that lacks what belongs to it: writes, if there are some on top of it, its data, or large values."""

    saved: Saved
    has_writes: bool
    lacks_data: bool


class SqliteReader:
    """Reads a SQLite file on the thread that asks: no other thread is woken, which would take longer than the reading.

    Threads take turns on one connection, which writes nothing. It sees every commit that was acknowledged before.
    """

    def __init__(self, settings: Settings, queries: Queries) -> None:
        self._queries = queries
        self._value, self._writes, self._data = (
            queries[name].statements[0].text for name in ("thread_value", "thread_written", "thread_data")
        )
        self._texts: dict[tuple[str, ...], tuple[str, Take]] = {}
        self._turn = self.in_use = threading.RLock()
        self._pid = os.getpid()
        self._raw: sqlite3.Connection | None = sqlite3.connect(
            str(settings.url.path), timeout=settings.busy_timeout, isolation_level=None, check_same_thread=False
        )
        self.file = OpenFile(str(settings.url.path))
        forks.refuse_left_open(self.file)
        forks.tell(self)
        for text, arguments in queries["reader_settings"].bind({}):
            self._raw.execute(text, arguments)

    def close(self) -> None:
        """End the connection."""
        with self._turn:
            raw, self._raw = self._raw, None
            if raw is not None and os.getpid() == self._pid:
                raw.close()

    @property
    def in_transaction(self) -> bool:
        return self._raw is not None and self._raw.in_transaction

    def close_inherited(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""
        values = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "most": 1, "most_bytes": _ANY}
        if checkpoint_id is not None:
            values["checkpoint_id"] = checkpoint_id
        found, whole = self._looked_up(values)
        if not whole:  # it was deleted while it was being read, or lacks something
            with self._at_one_moment():
                found, _ = self._looked_up(values)
        return found

    def page(self, span: Span, after: Place | None, most: int) -> list[Found | Seen]:
        """Return so many checkpoints of *span*, newest first, that come after *after*; ``filled`` brings the rest."""
        values = page_values(span, after, most)
        if span.thread_id is not None:
            return self._page({**values, "most_bytes": _SHORT})
        keys = [Place(*row) for row in self._rows("thread_keys", values)]
        return [seen for key in keys for seen in self._page({**key._asdict(), "most": 1, "most_bytes": _SHORT})]

    def whole_page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return a page of checkpoints with all that belongs to them."""
        while True:
            page = self.page(span, after, most)
            found = [each for each in map(self.filled, page) if each is not None]
            if len(found) == len(page):  # a page that lacks what was deleted meanwhile would look like the last one
                return found

    def filled(self, seen: Found | Seen) -> Found | None:
        """Return a checkpoint with its large values and writes; None if it was deleted meanwhile."""
        if isinstance(seen, Found):
            return seen
        found, whole = self._completed(seen)
        return found if whole else self.find(*seen.saved.place)

    def _looked_up(self, values: dict[str, Any]) -> tuple[Found | None, bool]:
        """Return a checkpoint or None, and whether all that belongs to it was there."""
        rows = self._rows("thread_read", values)
        if not rows:
            return None, True
        seen = _seen(rows[0])
        return (seen, True) if isinstance(seen, Found) else self._completed(seen)

    @contextmanager
    def _at_one_moment(self) -> Iterator[None]:
        """Let all that is read see the same commits, and no other thread read meanwhile."""
        with self._turn:
            raw = self._open()
            raw.execute("BEGIN")
            try:
                yield
            finally:
                raw.rollback()

    def _page(self, values: dict[str, Any]) -> list[Found | Seen]:
        return [_seen(row) for row in self._rows("thread_read", values)]

    def _rows(self, query: str, values: dict[str, Any]) -> list[Any]:
        given = (query, *values)
        if given not in self._texts:
            [statement] = self._queries[query].variant(values).statements
            self._texts[given] = statement.text, taker(statement.order)
        text, take = self._texts[given]
        return self._fetch(text, take(values))

    def _completed(self, seen: Seen) -> tuple[Found, bool]:
        """Return a checkpoint with what belongs to it, and whether all of that was there."""
        saved, has_writes, lacks_data = seen
        if lacks_data:
            rows = self._fetch(self._data, saved.place)
            if not rows:
                return Found(saved, (), ()), False
            saved = saved._replace(data=rows[0][0])
        thread_id, checkpoint_ns, _ = place = saved.place
        values = [
            LargeValue(channel, version, *row)
            for channel, version in saved.large.items()
            for row in self._fetch(self._value, (thread_id, checkpoint_ns, channel, version))
        ]
        writes = [Write(*row) for row in self._fetch(self._writes, place)] if has_writes else []
        whole = len(values) == len(saved.large) and bool(writes) is has_writes
        return Found(saved, tuple(values), in_order(writes)), whole

    def _fetch(self, text: str, arguments: Sequence[Any]) -> list[Any]:
        if os.getpid() != self._pid:
            raise WrongLoop("This object was opened before a fork, and SQLite cannot be used across one: make another.")
        with self._turn:
            try:
                return self._open().execute(text, arguments).fetchall()
            except sqlite3.Error as error:
                raise meaning(error, text) from error

    def _open(self) -> sqlite3.Connection:
        if self._raw is None:
            raise NotInitialized("This object was closed by another thread during the call.")
        return self._raw


def _seen(row: Sequence[Any]) -> Found | Seen:
    thread_id, checkpoint_ns, checkpoint_id, parent_id, format_, data, metadata, large, has_writes = row
    place = Place(thread_id, checkpoint_ns, checkpoint_id)
    saved = Saved(place, parent_id, None, format_, data or b"", metadata, large_of(large))
    if data is None or has_writes or saved.large:
        return Seen(saved, bool(has_writes), data is None)
    return Found(saved, (), ())
