"""``ConnectionManager``: the public door to a database, safe for any number of tasks on one loop."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar, Token
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.backoff import backoff
from holdfast.db.backend import SqliteBackend, backend_for
from holdfast.db.outlast import outlast
from holdfast.db.queries.queries import Query
from holdfast.db.session import Row, Transaction, commit, commit_after, native
from holdfast.db.settings import Settings
from holdfast.db.url import DatabaseURL, DialectName
from holdfast.errors import BrokenOff, ConfigurationError, NestedTransaction, NotInitialized, Retryable, WrongLoop
from holdfast.model.world import RealWorld, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.db.backend import PooledBackend

    Entered = tuple[tuple["ConnectionManager", Transaction | "TransactionBlock"], ...]

T = TypeVar("T")

_ISOLATION = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
_ATTEMPTS = 8
_ATTEMPTS_BROKEN_OFF = 3  # an operator has to stop a statement that is too heavy so often

# The transactions this task is inside of, innermost last. A second way to the database taken there would wait for
# the first for ever on SQLite, which has one writer, and on a pool that is used up.
_entered: ContextVar[Entered] = ContextVar("holdfast_transactions", default=())


class ConnectionManager:
    """A database reached by URL: PostgreSQL, MariaDB/MySQL or SQLite, with one set of verbs and one placeholder, ``?``.

    Rows are dicts and counts are true on every database. Calls from many tasks never share a transaction. A lost
    connection is replaced; a call that can safely be made again is made again. Errors are ``DatabaseError``s whose
    ``kind`` says what they mean, with the driver's error as the cause.

    *pooled=False* opens a connection for each use (serverless, external poolers); *prepared=False* keeps no prepared
    statements (PgBouncer in transaction mode); *synchronous* relaxes SQLite's durability when that is wanted;
    *longest_pause* is for how many seconds a transaction may be left open in silence before the server ends it.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        pool_size: int = 20,
        pool_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        command_timeout: float | None = None,
        busy_timeout: float = 30.0,
        pooled: bool = True,
        prepared: bool = True,
        synchronous: str = "FULL",
        application_name: str = "holdfast",
        longest_pause: float | None = None,
        world: World | None = None,
    ) -> None:
        self.settings = Settings(
            url=DatabaseURL.parse(url),
            pool_size=pool_size,
            pool_timeout=pool_timeout,
            connect_timeout=connect_timeout,
            command_timeout=command_timeout,
            busy_timeout=busy_timeout,
            pooled=pooled,
            prepared=prepared,
            synchronous=synchronous,
            application_name=application_name,
            longest_pause=longest_pause,
        )
        self.world: World = world or RealWorld()
        self._backend: PooledBackend | SqliteBackend | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._opening = asyncio.Lock()
        self._first_to_close: list[Callable[[], Awaitable[None]]] = []

    @property
    def url(self) -> DatabaseURL:
        """Where this manager connects to; its text shows no password."""
        return self.settings.url

    @property
    def dialect(self) -> DialectName:
        """Which of the three SQL dialects the database speaks."""
        return self.settings.url.dialect

    @property
    def is_open(self) -> bool:
        """Whether it has been initialized and not closed."""
        return self._backend is not None

    async def initialize(self) -> None:
        """Open the first connection; a second call changes nothing. A closed manager may be opened again."""
        async with self._opening:
            if self._backend is not None:
                return
            backend = backend_for(self.settings)
            await backend.open()
            self._backend = backend
            self._loop = asyncio.get_running_loop()
            self._pid = os.getpid()

    async def close(self) -> None:
        """End all connections after what is under way; a second call changes nothing.

        Pipelines that stand on this manager are closed first. In a forked child it only forgets its parent's.
        """
        self.refuse_inside_transaction("close")
        forked = self._backend is not None and os.getpid() != self._pid
        async with self._opening:
            while self._first_to_close and not forked:
                await self._first_to_close[-1]()
            backend, self._backend = self._backend, None
            if backend is not None and not forked:  # a child's goodbye would end the parent's conversation
                await backend.close()

    def let_go(self) -> None:
        """End, without waiting, what did not end with the loop, which was closed and left this open; from any thread.

        That is the threads of SQLite. Connections to a server end when nobody has them any more.
        """
        backend, self._backend = self._backend, None
        if backend is not None and os.getpid() == self._pid:
            backend.let_go()

    def close_first(self, close: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Have *close* called before the connections end; return what takes that back, which *close* must call."""
        self._first_to_close.append(close)
        return lambda: self._first_to_close.remove(close)

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run one statement, or a named query, in a transaction of its own; return how many rows it touched."""
        call = self._single(sql, args, named)
        if call is None:
            return await self.run(lambda transaction: transaction.execute(sql, **named))
        self.refuse_inside_transaction("execute")
        backend = self.backend()
        return await self._persevere(lambda: backend.execute(*call))

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run one statement, or a named query, in a transaction of its own; return its rows."""
        call = self._single(sql, args, named)
        if call is None:
            return await self.run(lambda transaction: transaction.fetch(sql, **named))
        self.refuse_inside_transaction("fetch")
        backend = self.backend()
        return await self._persevere(lambda: backend.fetch(*call))

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run one statement, or a named query, in a transaction of its own; return its first row, or None."""
        rows = await self.fetch(sql, *args, **named)
        return rows[0] if rows else None

    async def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Read with a batch query over *rows*; return what it found.

        The query has one statement, which only reads. SQLite reads for many rows in lots, each at its own moment.
        """
        self.refuse_inside_transaction("fetch_batch")
        backend = self.backend()
        found: list[Row] = []
        for call in query.batch(rows, named):
            found += await self._persevere(partial(backend.fetch, *call))
        return found

    def transaction(self, *, isolation: str | None = None) -> TransactionBlock:
        """Open a transaction for an ``async with`` block: committed when it ends, rolled back when it raises."""
        return TransactionBlock(self, isolation)

    def transaction_on_thread(self, *, isolation: str | None = None) -> TransactionBlock | None:
        """Return a transaction that any thread may drive with ``run_sync``, past the loop; None if it must ask that."""
        return TransactionBlock(self, isolation, on_thread=True) if self.serves_threads else None

    @property
    def serves_threads(self) -> bool:
        """Whether a thread may speak to the database past the loop now, and need not wait for others that do."""
        return self._backend is None or self._backend.serves_threads  # if it is not open, any use says so

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], *, isolation: str | None = None) -> T:
        """Run *work* in one transaction, again from the start if the database asks for that, and return its result.

        *work* may be run several times, so it must change nothing outside the transaction; and it may wait for
        nothing but its own statements: on SQLite all of it runs on the writer's thread in one go.
        """
        self.refuse_inside_transaction("run")
        backend = self.backend()
        level = checked_isolation(isolation)

        async def marked(transaction: Transaction) -> T:
            mark = _entered.set((*_entered.get(), (self, transaction)))
            try:
                return await work(transaction)
            finally:
                _entered.reset(mark)

        return await self._persevere(lambda: backend.run(marked, level))

    def _single(
        self, sql: str | Query, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[str, tuple[Any, ...]] | None:
        """Return the one call to make, or None for a query of several statements."""
        if isinstance(sql, Query):
            calls = sql.bind(named)
            return calls[0] if len(calls) == 1 else None
        return native(sql, self.dialect, args), args

    def backend(self) -> PooledBackend | SqliteBackend:
        """Return what carries the statements out, for the rooms that build on it; refuse use in the wrong place."""
        backend = self._backend
        if backend is None:
            raise NotInitialized(f"The connection to {self.url.safe} is not open; await initialize() first.")
        if _running_loop() is not self._loop or os.getpid() != self._pid:
            if os.getpid() != self._pid:
                raise self._forked()
            raise WrongLoop(
                f"Another event loop opened the connection to {self.url.safe}: use it there, or open another one here."
            )
        return backend

    def lender(self, *, to_thread: bool = False) -> PooledBackend | SqliteBackend:
        """Return what lends sessions for whole transactions; refuse use in the wrong place."""
        if not to_thread:
            return self.backend()
        backend = self._backend
        if backend is None:
            raise NotInitialized(f"The connection to {self.url.safe} is not open; await initialize() first.")
        if os.getpid() != self._pid:
            raise self._forked()
        return backend

    def _forked(self) -> WrongLoop:
        return WrongLoop(
            f"This process was forked from the one that opened the connection to {self.url.safe}: open one here."
        )

    def refuse_inside_transaction(self, verb: str, besides: TransactionBlock | None = None) -> None:
        """Raise if the calling task or thread is inside a transaction of this manager other than *besides*."""
        entered = _entered.get()
        if entered and any(manager is self and each.is_open and each is not besides for manager, each in entered):
            raise NestedTransaction(
                f"{verb}() was called on the connection manager inside one of its own transactions, where it could "
                "wait for itself for ever; use the transaction's execute() and fetch()."
            )

    async def _persevere(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make the call again while the database says that nothing was written and that it may succeed.

        A SQLite file that was locked for ``busy_timeout`` has been asked for often enough.
        """
        patience = self.settings.busy_timeout if self.dialect is DialectName.SQLITE else float("inf")
        began = self.world.monotonic()
        for failures in range(1, _ATTEMPTS):
            try:
                return await attempt()
            except Retryable as error:
                if isinstance(error, BrokenOff) and failures >= _ATTEMPTS_BROKEN_OFF:
                    raise
                if self.world.monotonic() - began >= patience:
                    raise
                await self.world.sleep(backoff(failures, base=0.005, cap=1.0, draw=self.world.random.random()))
        return await attempt()


class TransactionBlock:
    """A transaction as a block of code. Sync code drives ``begin`` and ``end`` itself, from another thread."""

    def __init__(self, manager: ConnectionManager, isolation: str | None, *, on_thread: bool = False) -> None:
        self._manager = manager
        self._on_thread = on_thread
        self._isolation = checked_isolation(isolation)
        self.is_open = True

    @property
    def ended_early(self) -> bool:
        """Whether a statement has ended the transaction on the server, as DDL does on MariaDB/MySQL: it commits."""
        return not self._session.in_transaction and self._session.usable

    async def begin(self, *, with_next: bool = False) -> Transaction:
        """Take a session of one's own and open a transaction on it; *with_next* together with its first statement."""
        self._manager.refuse_inside_transaction("transaction", besides=self)
        self._lender = self._manager.lender(to_thread=self._on_thread)
        self._session = await self._lender.acquire(to_thread=self._on_thread)
        try:
            await self._session.begin(self._isolation, with_next=with_next)
        except BaseException:
            await self._lender.release(self._session)
            raise
        self._transaction = Transaction(self._session, self._manager.dialect)
        return self._transaction

    async def end(self, *, keep: bool) -> None:
        """Commit, or roll back if that fails or is not wanted; give the session back."""
        self.is_open = self._transaction.is_open = False
        committed = False
        try:
            if keep:
                await commit(self._session, self._transaction)
                committed = True
        finally:
            await self._give_back(committed=committed)

    async def end_after(self, query: Query, **named: Any) -> bool:
        """Run a last statement and commit, in one trip where the driver can; return whether it touched a row.

        If not, all is rolled back; on PostgreSQL the statement must fail instead. The session is given back. Once it
        is sent, a cancelled task hears what came of it nevertheless, save on MariaDB/MySQL.
        """
        self.is_open = False
        kept = False
        [(text, values)] = query.bind(named)
        ending: Awaitable[bool] = commit_after(self._session, self._transaction, text, values)
        if self._manager.dialect is DialectName.POSTGRES and not self._on_thread:
            ending = outlast(ending)  # asyncpg would break it off
        try:
            kept = await ending
        finally:
            await self._give_back(committed=kept)
        return kept

    async def _give_back(self, *, committed: bool) -> None:
        try:
            if not committed:
                await self._session.rollback()
        finally:
            await self._lender.release(self._session)

    def mark(self) -> Token[Entered]:
        """Note in the calling task's or thread's context that it is inside; ``unmark`` with what is returned.

        It may come before ``begin``.
        """
        return _entered.set((*_entered.get(), (self._manager, self)))

    def unmark(self, mark: Token[Entered]) -> None:
        _entered.reset(mark)

    async def __aenter__(self) -> Transaction:
        transaction = await self.begin()
        self._mark = self.mark()
        return transaction

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unmark(self._mark)
        await self.end(keep=error is None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # a thread without a loop, or a child forked out of one
        return None


def checked_isolation(isolation: str | None) -> str | None:
    """Return the level in capitals; refuse any that not all databases have."""
    if isolation is None:
        return None
    level = " ".join(isolation.upper().split())
    if level not in _ISOLATION:
        raise ConfigurationError(
            f"There is no isolation level {isolation!r}; choose one of {', '.join(sorted(_ISOLATION))}."
        )
    return level
