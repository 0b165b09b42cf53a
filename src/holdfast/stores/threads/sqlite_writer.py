"""Writing to a SQLite file on the thread that asks, for a thread that writes alone."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from holdfast.db.checkpoint import Checkpointer
from holdfast.db.session import Transaction, run_sync
from holdfast.db.sqlite import SqliteSession, opener
from holdfast.db.url import DialectName
from holdfast.errors import Retryable, UnknownCommit
from holdfast.stores.threads.facts import PutEach

if TYPE_CHECKING:
    from holdfast.db.operation import Kind, Values
    from holdfast.db.settings import Settings
    from holdfast.db.sqlite import SqliteConnection


class SqliteWriter:
    """Writes what a thread hands over on that thread, in a transaction of its own: no other thread is woken for it.

    It is for a thread that nobody else writes beside. Where somebody does, and where the outcome is in doubt, it says
    so, and the pipeline writes instead, with others in one commit.
    """

    def __init__(self, settings: Settings) -> None:
        self._turn = threading.Lock()
        self._pid = os.getpid()
        path = settings.url.path
        checkpointer = None if path is None else Checkpointer(path)
        self._connection: SqliteConnection | None = opener(settings, checkpointer, shared=True)()

    def close(self) -> None:
        """End the connection."""
        with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None and os.getpid() == self._pid:
                connection.close()

    def write(self, kind: Kind[Any], row: Values) -> list[Any]:
        """Write *row* here and return its outcome, durable; an empty list if the pipeline is to write it."""
        if os.getpid() != self._pid or not self._turn.acquire(blocking=False):
            return []
        try:
            return [] if self._connection is None else _written(self._connection, kind, row)
        except (Retryable, UnknownCommit):
            return []  # what may be there already may be written again
        finally:
            self._turn.release()


def _written(connection: SqliteConnection, kind: Kind[Any], row: Values) -> list[Any]:
    calls = kind.calls(row) if isinstance(kind, PutEach) else []
    if len(calls) == 1:
        connection.execute(*calls[0])  # a lone statement commits by itself
        return [True]
    connection.begin()
    try:
        for text, arguments in calls:
            connection.execute(text, arguments)
        outcomes = [True] if calls else _applied(connection, kind, row)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return outcomes


def _applied(connection: SqliteConnection, kind: Kind[Any], row: Values) -> list[Any]:
    return list(run_sync(kind.apply(Transaction(SqliteSession(connection), DialectName.SQLITE), [row])))
