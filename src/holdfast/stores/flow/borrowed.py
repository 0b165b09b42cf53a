"""A transaction that belongs to somebody else, as the database of a shelf: nothing is begun, committed or closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row, Session
    from holdfast.db.url import DialectName

T = TypeVar("T")


class Borrowed:
    """The verbs of a database on *session*, all of them in the transaction it is in."""

    def __init__(self, session: Session, dialect: DialectName) -> None:
        self.dialect = dialect
        self._transaction = Transaction(session, dialect)

    async def initialize(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: it is not ours."""

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement; return how many rows it touched."""
        return await self._transaction.execute(sql, *args, **named)

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement; return its rows."""
        return await self._transaction.fetch(sql, *args, **named)

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        return await self._transaction.fetchone(sql, *args, **named)

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
        """Run *work* in the transaction there is."""
        return await work(self._transaction)


class NeverEnds:
    """What a session that belongs to somebody else does not do for us: begin, commit, roll back, close."""

    usable = True
    in_transaction = True

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:
        """Do nothing."""

    async def commit(self) -> None:
        """Do nothing."""

    async def rollback(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


__all__ = ["Borrowed", "NeverEnds"]
