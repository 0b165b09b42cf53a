"""The named queries of retention, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")

# A status or name is looked up in a JSON array of those that are wanted; SQLite, which needs a subquery for it, has its
# own texts.
FRAGMENTS = {
    DialectName.POSTGRES: {
        "wanted_status": "jsonb_exists(CAST(:statuses AS jsonb), w.status)",
        "wanted_name": "jsonb_exists(CAST(:names AS jsonb), w.name)",
        "letters": 'COLLATE "C"',
    },
    DialectName.SQLITE: {},
    DialectName.MYSQL: {
        "wanted_status": "JSON_CONTAINS(:statuses, JSON_QUOTE(w.status))",
        "wanted_name": "JSON_CONTAINS(:names, JSON_QUOTE(w.name))",
        "letters": "",
    },
}


def retention_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
