"""Where statements go: to a pool of sessions, or to SQLite's threads. The one place that knows which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db import sqlite
from holdfast.db.checkpoint import Checkpointer
from holdfast.db.placeholders import is_read
from holdfast.db.pool import Pool
from holdfast.db.session import LentSession, Row, Session, Transaction, commit, run_sync
from holdfast.db.sqlite_threads import SqliteThreads
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from holdfast.db.settings import Settings
    from holdfast.db.sqlite import SqliteConnection

T = TypeVar("T")

_READERS = 3


class Backend(Protocol):
    """What ``ConnectionManager`` needs of a database. SQL is the driver's own."""

    async def open(self) -> None:
        """Make the first connection, so that a wrong setting shows now."""

    async def close(self) -> None:
        """Let what is under way finish, then end all connections."""

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        """Run one statement in a transaction of its own."""

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Run one statement in a transaction of its own and return its rows."""

    def exclusive(self) -> AbstractAsyncContextManager[LentSession]:
        """Lend a session that nobody else uses meanwhile."""

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], isolation: str | None) -> T:
        """Run *work* in one transaction, once."""


async def in_transaction(
    session: Session,
    dialect: DialectName,
    work: Callable[[Transaction], Coroutine[Any, Any, T]],
    isolation: str | None = None,
) -> T:
    """Run *work* between BEGIN and COMMIT on *session*; whatever goes wrong, nothing is left open."""
    await session.begin(isolation)
    transaction = Transaction(session, dialect)
    try:
        result = await work(transaction)
        await commit(session, transaction)
    except BaseException:
        transaction.is_open = False
        await session.rollback()
        raise
    return result


class PooledBackend:
    """PostgreSQL and MariaDB/MySQL."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._dialect = settings.url.dialect
        self._driver = _driver(self._dialect)
        self.pool = Pool(
            self.connect,
            size=settings.pool_size,
            timeout=settings.pool_timeout,
            keep=settings.pooled,
        )

    async def connect(self) -> LentSession:
        """Open a session outside the pool, for a service that needs one of its own."""
        return await self._driver(self._settings)

    async def connect_for_lookups(self) -> Session:
        """Open a session of one's own that only ever finds rows by their keys."""
        return await self._driver(replace(self._settings, lookups=True))

    async def open(self) -> None:
        async with self.pool.lease():
            pass

    async def close(self) -> None:
        await self.pool.close()

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        async with self.pool.lease() as session:
            return await session.execute(sql, args)

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        async with self.pool.lease() as session:
            return await session.fetch(sql, args)

    def exclusive(self) -> AbstractAsyncContextManager[LentSession]:
        return self.pool.lease()

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], isolation: str | None) -> T:
        async with self.pool.lease() as session:
            return await in_transaction(session, self._dialect, work, isolation)


def _driver(dialect: DialectName) -> Callable[[Settings], Coroutine[Any, Any, LentSession]]:
    """Return how to connect. A driver is imported when it is first needed: it may be missing, and it takes its time."""
    if dialect is DialectName.POSTGRES:
        from holdfast.db import postgres  # noqa: PLC0415 -- as said above

        return postgres.connect
    from holdfast.db import mysql  # noqa: PLC0415 -- as said above

    return mysql.connect


class SqliteBackend:
    """SQLite: one thread that writes and a few that read; in memory, one thread for both."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.url.path
        checkpointer = None if self._path is None else Checkpointer(self._path)
        self.writer = SqliteThreads("holdfast-sqlite-writer", sqlite.opener(settings, checkpointer))
        self._readers = self.writer
        if self._path is not None:
            self._readers = SqliteThreads("holdfast-sqlite-reader", sqlite.opener(settings), threads=_READERS)

    async def open(self) -> None:
        await self.writer.start()
        if self._readers is not self.writer:
            try:
                await self._readers.start()
            except BaseException:
                await self.writer.stop()
                raise
        if self._path is not None:
            sqlite.warn_of_old_library(self._path)

    async def close(self) -> None:
        if self._readers is not self.writer:
            await self._readers.stop()
        await self.writer.stop()

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return await self.writer.call(lambda connection: connection.execute(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        threads = self._readers if is_read(sql) else self.writer
        return await threads.call(lambda connection: connection.fetch(sql, args))

    def exclusive(self) -> AbstractAsyncContextManager[LentSession]:
        return self.writer.exclusive()

    def exclusive_to_thread(self) -> AbstractAsyncContextManager[LentSession]:
        """Lend a session to a thread that waits for every statement itself; from any thread."""
        return self.writer.exclusive_to_thread()

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], isolation: str | None) -> T:
        def job(connection: SqliteConnection) -> T:
            session = sqlite.SqliteSession(connection)
            try:
                return run_sync(in_transaction(session, DialectName.SQLITE, work, isolation))
            finally:
                connection.rollback()  # work that waits even while it is being closed never comes to its own rollback

        return await self.writer.call(job)


def backend_for(settings: Settings) -> PooledBackend | SqliteBackend:
    """Choose by the URL's dialect."""
    return SqliteBackend(settings) if settings.url.dialect is DialectName.SQLITE else PooledBackend(settings)
