"""One conversation with a database, and the transaction a user sees.

A ``Session`` speaks its driver's own SQL and raises only errors of ours. It is used by one task at a time. Its methods
are ``async def`` everywhere; on SQLite they never wait, so that a whole transaction can be run on the writer's thread
with ``run_sync`` and without a hop per statement.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db.queries.placeholders import translate
from holdfast.db.queries.queries import Query
from holdfast.errors import MisuseError, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from holdfast.db.url import DialectName

T = TypeVar("T")
Row = dict[str, Any]


class Session(Protocol):
    """What a driver must offer. After any error but a failed statement outside a transaction, roll back or close."""

    @property
    def usable(self) -> bool:
        """False once the connection is known to be gone."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the server said with its last answer; asks nothing."""

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        """Run one statement and return how many rows it touched (found rows, not changed ones)."""

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Run one statement and return its rows."""

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:
        """Open a transaction that may write; *with_next* lets BEGIN go with the next statement, where it may fail."""

    async def commit(self) -> None:
        """Commit. A connection lost here raises ``UnknownCommit``: it may have happened."""

    async def rollback(self) -> None:
        """Undo the open transaction; a connection that is already gone has done so itself."""

    async def close(self) -> None:
        """End the conversation. Never raises for a connection that is already gone."""


class LentSession(Session, Protocol):
    """A session that one task or thread has to itself for a whole transaction, with as few trips as the driver can."""

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        """Run a last statement and commit, unless it touches no row; return whether it did.

        Where both go at once (PostgreSQL) the statement itself must fail rather than touch no row. After an error
        nothing is committed, save after ``UnknownCommit``.
        """


class Transaction:
    """Statements that commit together or not at all, written with the canonical placeholder ``?``.

    The same three verbs as ``ConnectionManager``. A named query may be given in place of SQL text, with its
    parameters by name. After a statement that failed, or was cancelled, the transaction can only be rolled back, on
    every database: MySQL would go on after a lock timeout, and after a deadlock commit what follows alone.
    """

    __slots__ = ("_dialect", "_session", "failed", "is_open")

    def __init__(self, session: Session, dialect: DialectName) -> None:
        self._session = session
        self._dialect = dialect
        self.is_open = True
        self.failed = False

    @property
    def session(self) -> Session:
        """The connection it is on; another transaction there comes after this one."""
        return self._session

    @property
    def dialect(self) -> DialectName:
        """Which of the three SQL dialects its database speaks."""
        return self._dialect

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement; return how many rows it touched."""
        if isinstance(sql, Query):
            count = 0
            for text, values in sql.bind(named):
                count = await self._execute(text, values)
            return count
        return await self._execute(native(sql, self._dialect, args), args)

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement; return its rows, each a dict."""
        if isinstance(sql, Query):
            rows: list[Row] = []
            for text, values in sql.bind(named):
                rows = await self._fetch(text, values)
            return rows
        return await self._fetch(native(sql, self._dialect, args), args)

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        rows = await self.fetch(sql, *args, **named)
        return rows[0] if rows else None

    async def execute_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> int:
        """Run a batch query over *rows*; return how many rows its last statement touched, or found, in all."""
        calls = query.batch(rows, named)
        every = len(query.statements)
        count = 0
        for number, (text, values) in enumerate(calls, 1):
            touched = await self._execute(text, values)
            if number % every == 0:
                count += touched
        return count

    async def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Run a batch query over *rows*; return what its statements returned, in order."""
        found: list[Row] = []
        for text, values in query.batch(rows, named):
            found += await self._fetch(text, values)
        return found

    async def _execute(self, text: str, values: Sequence[Any]) -> int:
        session = self._live()
        try:
            return await session.execute(text, values)
        except BaseException:
            self.failed = True
            raise

    async def _fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        session = self._live()
        try:
            return await session.fetch(text, values)
        except BaseException:
            self.failed = True
            raise

    def _live(self) -> Session:
        if not self.is_open:
            raise MisuseError("This transaction has ended; open another one with transaction().")
        if self.failed:
            raise QueryFailed(
                "An earlier statement of this transaction failed, so none of it will be kept; leave the block and open "
                "another transaction."
            )
        return self._session


async def commit(session: Session, transaction: Transaction) -> None:
    """Commit *transaction*, which runs on *session*, unless one of its statements failed; it takes no more of them."""
    _seal(transaction)
    await session.commit()


async def commit_after(session: LentSession, transaction: Transaction, text: str, values: Sequence[Any]) -> bool:
    """Run a last statement of *transaction* and commit, as ``LentSession.commit_after`` does."""
    _seal(transaction)
    return await session.commit_after(text, values)


def _seal(transaction: Transaction) -> None:
    """Take no more statements; refuse to commit after one that failed."""
    transaction.is_open = False
    if transaction.failed:
        raise QueryFailed(
            "The transaction was rolled back, because one of its statements had failed before. Nothing was written."
        )


def native(sql: str, dialect: DialectName, args: Sequence[Any]) -> str:
    """Return *sql* in the driver's own placeholders; refuse what cannot work before it is sent."""
    translated = translate(sql, dialect)
    if translated.count != len(args):
        raise QueryFailed(
            f"The statement has {translated.count} placeholders but {len(args)} arguments were given: "
            f"{sql.strip()[:200]}"
        )
    if translated.controls_transaction:
        raise MisuseError(
            f"{sql.split(None, 1)[0].upper()} was given as a statement: a transaction begins and ends with the block "
            "of transaction(), or what was acknowledged before would be lost."
        )
    return translated.text


_WAITED = (
    "Work inside a SQLite transaction tried to wait for something else than its own statements. "
    "Do that before or after, or use transaction() with statements one by one."
)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait, here and now, without a loop; ``MisuseError`` if it tries to."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    except RuntimeError as error:
        if str(error) != "no running event loop":  # what asyncio says to a sleep or a task begun on this thread
            raise
        raise MisuseError(_WAITED) from error
    with suppress(RuntimeError):  # it waits again while it is being closed; what it left open is the caller's to end
        work.close()
    raise MisuseError(_WAITED)
