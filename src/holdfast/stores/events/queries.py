"""The named queries of the event log, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")

# Two who prune at once share the work and wait for nobody. SQLite has one writer; MariaDB/MySQL has its own text.
FRAGMENTS = {
    DialectName.POSTGRES: {"skip_locked": "FOR UPDATE SKIP LOCKED"},
    DialectName.SQLITE: {"skip_locked": ""},
    DialectName.MYSQL: {"skip_locked": ""},
}


def event_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
