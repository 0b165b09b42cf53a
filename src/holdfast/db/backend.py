"""Where statements go: to a pool of sessions, or to SQLite's threads. The one place that knows which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db.blocking.sessions import ThreadSession, ThreadSessions
from holdfast.db.pool import Pool
from holdfast.db.queries.placeholders import is_read
from holdfast.db.session import LentSession, Row, Session, Transaction, commit, run_sync
from holdfast.db.sqlite import sqlite
from holdfast.db.sqlite.checkpoint import Checkpointer
from holdfast.db.sqlite.threads import SqliteThreads
from holdfast.db.sqlite.turns import TaskTurn, ThreadTurn
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from holdfast.db.settings import Settings
    from holdfast.db.sqlite.sqlite import SqliteConnection

T = TypeVar("T")

_READERS = 3
_FOR_THREADS = 4  # connections: more threads than that are faster if they share a loop


class Backend(Protocol):
    """What ``ConnectionManager`` needs of a database. SQL is the driver's own."""

    async def open(self) -> None:
        """Make the first connection, so that a wrong setting shows now."""

    async def close(self) -> None:
        """Let what is under way finish, then end all connections."""

    def let_go(self) -> None:
        """End what does not end with the loop, which was closed; from any thread."""

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        """Run one statement in a transaction of its own."""

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Run one statement in a transaction of its own and return its rows."""

    async def acquire(self, *, to_thread: bool = False) -> LentSession:
        """Lend a session that nobody else uses until it is released; it must come back with no transaction open.

        *to_thread*, where ``serves_threads``: to a thread that waits for every statement itself, past the loop.
        """

    async def release(self, session: LentSession) -> None:
        """Take a session back."""

    @property
    def serves_threads(self) -> bool:
        """Whether a thread may borrow a session past the loop, and need not wait for one of those who do."""

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
    return await to_commit(session, dialect, work)


async def to_commit(session: Session, dialect: DialectName, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
    """Run *work* in the transaction that is open on *session*, and commit; roll back whatever goes wrong."""
    transaction = Transaction(session, dialect)
    try:
        result = await work(transaction)
        await commit(session, transaction)
    except BaseException:
        transaction.is_open = False
        await session.rollback()
        raise
    return result


class PooledBackend(Backend):
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
        self._for_threads = ThreadSessions(
            self.connect,
            size=min(settings.pool_size, _FOR_THREADS),
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
        await self.release(await self.acquire())

    async def close(self) -> None:
        await self.pool.close()
        await self._for_threads.close()

    def let_go(self) -> None:
        self._for_threads.let_go()  # the pool's connections are the loop's

    @property
    def serves_threads(self) -> bool:
        return self._dialect is DialectName.POSTGRES and self._for_threads.has_room  # asyncmy's timeouts need a task

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        session = await self.pool.acquire()
        try:
            return await session.execute(sql, args)
        finally:
            await self.pool.release(session)

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        session = await self.pool.acquire()
        try:
            return await session.fetch(sql, args)
        finally:
            await self.pool.release(session)

    async def acquire(self, *, to_thread: bool = False) -> LentSession:
        return self._for_threads.acquire() if to_thread else await self.pool.acquire()

    async def release(self, session: LentSession) -> None:
        if isinstance(session, ThreadSession):
            self._for_threads.release(session)
        else:
            await self.pool.release(session)

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], isolation: str | None) -> T:
        session = await self.pool.acquire()
        try:
            await session.begin(isolation, with_next=True)
            return await to_commit(session, self._dialect, work)
        finally:
            await self.pool.release(session)


def _driver(dialect: DialectName) -> Callable[[Settings], Coroutine[Any, Any, LentSession]]:
    """Return how to connect. A driver is imported when it is first needed: it may be missing, and it takes its time."""
    if dialect is DialectName.POSTGRES:
        from holdfast.db.postgres import postgres  # noqa: PLC0415 -- as said above

        return postgres.connect
    from holdfast.db.mysql import mysql  # noqa: PLC0415 -- as said above

    return mysql.connect


class SqliteBackend(Backend):
    """SQLite: one thread that writes and a few that read; in memory, one thread for both."""

    serves_threads = True

    def __init__(self, settings: Settings) -> None:
        self._path = settings.url.path
        checkpointer = None if self._path is None else Checkpointer(self._path)
        connect = sqlite.opener(settings, checkpointer, shared=True)
        self.writer = SqliteThreads("holdfast-sqlite-writer", connect, patience=settings.busy_timeout)
        self._readers = self.writer
        if self._path is not None:
            self._readers = SqliteThreads(
                "holdfast-sqlite-reader",
                sqlite.opener(settings, shared=True),
                threads=_READERS,
                patience=settings.busy_timeout,
            )

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

    def let_go(self) -> None:
        if self._readers is not self.writer:
            self._readers.stop_soon()
        self.writer.stop_soon()

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return await self.writer.call(lambda connection: connection.execute(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        threads = self._readers if is_read(sql) else self.writer
        return await threads.call(lambda connection: connection.fetch(sql, args))

    async def acquire(self, *, to_thread: bool = False) -> LentSession:
        return ThreadTurn(self.writer) if to_thread else TaskTurn(self.writer)

    async def release(self, session: LentSession) -> None:
        await session.close()

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
