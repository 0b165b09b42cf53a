"""Transactions through an engine of SQLAlchemy, sync or async: a session of the user's own kind, and a row of outputs.

The work on a connection is written once, in sync functions; an ``AsyncConnection`` runs them with ``run_sync``. A
savepoint of ours marks the beginning: once a statement has ended the transaction, by whatever driver, it is gone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine as SqlEngine
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from holdfast import faults
from holdfast.core.durations import checked_seconds
from holdfast.errors import ConfigurationError, Conflict, MisuseError, Retryable, TransactionBroken, UnknownCommit
from holdfast.model.workflow import seconds
from holdfast.workflows.running.commits import begin_commit
from holdfast.workflows.transactions.alchemy_limits import Limits
from holdfast.workflows.transactions.alchemy_outputs import Outputs, asks_again, meaning, refuse_unknown
from holdfast.workflows.transactions.elsewhere import KEEP
from holdfast.workflows.transactions.handle import took_too_long

if TYPE_CHECKING:
    from sqlalchemy import Connection, RootTransaction
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.orm import SessionTransaction

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Kept, Operation
    from holdfast.workflows.transactions.home import TransactionDefinition

_MARK = "holdfast_begun"
_AT_A_TIME = 500


class Work:
    """One transaction on a connection of SQLAlchemy, from its first statement to its commit."""

    def __init__(
        self, outputs: Outputs, limits: Limits, definition: TransactionDefinition, operation: Operation | None
    ) -> None:
        self._outputs = outputs
        self._limits = limits
        self._operation = operation
        self._name = definition.name
        self._broken: TransactionBroken | None = None
        self._connection: Connection | None = None
        self._outer: RootTransaction | None = None
        self.handle: Any = None

    def open(self, connection: Connection) -> None:
        """Begin, and open the row of the output; ``Conflict`` if it is there."""
        self._connection = connection
        self._outer = connection.begin()
        if self._operation is None:
            return
        try:
            self._limits.lower(connection)
            self._outputs.open(connection, self._operation)
            connection.dialect.do_savepoint(connection, _MARK)
        except DBAPIError as error:
            raise meaning(error, connection.dialect) from error

    def hand(self, session: Session, handle: Any) -> None:
        """Watch *session*; *handle* is what the function sees of it."""
        self._session = session
        self.handle = handle
        event.listen(session, "before_commit", self._refuse_commit)
        event.listen(session, "after_soft_rollback", self._note_rollback)

    def keep(self, connection: Connection, output: str, serialization: str) -> None:
        """Write what the session still holds and the output, last; then commit."""
        self._flush(connection)
        try:
            if self._operation is not None:
                begin_commit(self._operation)
                self._check_mark(connection)
                if not self._outputs.fill(connection, self._operation, output, serialization):
                    raise self._ended()
                faults.point("transaction.before_commit")
        except DBAPIError as error:
            meant = meaning(error, connection.dialect)
            raise (meant if isinstance(meant, Retryable) else error) from error
        if self._outer is None or not self._outer.is_active or connection.get_transaction() is not self._outer:
            raise self._ended()
        self._commit(connection, self._outer)
        self._restore(connection)
        faults.point("transaction.committed")

    def _flush(self, connection: Connection) -> None:
        try:
            self._session.flush()
        except DBAPIError as error:
            again = asks_again(error, connection.dialect)
            if again is None:
                raise
            raise again from error

    def drop(self, connection: Connection) -> None:
        """Roll back."""
        with suppress(SQLAlchemyError):  # a connection that is gone has rolled back itself
            if self._outer is not None and self._outer.is_active:
                self._outer.rollback()
            connection.rollback()
        self._restore(connection)

    def mark(self) -> None:
        """Do nothing: the connection is none of ours."""

    def unmark(self, mark: None) -> None: ...

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept: ended by its function, or, by the error it raised, to be done again."""
        if isinstance(error, DBAPIError) and self._connection is not None:
            again = asks_again(error, self._connection.dialect)
            if again is not None:
                return again
        return self._broken if error is None else None

    def _restore(self, connection: Connection) -> None:
        if self._operation is not None:
            self._limits.restore(connection)

    def _check_mark(self, connection: Connection) -> None:
        try:
            connection.dialect.do_release_savepoint(connection, _MARK)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            raise self._ended() from error

    def _commit(self, connection: Connection, outer: RootTransaction) -> None:
        try:
            outer.commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise UnknownCommit(
                    f"The connection broke during the commit of the transaction {self._name!r}: the writes may or may "
                    "not be there."
                ) from error
            raise meaning(error, connection.dialect) from error

    def _refuse_commit(self, session: Session) -> None:
        if session.in_nested_transaction():
            return
        self._broken = TransactionBroken(
            f"The function of the transaction {self._name!r} called commit(): nothing was committed. "
            "The transaction is committed for you, together with its output, after the function."
        )
        raise self._broken

    def _note_rollback(self, _: Session, previous: SessionTransaction) -> None:
        if not previous.nested and previous.parent is None:
            self._broken = TransactionBroken(
                f"The transaction {self._name!r} was rolled back by its function, or by a statement that failed, "
                "and its function went on: nothing was written. To undo all of it, raise an error; to undo a part, "
                "use begin_nested()."
            )

    def _ended(self) -> TransactionBroken:
        return TransactionBroken(
            f"A statement of the transaction {self._name!r} ended it before its output was in it: what was written "
            "before it is there and cannot be rolled back. On MariaDB/MySQL statements like CREATE, ALTER and TRUNCATE "
            "commit: take them out of the transaction."
        )


def _options(definition: TransactionDefinition, dialect_name: str) -> dict[str, Any]:
    if definition.isolation is None or dialect_name == "sqlite":  # SQLite is always serializable
        return {}
    return {"isolation_level": definition.isolation}


def home_for(engine: Engine, bind: Any) -> SyncAlchemy | AsyncAlchemy:
    """Return the home that *bind* is; raises ``ConfigurationError`` if it is no engine of SQLAlchemy."""
    if isinstance(bind, AsyncEngine):
        return AsyncAlchemy(engine, bind)
    if isinstance(bind, SqlEngine):
        return SyncAlchemy(engine, bind)
    raise ConfigurationError(f"engine= is an Engine or AsyncEngine of SQLAlchemy, not {type(bind).__name__}.")


class SyncAlchemy:
    """An ``Engine``, for sync functions: all of it happens on their thread."""

    def __init__(self, engine: Engine, bind: SqlEngine) -> None:
        refuse_unknown(bind.dialect)
        self._engine = engine
        self._bind = bind
        self._outputs = Outputs()
        self._limits = Limits(bind.dialect, engine.settings.lease)

    def begin(self, definition: TransactionDefinition, operation: Operation | None) -> LentWork | Kept:
        """Open a transaction and the row of its output; or return the output that is there."""
        if self._engine.is_loop_thread():
            raise MisuseError("A sync transaction was called on the event loop, which it would block; make it async.")
        if operation is not None and not self._outputs.is_ready:
            self._prepare()
        connection = self._connect(**_options(definition, self._bind.dialect.name))
        work = LentWork(self._outputs, self._limits, definition, operation, connection, self._engine.settings.world)
        try:
            work.open(connection)
        except Conflict:
            work.drop(connection)
            return self._found(connection, operation)
        except BaseException:
            work.drop(connection)
            connection.close()
            raise
        session = Session(bind=connection, join_transaction_mode="rollback_only")
        work.hand(session, session)
        return work

    def keep(self, work: LentWork, operation: Operation | None, output: str, serialization: str) -> Kept | None:  # noqa: ARG002 -- the work knows its operation
        """Fill the row of the output, and commit."""
        try:
            work.keep(work.connection, output, serialization)
        except BaseException:
            self.drop(work)
            raise
        work.close()
        return None

    def drop(self, work: LentWork) -> None:
        """Roll back."""
        work.drop(work.connection)
        work.close()

    def recall(self, operation: Operation) -> Kept | None:  # noqa: ARG002 -- as for every other database
        """Return None: whether it was kept shows when its row is opened again."""
        return None

    def forget_outputs(self, older_than: Duration = KEEP) -> int:
        """Delete outputs older than *older_than* seconds, a few at a time; return how many there were."""
        gone = 0
        while True:
            with self._bind.begin() as connection:
                deleted = self._outputs.forget(connection, checked_seconds(older_than, "older_than"), _AT_A_TIME)
            gone += deleted
            if deleted < _AT_A_TIME:
                return gone

    def _prepare(self) -> None:
        with self._bind.connect() as connection:
            self._outputs.prepare(connection)
        self.forget_outputs()

    def _connect(self, **options: Any) -> Connection:
        try:
            return self._bind.connect().execution_options(**options)
        except DBAPIError as error:
            raise meaning(error, self._bind.dialect) from error

    def _found(self, connection: Connection, operation: Operation | None) -> Kept:
        with connection:
            kept = None if operation is None else self._outputs.look(connection, operation)
        if kept is None:
            raise Retryable("The output of a transaction was there and is gone.")
        return kept


class LentWork(Work):
    """The work of a sync function, until its time is over; *connection* is its own."""

    def __init__(
        self,
        outputs: Outputs,
        limits: Limits,
        definition: TransactionDefinition,
        operation: Operation | None,
        connection: Connection,
        world: World,
    ) -> None:
        super().__init__(outputs, limits, definition, operation)
        self.connection = connection
        self._now = world.monotonic
        self._end = None if definition.timeout is None else self._now() + seconds(definition.timeout)

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept; also a time that is over, which nobody could tell the function."""
        if self._end is not None and self._now() > self._end:
            return took_too_long(self._name)
        return super().doom(error)

    def close(self) -> None:
        """Give the connection back."""
        self._session.close()
        self.connection.close()


class AsyncWork(Work):
    """The work of an async function; *connection* is its own."""

    connection: AsyncConnection


class AsyncAlchemy:
    """An ``AsyncEngine``, for async functions."""

    outlasts = False

    def __init__(self, engine: Engine, bind: AsyncEngine) -> None:
        refuse_unknown(bind.dialect)
        self._bind = bind
        self._outputs = Outputs()
        self._limits = Limits(bind.dialect, engine.settings.lease)
        self._preparing = asyncio.Lock()

    async def begin(self, definition: TransactionDefinition, operation: Operation | None) -> AsyncWork | Kept:
        """Open a transaction and the row of its output; or return the output that is there."""
        if operation is not None and not self._outputs.is_ready:
            await self._prepare()
        work = AsyncWork(self._outputs, self._limits, definition, operation)
        work.connection = await self._connect(**_options(definition, self._bind.dialect.name))
        try:
            await work.connection.run_sync(work.open)
        except Conflict:
            await work.connection.run_sync(work.drop)
            return await self._found(work.connection, operation)
        except BaseException:
            await work.connection.run_sync(work.drop)
            await work.connection.close()
            raise
        session = AsyncSession(bind=work.connection, join_transaction_mode="rollback_only")
        work.hand(session.sync_session, session)
        return work

    async def keep(self, work: AsyncWork, operation: Operation | None, output: str, serialization: str) -> Kept | None:  # noqa: ARG002 -- the work knows its operation
        """Fill the row of the output, and commit."""
        try:
            await work.connection.run_sync(work.keep, output, serialization)
        except BaseException:
            await self.drop(work)
            raise
        await self._close(work)
        return None

    async def drop(self, work: AsyncWork) -> None:
        """Roll back."""
        await work.connection.run_sync(work.drop)
        await self._close(work)

    async def recall(self, operation: Operation) -> Kept | None:  # noqa: ARG002 -- as for every other database
        """Return None: whether it was kept shows when its row is opened again."""
        return None

    async def forget_outputs(self, older_than: Duration = KEEP) -> int:
        """Delete outputs older than *older_than* seconds, a few at a time; return how many there were."""
        gone = 0
        age = checked_seconds(older_than, "older_than")
        while True:
            async with self._bind.begin() as connection:
                deleted = await connection.run_sync(self._outputs.forget, age, _AT_A_TIME)
            gone += deleted
            if deleted < _AT_A_TIME:
                return gone

    async def _prepare(self) -> None:
        async with self._preparing:
            if self._outputs.is_ready:
                return
            async with self._bind.connect() as connection:
                await connection.run_sync(self._outputs.prepare)
        await self.forget_outputs()

    async def _connect(self, **options: Any) -> AsyncConnection:
        try:
            connection = await self._bind.connect()
            return await connection.execution_options(**options)
        except DBAPIError as error:
            raise meaning(error, self._bind.dialect) from error

    async def _found(self, connection: AsyncConnection, operation: Operation | None) -> Kept:
        try:
            kept = None if operation is None else await connection.run_sync(self._outputs.look, operation)
        finally:
            await connection.close()
        if kept is None:
            raise Retryable("The output of a transaction was there and is gone.")
        return kept

    async def _close(self, work: AsyncWork) -> None:
        await work.handle.close()
        await work.connection.close()
