"""Statements of ours on a session or connection of SQLAlchemy, in the transaction it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from holdfast.db.queries.alchemy import execute
from holdfast.db.session import run_sync
from holdfast.workflows.outbox.statements import Statements, refuse_other_kind
from holdfast.workflows.transactions.alchemy_outputs import meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.session import Row
    from holdfast.db.url import DialectName
    from holdfast.errors import DatabaseError
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.facts import EnqueueRuns


def fits(transaction: Any, *, awaited: bool) -> bool:
    """Whether *transaction* is something of SQLAlchemy that is, or is not, awaited."""
    kinds = (AsyncSession, AsyncConnection, async_scoped_session) if awaited else (Session, Connection, scoped_session)
    return isinstance(transaction, kinds)


async def apply(engine: Engine, transaction: Any, kind: EnqueueRuns, rows: Sequence[Values]) -> Sequence[Any]:
    """Write *rows* on an async session or connection."""
    connection: AsyncConnection = (
        transaction if isinstance(transaction, AsyncConnection) else await transaction.connection()
    )
    return await connection.run_sync(lambda opened: apply_blocking(engine, opened, kind, rows))


def apply_blocking(engine: Engine, transaction: Any, kind: EnqueueRuns, rows: Sequence[Values]) -> Sequence[Any]:
    """Write *rows* on a session or connection."""
    dialect = engine.manager.dialect
    connection: Connection = transaction if isinstance(transaction, Connection) else transaction.connection()
    refuse_other_kind(connection.dialect.name, dialect)
    statements: Any = _Statements(connection, dialect)
    run_sync(engine.premises.check_remembered(statements, connection.info, f"holdfast.{engine.settings.schema}"))
    return run_sync(kind.apply(statements, rows))


class _Statements(Statements):
    """On a connection, as ``text()``."""

    errors = DBAPIError

    def __init__(self, connection: Connection, dialect: DialectName) -> None:
        self._connection = connection
        self._dialect = dialect

    def run(self, sql: str, values: Sequence[Any]) -> tuple[list[Row], int]:
        result = execute(self._connection, self._dialect, sql, values)
        if not result.returns_rows:
            return [], result.rowcount
        rows = [dict(row) for row in result.mappings()]
        return rows, len(rows)

    def meaning(self, error: DBAPIError) -> DatabaseError:
        return meaning(error, self._connection.dialect)
