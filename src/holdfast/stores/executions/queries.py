"""The named queries of the execution store, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")

# What tells the order in which executions were recorded. Every index of SQLite ends with the rowid anyway.
FRAGMENTS = {
    DialectName.POSTGRES: {"position": '"position"'},
    DialectName.SQLITE: {"position": "rowid"},
    DialectName.MYSQL: {"position": '"position"'},
}


def execution_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
