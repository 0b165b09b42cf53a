"""The named queries of control, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")

# Rows are locked in id order, so that two changes cannot wait for each other. MariaDB/MySQL has its own texts; SQLite
# has one writer.
FRAGMENTS = {
    DialectName.POSTGRES: {
        "hold_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w",
        "hold_free_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w SKIP LOCKED",
    },
    DialectName.SQLITE: {"hold_runs": "", "hold_free_runs": ""},
    DialectName.MYSQL: {},
}


def control_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
