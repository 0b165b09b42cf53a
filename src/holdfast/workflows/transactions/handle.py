"""What the function of a transaction is handed: three verbs, on one open transaction.

A statement that ends the transaction before its record is in it is noticed with the server's answer. From then on, and
after any statement that failed, nothing is taken any more: such a transaction is never kept.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.queries.placeholders import Part, pieces
from holdfast.db.url import DialectName
from holdfast.errors import BrokenOff, MisuseError, QueryFailed, Retryable, StepTimeout, TransactionBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db import Transaction as OpenTransaction
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.workflows.transactions.conversation import Beginning

T = TypeVar("T")

# PostgreSQL takes several statements in one text. END is left to the server's flag: it also ends a function's body.
_LATER_CONTROL = re.compile(
    r";\s*(?:COMMIT|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b(?!\s+ATOMIC)",
    re.IGNORECASE,
)
_CALL = re.compile(r"\s*CALL\b", re.IGNORECASE)


class AsyncTransaction:
    """An open transaction, handed to an async function as its first argument; use it there and nowhere else.

    Statements are SQL with the placeholder ``?``. The transaction is committed after the function, together with its
    record, and rolled back if the function raises.
    """

    def __init__(self, beginning: Beginning, queries: Queries, name: str) -> None:
        self._beginning = beginning
        self._queries = queries
        self._name = name
        self._doom: Exception | None = None
        self.afterwards: list[Callable[[], None]] = []  # called once it is committed; from any thread
        self._turn = asyncio.Lock()  # a session takes one statement at a time; those of several tasks wait here

    async def execute(self, sql: str, *args: Any) -> int:
        """Run a statement; return how many rows it touched."""
        return await self._watched(sql, lambda transaction: transaction.execute(sql, *args))

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        """Run a statement; return its rows, each a dict."""
        return await self._watched(sql, lambda transaction: transaction.fetch(sql, *args))

    async def fetchone(self, sql: str, *args: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        return await self._watched(sql, lambda transaction: transaction.fetchone(sql, *args))

    async def lend(self, work: Callable[[OpenTransaction], Coroutine[Any, Any, T]]) -> T:
        """Run statements of the library's own, for as long as *work* takes."""
        return await self._watched("", work)

    def doom(self) -> Exception | None:
        """Return why this transaction cannot be kept, whatever its function made of it: broken, or to be done again."""
        return self._doom

    async def _watched(self, sql: str, run: Callable[[OpenTransaction], Coroutine[Any, Any, T]]) -> T:
        if isinstance(self._doom, TransactionBroken):
            raise self._doom
        self._refuse_control(sql)
        async with self._turn:
            try:
                transaction = self._beginning.begun or await self._beginning.transaction()
                answer = await (self._marked(transaction, sql, run) if self._is_call(sql) else run(transaction))
            except BrokenOff as error:  # how much time his statements have is for their author to say
                raise QueryFailed(str(error)) from error
            except Retryable as error:
                self._doom = error
                raise
        if self._beginning.block.ended_early:
            raise self._broken(sql)
        return answer

    def _is_call(self, sql: str) -> bool:
        return self._queries.dialect is DialectName.MYSQL and _CALL.match(sql) is not None

    async def _marked(
        self, transaction: OpenTransaction, sql: str, run: Callable[[OpenTransaction], Coroutine[Any, Any, T]]
    ) -> T:
        """Run the call of a procedure between two marks: it may end one transaction and begin another."""
        await transaction.execute(self._queries["call_mark"])
        answer = await run(transaction)
        if not self._beginning.block.ended_early:
            try:
                await transaction.execute(self._queries["call_marked"])
            except QueryFailed as error:
                raise self._broken(sql) from error
        return answer

    def _refuse_control(self, sql: str) -> None:
        if self._queries.dialect is DialectName.POSTGRES and ";" in sql and _controls_later(sql):
            raise MisuseError(
                f"A statement of the transaction {self._name!r} holds a COMMIT, ROLLBACK or BEGIN behind a semicolon: "
                "the transaction is ended for you, after the function."
            )

    def _broken(self, sql: str) -> TransactionBroken:
        broken = TransactionBroken(
            f"A statement of the transaction {self._name!r} ended it before its record was in it: "
            f"{' '.join(sql.split())[:120]}. What was written so far is there and cannot be rolled back. "
            "On MariaDB/MySQL statements like CREATE, ALTER and TRUNCATE commit: take them out of the transaction."
        )
        self._doom = broken
        return broken


class Transaction:
    """An open transaction, handed to a sync function as its first argument; use it there and nowhere else.

    The same as ``AsyncTransaction``, without ``await``.
    """

    def __init__(
        self,
        transaction: AsyncTransaction,
        ask: Callable[[Coroutine[Any, Any, Any]], Any],
        left: Callable[[], float | None],
        name: str,
    ) -> None:
        self._transaction = transaction
        self._ask = ask
        self._left = left
        self._name = name

    def execute(self, sql: str, *args: Any) -> int:
        """Run a statement; return how many rows it touched."""
        return int(self._ask(self._in_time(self._transaction.execute(sql, *args))))

    def fetch(self, sql: str, *args: Any) -> list[Row]:
        """Run a statement; return its rows, each a dict."""
        rows: list[Row] = self._ask(self._in_time(self._transaction.fetch(sql, *args)))
        return rows

    def fetchone(self, sql: str, *args: Any) -> Row | None:
        """Run a statement; return its first row, or None."""
        row: Row | None = self._ask(self._in_time(self._transaction.fetchone(sql, *args)))
        return row

    @property
    def afterwards(self) -> list[Callable[[], None]]:
        """What is called once it is committed, from any thread."""
        return self._transaction.afterwards

    def lend(self, work: Callable[[OpenTransaction], Coroutine[Any, Any, T]]) -> T:
        """Run statements of the library's own, for as long as *work* takes."""
        answer: T = self._ask(self._in_time(self._transaction.lend(work)))
        return answer

    async def _in_time(self, statement: Coroutine[Any, Any, T]) -> T:
        left = self._left()
        if left is None:
            return await statement
        try:
            async with asyncio.timeout(left) as scope:
                return await statement
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise took_too_long(self._name) from error


def took_too_long(name: str) -> StepTimeout:
    """Return the error of a transaction whose time is over."""
    return StepTimeout(f"The transaction {name!r} took longer than its timeout; it was rolled back.")


@lru_cache(maxsize=256)
def _controls_later(sql: str) -> bool:
    stand_ins = {Part.LITERAL: "''", Part.NAME: '""', Part.COMMENT: " "}
    code = "".join(stand_ins.get(part, text) for part, text in pieces(sql, DialectName.POSTGRES))
    return _LATER_CONTROL.search(code) is not None
