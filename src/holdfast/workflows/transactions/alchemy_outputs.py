"""The table of outputs as SQLAlchemy's Core sees it, and what the errors of its drivers mean to us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import mysql as mysql_types
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

from holdfast.db.meanings import MEANINGS
from holdfast.db.migrations.migrator import key_collation
from holdfast.db.queries.clock import clock
from holdfast.db.url import DIALECTS
from holdfast.errors import BrokenOff, ConfigurationError, ConnectionLost, DatabaseError, Retryable
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.transactions.elsewhere import key_of, unfinished
from holdfast.workflows.transactions.queries import SCHEMA

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Dialect

    from holdfast.workflows.operations.operation import Operation


def meaning(error: DBAPIError, dialect: Dialect) -> DatabaseError:
    """Classify an error that a driver raised for SQLAlchemy."""
    if error.connection_invalidated:
        return ConnectionLost(f"The connection was lost before a commit; nothing was written: {error.orig}")
    cause: Any = error.orig
    if dialect.name == "postgresql" and getattr(cause, "sqlstate", None) is None:
        cause = _WithState(cause)
    return MEANINGS[DIALECTS[dialect.name]](cause, str(error.statement or "")[:200])


def asks_again(error: DBAPIError, dialect: Dialect) -> Retryable | None:
    """Return what says that the whole transaction is to be done again, if a statement of its function's says so.

    One that was broken off says nothing of the kind: how much time it has is for its author to say.
    """
    meant = meaning(error, dialect)
    return meant if isinstance(meant, Retryable) and not isinstance(meant, BrokenOff) else None


class _WithState(Exception):
    """An error whose driver calls the SQLSTATE otherwise, as psycopg2 does."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.sqlstate = getattr(error, "pgcode", None)


def refuse_unknown(dialect: Dialect) -> None:
    """Raise for a database whose errors cannot be told apart here."""
    if dialect.name not in DIALECTS:
        raise ConfigurationError(
            f"A transaction over SQLAlchemy needs SQLite, PostgreSQL or MariaDB/MySQL, not {dialect.name}."
        )


class Outputs:
    """The table of outputs in the database of one engine; ``prepare`` first."""

    def __init__(self) -> None:
        self._table: Table | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the table is known to be there."""
        return self._table is not None

    def prepare(self, connection: Connection) -> None:
        """Make the table if it is not there, or see that another process does so at the same moment."""
        table = _table(connection.dialect)
        if not _is_present(connection, table):
            try:
                self._create(connection, table)
            except DBAPIError:
                connection.rollback()
                if not _is_present(connection, table):
                    self._create(connection, table)
        connection.rollback()
        self._table = table

    def open(self, connection: Connection, operation: Operation) -> None:
        """Open the row of an output."""
        values = {"created_at": _now_ms(connection), **key_of(operation)}
        connection.execute(insert(self._ready()).values(values))

    def fill(self, connection: Connection, operation: Operation, output: str, serialization: str) -> bool:
        """Fill the row of an output; False if it is not there, or filled."""
        table = self._ready()
        filled = connection.execute(
            update(table)
            .where(*_key(table, operation), table.c.serialization.is_(None))
            .values(output=output, serialization=serialization)
        )
        return filled.rowcount == 1

    def look(self, connection: Connection, operation: Operation) -> Kept | None:
        """Return what is in the row of an output; ``TransactionBroken`` if it was committed and never filled."""
        table = self._ready()
        row = connection.execute(select(table.c.output, table.c.serialization).where(*_key(table, operation))).first()
        if row is None:
            return None
        if row.serialization is None:
            raise unfinished(operation.name)
        return Kept(row.output, row.serialization)

    def forget(self, connection: Connection, older_than: float, most: int) -> int:
        """Delete some outputs older than *older_than* seconds; return how many.

        By the database's clock: a process with a wrong one would delete what others still need.
        """
        table = self._ready()
        limit = _now_ms(connection) - int(older_than * 1000)
        key = tuple(table.primary_key)
        old = select(*key).where(table.c.created_at < limit).order_by(table.c.created_at).limit(most)
        rows = connection.execute(old).all()
        for row in rows:
            connection.execute(delete(table).where(*(column == value for column, value in zip(key, row, strict=True))))
        return len(rows)

    def _create(self, connection: Connection, table: Table) -> None:
        if table.schema is not None and not inspect(connection).has_schema(table.schema):
            connection.execute(CreateSchema(table.schema, if_not_exists=True))
        table.create(connection, checkfirst=True)
        connection.commit()

    def _ready(self) -> Table:
        if self._table is None:
            raise AssertionError("prepare() comes first")
        return self._table


def _now_ms(connection: Connection) -> ColumnElement[int]:
    """Return the expression for what the database says the time is."""
    return literal_column(clock(DIALECTS[connection.dialect.name])["now_ms"], BigInteger)


def _key(table: Table, operation: Operation) -> tuple[Any, ...]:
    """Return what says that a row of *table* is this operation's.

    The whole statement is to have that one table: threads that prepare at once make one each, and a statement with two
    of them would fill the rows of others.
    """
    return tuple(table.c[name] == value for name, value in key_of(operation).items())


def _is_present(connection: Connection, table: Table) -> bool:
    return bool(inspect(connection).has_table(table.name, schema=table.schema))


def _table(dialect: Dialect) -> Table:
    key: Any = Text()
    long: Any = Text()
    if dialect.name in {"mysql", "mariadb"}:
        collation = key_collation("mariadb" if getattr(dialect, "is_mariadb", False) else "")
        key = mysql_types.VARCHAR(255, charset="utf8mb4", collation=collation)
        long = mysql_types.LONGTEXT(charset="utf8mb4")
    return Table(
        "transaction_outputs",
        MetaData(schema=SCHEMA if dialect.name == "postgresql" else None),
        Column("workflow_id", key, primary_key=True),
        Column("creation_key", key, primary_key=True),
        Column("generation", BigInteger, primary_key=True, autoincrement=False),
        Column("identity", key, primary_key=True),
        Column("output", long),
        Column("serialization", String(255)),
        Column("created_at", BigInteger, nullable=False),
        Index("idx_transaction_outputs_created_at", "created_at"),
    )
