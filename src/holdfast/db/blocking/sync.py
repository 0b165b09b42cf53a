"""The sync colour of the database door: the same names, one line each, over the same core on a background loop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.manager import ConnectionManager
from holdfast.db.portal import Portal

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from typing import Self

    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row, Session, Transaction
    from holdfast.db.url import DatabaseURL, DialectName

T = TypeVar("T")


class SyncTransaction:
    """Statements that commit together or not at all, for code without an event loop; see ``Transaction``."""

    def __init__(self, transaction: Transaction, portal: Portal) -> None:
        self._transaction = transaction
        self._portal = portal

    @property
    def session(self) -> Session:
        """The connection it is on; another transaction there comes after this one."""
        return self._transaction.session

    @property
    def dialect(self) -> DialectName:
        """Which of the three SQL dialects its database speaks."""
        return self._transaction.dialect

    def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement; return how many rows it touched."""
        return self._portal.call(self._transaction.execute(sql, *args, **named))

    def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement; return its rows, each a dict."""
        return self._portal.call(self._transaction.fetch(sql, *args, **named))

    def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        return self._portal.call(self._transaction.fetchone(sql, *args, **named))

    def execute_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> int:
        """Run a batch query over *rows*; return how many rows its last statement touched, or found, in all."""
        return self._portal.call(self._transaction.execute_batch(query, rows, **named))

    def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Run a batch query over *rows*; return what its statements returned, in order."""
        return self._portal.call(self._transaction.fetch_batch(query, rows, **named))


class SyncConnectionManager:
    """A database reached by URL, for code without an event loop; takes the options of ``ConnectionManager``.

    Safe for any number of threads.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self._portal = Portal("holdfast-db")
        self._manager = ConnectionManager(url, **options)

    @property
    def url(self) -> DatabaseURL:
        """Where this manager connects to; its text shows no password."""
        return self._manager.url

    @property
    def dialect(self) -> DialectName:
        """Which of the three SQL dialects the database speaks."""
        return self._manager.dialect

    def initialize(self) -> None:
        """Open the first connection; a second call changes nothing. A closed manager may be opened again."""
        self._portal.start()
        try:
            self._portal.call(self._manager.initialize())
        except BaseException:
            if not self._manager.is_open:  # no thread is left behind by a manager that could not be opened
                self._portal.stop()
            raise

    def close(self) -> None:
        """End all connections after what is under way; a second call changes nothing.

        Pipelines that stand on this manager are closed first. In a forked child it only forgets its parent's.
        """
        if self._portal.is_running:
            self._portal.call(self._manager.close())
            self._portal.stop()

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run one statement, or a named query, in a transaction of its own; return how many rows it touched."""
        return self._portal.call(self._manager.execute(sql, *args, **named))

    def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run one statement, or a named query, in a transaction of its own; return its rows."""
        return self._portal.call(self._manager.fetch(sql, *args, **named))

    def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run one statement, or a named query, in a transaction of its own; return its first row, or None."""
        return self._portal.call(self._manager.fetchone(sql, *args, **named))

    def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Read with a batch query over *rows*; return what it found.

        The query has one statement, which only reads. SQLite reads for many rows in lots, each at its own moment.
        """
        return self._portal.call(self._manager.fetch_batch(query, rows, **named))

    @contextmanager
    def transaction(self, *, isolation: str | None = None) -> Iterator[SyncTransaction]:
        """Open a transaction for a ``with`` block: committed when it ends, rolled back when it raises."""
        block = self._manager.transaction(isolation=isolation)
        transaction = self._portal.call(block.begin())
        mark = block.mark()
        try:
            yield SyncTransaction(transaction, self._portal)
        except BaseException:
            block.unmark(mark)
            self._portal.call(block.end(keep=False))
            raise
        block.unmark(mark)
        self._portal.call(block.end(keep=True))

    def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], *, isolation: str | None = None) -> T:
        """Run *work* in one transaction, again from the start if the database asks for that, and return its result.

        *work* may be run several times, so it must change nothing outside the transaction; and it may wait for
        nothing but its own statements: on SQLite all of it runs on the writer's thread in one go.
        """
        return self._portal.call(self._manager.run(work, isolation=isolation))
