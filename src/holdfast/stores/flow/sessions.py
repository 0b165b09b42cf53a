"""Flow checkpoints in the transaction of a SQLAlchemy session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import run_sync
from holdfast.db.url import DIALECTS, DialectName
from holdfast.errors import ConfigurationError, DriverMissing, MisuseError, QueryFailed
from holdfast.model.world import RealWorld
from holdfast.stores.flow.borrowed import Borrowed, NeverEnds
from holdfast.stores.flow.sql_shelf import SQLShelf

try:
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    from holdfast.db.queries.alchemy import execute
    from holdfast.stores.flow.unsettled import Unsettled
except ImportError as error:
    raise DriverMissing("from_session() needs SQLAlchemy: pip install sqlalchemy.") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection, CursorResult

    from holdfast.db.session import Row
    from holdfast.model.world import World
    from holdfast.stores.flow.model import FlowCheckpoint
    from holdfast.stores.flow.shelf import Shelf

T = TypeVar("T")


class SessionWay:
    """Calls reach the shelf in the transaction that *session* is in, and only in the colour of the session."""

    def __init__(self, session: Any, dialect: DialectName, table_name: str, world: World | None) -> None:
        if not isinstance(session, Session | scoped_session | AsyncSession | async_scoped_session):
            raise ConfigurationError(
                f"from_session() takes a Session or AsyncSession of SQLAlchemy, not a {type(session).__name__}."
            )
        self._session = session
        self._dialect = dialect
        self._table = table_name
        self._world = world or RealWorld()

    def call(self, work: Callable[[Shelf], Awaitable[T]]) -> T:
        """Do *work* on a sync session."""
        if isinstance(self._session, AsyncSession | async_scoped_session):
            raise MisuseError("This backend writes with an AsyncSession: await asave(), aload() and so on.")
        return self._on(self._session.connection(), work)

    async def acall(self, work: Callable[[Shelf], Awaitable[T]], *, carried: bool = False) -> T:  # noqa: ARG002
        """Do *work* on an async session. A task that is cancelled meanwhile leaves it to be rolled back."""
        if not isinstance(self._session, AsyncSession | async_scoped_session):
            raise MisuseError("This backend writes with a Session, which blocks: call save(), load() and so on.")
        connection = await self._session.connection()
        return await connection.run_sync(lambda opened: self._on(opened, work))

    def note(self, checkpoint: FlowCheckpoint) -> None:
        """Remember the revision of *checkpoint*, to be had again if the transaction is not committed."""
        session = self._session
        if isinstance(session, scoped_session | async_scoped_session):
            session = session()
        if isinstance(session, AsyncSession):
            session = session.sync_session
        Unsettled.of(session).note(session, checkpoint)

    def close(self) -> None:
        """Do nothing: the session is not ours."""

    async def aclose(self) -> None:
        """Do nothing: the session is not ours."""

    async def aclose_here(self) -> None:
        """Do nothing: the session is not ours."""

    def _on(self, connection: Connection, work: Callable[[Shelf], Awaitable[T]]) -> T:
        return run_sync(self._done(connection, work))

    async def _done(self, connection: Connection, work: Callable[[Shelf], Awaitable[T]]) -> T:
        if DIALECTS.get(connection.dialect.name) is not self._dialect:
            raise ConfigurationError(
                f"This backend is for {self._dialect}, the session's is {connection.dialect.name}."
            )
        shelf = SQLShelf(
            Borrowed(_Statements(connection, self._dialect), self._dialect), self._world, table_name=self._table
        )
        await shelf.prepare(may_create=self._dialect is not DialectName.MYSQL)
        return await work(shelf)


class _Statements(NeverEnds):
    """A session of ours on a connection of SQLAlchemy; it never waits."""

    def __init__(self, connection: Connection, dialect: DialectName) -> None:
        self._connection = connection
        self._dialect = dialect

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        result = self._run(sql, args)
        return len(result.all()) if result.returns_rows else result.rowcount

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        return [dict(row) for row in self._run(sql, args).mappings()]

    def _run(self, sql: str, args: Sequence[Any]) -> CursorResult[Any]:
        try:
            return execute(self._connection, self._dialect, sql, args)
        except SQLAlchemyError as error:
            raise QueryFailed(
                f"The session's database refused: {type(error).__name__}; roll the session back."
            ) from error


__all__ = ["SessionWay"]
