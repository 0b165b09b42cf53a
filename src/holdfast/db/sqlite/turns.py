"""SQLite's writer, lent to one task or thread for a whole transaction whose statements come one by one.

Everybody else waits meanwhile, as SQLite's single writer would have them wait anyway. What is left open at the end of a
turn is rolled back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.outlast import outlast
from holdfast.db.sqlite.threads import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from holdfast.db.session import Row
    from holdfast.db.sqlite.sqlite import SqliteConnection
    from holdfast.db.sqlite.threads import Job, SqliteThreads

T = TypeVar("T")


class TurnSession(ABC):
    """A session on the writer's connection, until it is closed. The first statement waits until it is its turn.

    ``commit_after`` is the last thing it does: it ends the turn, so that the writer is not woken once more to be told.
    It returns what came of it even if the task is cancelled meanwhile.
    """

    usable = True

    def __init__(self) -> None:
        self._connection: SqliteConnection | None = None  # while it is the turn
        self._to_begin = False
        self._is_over = False

    @property
    def in_transaction(self) -> bool:
        connection = self._connection
        return self._to_begin or (connection is not None and connection.in_transaction)

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return await self._within(lambda connection: connection.execute(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        return await self._within(lambda connection: connection.fetch(sql, args))

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:  # noqa: ARG002 -- SQLite is always serializable
        self._to_begin = with_next
        if not with_next:
            await self._ask(lambda connection: connection.begin())

    async def commit(self) -> None:
        if not self._withdrawn():
            await self._ask(lambda connection: connection.commit())

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        self._withdrawn()  # a lone statement needs no BEGIN
        return await self._ask(lambda connection: connection.commit_after(sql, args), last=True)

    async def rollback(self) -> None:
        if not self._withdrawn() and not self._is_over:
            await self._ask(lambda connection: connection.rollback())

    async def close(self) -> None:
        """End the turn; the writer keeps its connection."""
        if not self._is_over:
            self._end()
            self._is_over = True

    async def _within(self, work: Callable[[SqliteConnection], T]) -> T:
        if not self._withdrawn():
            return await self._ask(work)

        def first(connection: SqliteConnection) -> T:
            connection.begin()
            return work(connection)

        return await self._ask(first)

    def _withdrawn(self) -> bool:
        """Return whether BEGIN has not been sent yet; it is not waited for any more."""
        pending, self._to_begin = self._to_begin, False
        return pending

    @abstractmethod
    async def _ask(self, work: Callable[[SqliteConnection], T], *, last: bool = False) -> T:
        """Have *work* done; *last* ends the turn after it, whatever comes of it."""

    @abstractmethod
    def _end(self) -> None:
        """Roll back what is open, and let the writer go on to others."""


class TaskTurn(TurnSession):
    """The turn of a task: the writer's thread serves it alone. One hop a statement."""

    def __init__(self, writer: SqliteThreads) -> None:
        super().__init__()
        self._writer = writer
        self._steps: SimpleQueue[Job | None] | None = None  # from the first statement on

    def _serve(self, steps: SimpleQueue[Job | None], connection: SqliteConnection) -> None:
        self._connection = connection
        try:
            while (step := steps.get()) is not None:
                step(connection)
        finally:
            self._connection = None
            connection.rollback()

    async def _ask(self, work: Callable[[SqliteConnection], T], *, last: bool = False) -> T:
        reply: Reply[T] = Reply()
        step = partial(reply.settle, work)
        if self._steps is None:
            self._begin(step)
        else:
            self._steps.put(step)
        if not last:
            return await reply.future
        await self.close()
        return await outlast(reply.future)

    def _begin(self, first: Job) -> None:
        """Have the writer woken once, with something to do."""
        self._writer.refuse_if_stopped()
        self._steps = SimpleQueue()
        self._steps.put(first)
        self._writer.post(partial(self._serve, self._steps))

    def _end(self) -> None:
        if self._steps is not None:
            self._steps.put(None)


class ThreadTurn(TurnSession):
    """The turn of a thread, which borrows the writer's connection: no other thread is woken for its statements.

    It never suspends: ``run_sync`` drives what uses it.
    """

    def __init__(self, writer: SqliteThreads) -> None:
        super().__init__()
        self._writer = writer
        self._held: Generator[SqliteConnection, None, None] | None = None

    async def rollback(self) -> None:
        self._withdrawn()
        if self._connection is not None:
            self._connection.rollback()

    async def _ask(self, work: Callable[[SqliteConnection], T], *, last: bool = False) -> T:
        try:
            return work(self._connection or self._taken())
        finally:
            if last:
                await self.close()

    def _taken(self) -> SqliteConnection:
        held = _holding(self._writer)
        try:
            self._connection = next(held)
        except BaseException:
            held.close()
            raise
        self._held = held
        return self._connection

    def _end(self) -> None:
        self._connection = None
        if self._held is not None:
            self._held.close()


def _holding(writer: SqliteThreads) -> Generator[SqliteConnection, None, None]:
    """Wait for the turn and give the connection; hold it until this is closed, or nobody has this any more.

    A thread may be interrupted anywhere, for instance as soon as it has what it waited for: a turn that is taken by
    other means than ``with`` could stay taken for ever.
    """
    with writer.turn:
        writer.refuse_if_stopped()  # while this thread waited
        writer.connection.begin_turn()
        try:
            yield writer.connection
        finally:
            writer.connection.rollback()
            writer.connection.keep_log_short()


__all__ = ["TaskTurn", "ThreadTurn", "TurnSession"]
