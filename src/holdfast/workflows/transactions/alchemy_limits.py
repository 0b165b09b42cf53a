"""How long a transaction on a user's own connection may be silent, and wait for a row: as long as on a session of ours.

A process that was stopped in the middle, or whose host is gone, must not hold the row of an output that another waits
for; and who waits for it must come back in between, to see whether its run is still its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from holdfast.db.queries.alchemy import execute
from holdfast.db.url import DIALECTS, DialectName
from holdfast.workflows.transactions.queries import SCHEMA, transaction_queries

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect

    from holdfast.db.queries.queries import Query


class Limits:
    """The limits of the transactions on the connections of one engine; *pause* is in seconds."""

    def __init__(self, dialect: Dialect, pause: float) -> None:
        self._dialect = DIALECTS[dialect.name]
        self._queries = transaction_queries(self._dialect, SCHEMA)
        self._pause = max(1, round(pause))

    def lower(self, connection: Connection) -> None:
        """Lower the limits of *connection* that are longer; on PostgreSQL for its open transaction.

        SQLite has none: a writer there is waited for until its process ends.
        """
        if self._dialect is not DialectName.SQLITE:
            self._run(connection, self._queries[self._named("lower", connection)], pause=self._pause)

    def restore(self, connection: Connection) -> None:
        """Give a connection back its own limits, after its transaction; one that does not take them is let go."""
        if self._dialect is not DialectName.MYSQL or connection.invalidated:
            return
        try:
            self._run(connection, self._queries[self._named("restore", connection)])
        except SQLAlchemyError:
            connection.invalidate()

    def _named(self, verb: str, connection: Connection) -> str:
        """Return the name of a query: MySQL ends no session for its silence, so there is one limit less."""
        is_mysql = self._dialect is DialectName.MYSQL and not getattr(connection.dialect, "is_mariadb", False)
        return f"waits_{verb}" if is_mysql else f"limits_{verb}"

    def _run(self, connection: Connection, query: Query, **named: int) -> None:
        for sql, values in query.bind(named):
            execute(connection, self._dialect, sql, values)
