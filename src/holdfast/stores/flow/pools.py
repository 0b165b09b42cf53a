"""Flow checkpoints in PostgreSQL over somebody else's pool of connections."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db.queries.foreign import adaptable, formatted
from holdfast.db.session import run_sync
from holdfast.db.url import DialectName
from holdfast.errors import QueryFailed, Unavailable, UnknownCommit
from holdfast.stores.cancels import to_the_end
from holdfast.stores.flow.borrowed import Borrowed, NeverEnds
from holdfast.stores.flow.queries import flow_queries
from holdfast.stores.flow.sql_shelf import SQLShelf
from holdfast.stores.flow.verbs import as_storage_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.model.world import World
    from holdfast.stores.flow.model import FlowCheckpoint
    from holdfast.stores.flow.shelf import Shelf

T = TypeVar("T")


class Pool(Protocol):
    """A pool as psycopg and its relatives have it."""

    def getconn(self) -> Any:
        """Return a connection that nobody else uses."""

    def putconn(self, connection: Any) -> None:
        """Take a connection back; one that is broken is not handed out again."""


class PoolWay:
    """Each call has a connection of *pool* and a transaction to itself; the pool blocks, so tasks use threads."""

    def __init__(self, pool: Pool, table_name: str, world: World) -> None:
        flow_queries(DialectName.POSTGRES, table_name)  # a name that is not allowed is refused here
        self._pool = pool
        self._table = table_name
        self._world = world
        self._preparing = threading.Lock()
        self._prepared = False
        self._here = threading.local()  # what the transaction of a thread has stored, with the revisions before

    def call(self, work: Callable[[Shelf], Awaitable[T]]) -> T:
        """Do *work* in a transaction of its own."""
        with as_storage_error("The connection that was handed in did not do it"):
            with self._preparing:
                if not self._prepared:
                    self._in_transaction(_prepare)
                    self._prepared = True
            return self._in_transaction(work)

    async def acall(self, work: Callable[[Shelf], Awaitable[T]], *, carried: bool = False) -> T:
        """Do *work* on a thread."""
        doing = asyncio.to_thread(self.call, work)
        return await (to_the_end(doing) if carried else doing)

    def note(self, checkpoint: FlowCheckpoint) -> None:
        """Remember the revision of *checkpoint*, to be had again if the transaction is not committed."""
        self._here.before.append((checkpoint, checkpoint.revision))

    def close(self) -> None:
        """Do nothing: the pool is not ours."""

    async def aclose(self) -> None:
        """Do nothing: the pool is not ours."""

    async def aclose_here(self) -> None:
        """Do nothing: the pool is not ours."""

    def _in_transaction(self, work: Callable[[Shelf], Awaitable[T]]) -> T:
        try:
            connection = self._pool.getconn()
        except Exception as error:
            raise Unavailable(f"The pool has no connection to give: {type(error).__name__}.") from error
        self._here.before = []
        try:
            return self._committed(connection, work)
        except BaseException:
            for checkpoint, revision in reversed(self._here.before):
                checkpoint.revision = revision
            with suppress(Exception):  # a connection that is gone has rolled back by itself
                connection.rollback()
            raise
        finally:
            self._pool.putconn(connection)

    def _committed(self, connection: Any, work: Callable[[Shelf], Awaitable[T]]) -> T:
        database = Borrowed(_Statements(connection), DialectName.POSTGRES)
        result = run_sync(_await(work, SQLShelf(database, self._world, table_name=self._table)))
        try:
            connection.commit()
        except Exception as error:
            raise UnknownCommit(f"The commit may have happened: {type(error).__name__}.") from error
        return result


class _Statements(NeverEnds):
    """A session of ours on a connection of the DB-API; it blocks, and never awaits."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        with self._connection.cursor() as cursor:
            self._run(cursor, sql, args)
            return int(cursor.rowcount)

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        with self._connection.cursor() as cursor:
            self._run(cursor, sql, args)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _run(self, cursor: Any, sql: str, args: Sequence[Any]) -> None:
        spelled, places = formatted(sql, DialectName.POSTGRES)
        try:
            cursor.execute(spelled, [adaptable(args[place]) for place in places])
        except Exception as error:
            raise QueryFailed(f"The pool's database refused: {type(error).__name__}.") from error


async def _prepare(shelf: Any) -> None:
    await shelf.initialize()


async def _await(work: Callable[[Shelf], Awaitable[T]], shelf: Shelf) -> T:
    return await work(shelf)


__all__ = ["Pool", "PoolWay"]
