"""A SQLite file for code without an event loop: every statement is run by the thread that asks."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.backend import in_transaction
from holdfast.db.queries.placeholders import is_read
from holdfast.db.queries.queries import Query
from holdfast.db.session import Transaction
from holdfast.db.sqlite.checkpoint import Checkpointer
from holdfast.db.sqlite.sqlite import SqliteSession, opener, warn_of_old_library
from holdfast.db.url import DialectName
from holdfast.errors import NotInitialized, Retryable, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.session import Row
    from holdfast.db.settings import Settings
    from holdfast.db.sqlite.sqlite import SqliteConnection

T = TypeVar("T")

_PAUSES = (0.01, 0.05, 0.2, 0.5)  # between tries of what was not written


class SqliteHere:
    """The verbs of a connection manager on two connections, one that writes and one that reads; threads take turns.

    The methods are coroutines, so that a shelf is written once, and they never wait: they block their thread.
    """

    dialect = DialectName.SQLITE

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pid = 0
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer: SqliteConnection | None = None
        self._reader: SqliteConnection | None = None

    async def initialize(self) -> None:
        """Open the file; a second call changes nothing."""
        if self._writer is None:
            path = str(self._settings.url.path)
            self._pid = os.getpid()
            self._writer = opener(self._settings, Checkpointer(path), shared=True)()
            self._reader = opener(self._settings, shared=True)()
            warn_of_old_library(path)

    async def close(self) -> None:
        """End the connections, unless they are those of a process that this one was forked from."""
        with self._writing, self._reading:
            connections, self._writer, self._reader = (self._writer, self._reader), None, None
            for each in connections:
                if each is not None and os.getpid() == self._pid:
                    each.close()

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement, or a named query in a transaction of its own; return how many rows it touched."""
        return await self._write(_is_several(sql), lambda transaction: transaction.execute(sql, *args, **named))

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement, or a named query in a transaction of its own; return its rows."""
        texts = [text for text, _ in sql.bind(named)] if isinstance(sql, Query) else [sql]
        if len(texts) == 1 and is_read(texts[0]):
            with self._reading:
                return await self._on(self._reader).fetch(sql, *args, **named)
        return await self._write(len(texts) > 1, lambda transaction: transaction.fetch(sql, *args, **named))

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        rows = await self.fetch(sql, *args, **named)
        return rows[0] if rows else None

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
        """Run *work* in one transaction, again from the start if SQLite asks for that."""
        return await self._write(True, work)

    async def _write(
        self,
        together: bool,
        work: Callable[[Transaction], Coroutine[Any, Any, T]],
    ) -> T:
        for pause in (*_PAUSES, None):
            try:
                with self._writing:
                    if not together:
                        return await work(self._on(self._writer))
                    return await in_transaction(self._session(self._writer), self.dialect, work)
            except Retryable:
                if pause is None:
                    raise
                time.sleep(pause)  # noqa: ASYNC251 -- no loop waits for it: the calling thread is the one that does
        raise AssertionError("unreachable")

    def _on(self, connection: SqliteConnection | None) -> Transaction:
        """Return what takes a statement that commits by itself."""
        return Transaction(self._session(connection), self.dialect)

    def _session(self, connection: SqliteConnection | None) -> SqliteSession:
        if connection is None:
            raise NotInitialized("The backend is not open, or was closed by another thread during the call.")
        if os.getpid() != self._pid:
            raise WrongLoop("This object was opened before a fork, and SQLite cannot be used across one: make another.")
        return SqliteSession(connection)


def _is_several(sql: str | Query) -> bool:
    return isinstance(sql, Query) and len(sql.statements) > 1
