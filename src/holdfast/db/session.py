"""One conversation with a database, and the transaction a user sees.

A ``Session`` speaks its driver's own SQL and raises only errors of ours. It is used by one task at a time. Its methods
are ``async def`` everywhere; on SQLite they never wait, so that a whole transaction can be run on the writer's thread
with ``run_sync`` and without a hop per statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db.placeholders import translate
from holdfast.db.queries import Query
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

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        """Run one statement and return how many rows it touched (found rows, not changed ones)."""

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        """Run one statement and return its rows."""

    async def begin(self, isolation: str | None = None) -> None:
        """Open a transaction that may write."""

    async def commit(self) -> None:
        """Commit. A connection lost here raises ``UnknownCommit``: it may have happened."""

    async def rollback(self) -> None:
        """Undo the open transaction; a connection that is already gone has done so itself."""

    async def close(self) -> None:
        """End the conversation. Never raises for a connection that is already gone."""


class Transaction:
    """Statements that commit together or not at all, written with the canonical placeholder ``?``.

    The same three verbs as ``ConnectionManager``. A named query may be given in place of SQL text, with its
    parameters by name.
    """

    __slots__ = ("_dialect", "_session", "is_open")

    def __init__(self, session: Session, dialect: DialectName) -> None:
        self._session = session
        self._dialect = dialect
        self.is_open = True

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement; return how many rows it touched."""
        if isinstance(sql, Query):
            count = 0
            for text, values in sql.bind(named):
                count = await self._live().execute(text, values)
            return count
        return await self._live().execute(native(sql, self._dialect, args), args)

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement; return its rows, each a dict."""
        if isinstance(sql, Query):
            rows: list[Row] = []
            for text, values in sql.bind(named):
                rows = await self._live().fetch(text, values)
            return rows
        return await self._live().fetch(native(sql, self._dialect, args), args)

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        rows = await self.fetch(sql, *args, **named)
        return rows[0] if rows else None

    async def execute_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> int:
        """Run a batch query over *rows*; return how many rows it touched in all."""
        session = self._live()
        count = 0
        for text, values in query.batch(rows, named):
            count += await session.execute(text, values)
        return count

    async def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Run a batch query over *rows*; return what its statements returned, in order."""
        session = self._live()
        found: list[Row] = []
        for text, values in query.batch(rows, named):
            found += await session.fetch(text, values)
        return found

    def _live(self) -> Session:
        if not self.is_open:
            raise MisuseError("This transaction has ended; open another one with transaction().")
        return self._session


def native(sql: str, dialect: DialectName, args: Sequence[Any]) -> str:
    """Return *sql* in the driver's own placeholders; refuse a wrong number of arguments before anything is sent."""
    translated = translate(sql, dialect)
    if translated.count != len(args):
        raise QueryFailed(
            f"The statement has {translated.count} placeholders but {len(args)} arguments were given: {sql.strip()[:200]}"
        )
    return translated.text


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait, here and now, without a loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise MisuseError(
        "Work inside a SQLite transaction tried to wait for something else than its own statements. "
        "Do that before or after, or use transaction() with statements one by one."
    )
