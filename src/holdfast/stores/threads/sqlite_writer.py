"""Writing to a SQLite file on the thread that asks, for a thread that writes alone."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from holdfast.db.session import Transaction, run_sync
from holdfast.db.sqlite.checkpoint import Checkpointer
from holdfast.db.sqlite.sqlite import SqliteSession, opener
from holdfast.db.url import DialectName
from holdfast.errors import Retryable, UnknownCommit
from holdfast.stores.threads.facts import PutEach

if TYPE_CHECKING:
    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.settings import Settings
    from holdfast.db.sqlite.sqlite import SqliteConnection

_PAGES = 2 * 4096  # that a small row changes
_LOOK_AFTER = 256 * 1024  # bytes of the log, which is not looked at for every row


class SqliteWriter:
    """Writes what a thread hands over on that thread, in a transaction of its own: no other thread is woken for it.

    It is for a thread that nobody else writes beside. Where somebody does, and where the outcome is in doubt, it says
    so, and the pipeline writes instead, with others in one commit.
    """

    def __init__(self, settings: Settings) -> None:
        self._turn = threading.Lock()
        self._not_looked_at = 0
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
            if self._connection is None:
                return []
            if isinstance(kind, PutEach) and len(row) == 1:
                return self._write_one(self._connection, kind, row[0])
            return _written(self._connection, kind, row)
        except (Retryable, UnknownCommit):
            return []  # what may be there already may be written again
        finally:
            self._turn.release()

    def _write_one(self, connection: SqliteConnection, kind: PutEach, row: Values) -> list[Any]:
        if not connection.write_alone(*kind.call(row)):
            return []
        self._not_looked_at += _PAGES + kind.size(row)
        if self._not_looked_at >= _LOOK_AFTER:
            self._not_looked_at = 0
            connection.keep_log_short()
        return [True]


def _written(connection: SqliteConnection, kind: Kind[Any], row: Values) -> list[Any]:
    connection.begin()
    try:
        transaction = Transaction(SqliteSession(connection), DialectName.SQLITE)
        outcomes = list(run_sync(kind.apply(transaction, [row])))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return outcomes
