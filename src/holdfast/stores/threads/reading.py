"""Reading checkpoints from a database: what is asked, what comes back, and SQLite's short way for threads that wait."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.db.sqlite import opener
from holdfast.errors import NotInitialized, WrongLoop
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries import Queries
    from holdfast.db.session import Row
    from holdfast.db.settings import Settings
    from holdfast.db.sqlite import SqliteConnection

_CHECKPOINT, _VALUE = 0, 1  # the parts of an answer
_pairs = msgspec.json.Decoder(list[tuple[str, str]]).decode


class SqliteReader:
    """Reads a SQLite file on the thread that asks: no other thread is woken, which would take longer than the reading.

    Threads take turns on one connection. It sees every commit that was acknowledged before.
    """

    def __init__(self, settings: Settings, queries: Queries) -> None:
        self._page = queries["thread_page"]
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self._connection: SqliteConnection | None = opener(settings, shared=True)()

    def close(self) -> None:
        """End the connection."""
        with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None and os.getpid() == self._pid:
                connection.close()

    def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""
        found = self.page(Span(thread_id, checkpoint_ns, checkpoint_id), None, 1)
        return found[0] if found else None

    def page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return so many checkpoints of *span*, newest first, that come after *after*."""
        [(sql, arguments)] = self._page.bind(page_values(span, after, most))
        with self._turn:
            rows = self._open().fetch(sql, arguments)
        return together(rows)

    def _open(self) -> SqliteConnection:
        if os.getpid() != self._pid:
            raise WrongLoop("This object was opened before a fork, and SQLite cannot be used across one: make another.")
        if self._connection is None:
            raise NotInitialized("This object was closed by another thread during the call.")
        return self._connection


def page_values(span: Span, after: Place | None, most: int) -> dict[str, Any]:
    """Return the parameters of ``thread_page``."""
    given: dict[str, Any] = {name: value for name, value in span._asdict().items() if value is not None}
    if after is not None:
        given |= {"after_id": after.checkpoint_id, "after_thread": after.thread_id, "after_ns": after.checkpoint_ns}
    return {**given, "most": most}


def large_of(row: Row) -> dict[str, str]:
    """Return the versions of the large values of a checkpoint."""
    return dict(_pairs(row["large"]))


def together(rows: Sequence[Row]) -> list[Found]:
    """Make checkpoints of the parts of an answer."""
    saved: list[Saved] = []
    values: dict[tuple[str, ...], LargeValue] = {}
    writes: dict[Place, list[Write]] = {}
    for row in rows:
        thread_id, checkpoint_ns, name, other = row["thread_id"], row["checkpoint_ns"], row["name"], row["other"]
        if row["part"] == _CHECKPOINT:
            saved.append(_saved(row, name, other))
        elif row["part"] == _VALUE:
            values[thread_id, checkpoint_ns, name, other] = LargeValue(name, other, row["format"], row["data"])
        else:
            write = Write(other, row["idx"], row["channel"], row["format"], row["data"], row["metadata"])
            writes.setdefault(Place(thread_id, checkpoint_ns, name), []).append(write)
    saved.sort(key=lambda each: each.place[:2])
    saved.sort(key=lambda each: each.place.checkpoint_id, reverse=True)
    return [
        Found(
            each,
            tuple(values[key] for item in each.large.items() if (key := (*each.place[:2], *item)) in values),
            in_order(writes.get(each.place, [])),
        )
        for each in saved
    ]


def _saved(row: Row, checkpoint_id: str, parent_id: str | None) -> Saved:
    place = Place(row["thread_id"], row["checkpoint_ns"], checkpoint_id)
    return Saved(place, parent_id, None, row["format"], row["data"], row["metadata"], large_of(row))
