"""The named queries of the workflow room, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")

# The guard of a write holds the run's row until commit, rows in id order so that two batches cannot wait for each
# other. PostgreSQL needs FOR SHARE: a foreign key's lock does not stop a token from changing. MariaDB/MySQL has its
# own texts; SQLite has one writer.
FRAGMENTS = {
    DialectName.POSTGRES: {
        "share_runs": "ORDER BY w.workflow_uuid FOR SHARE OF w",
        "hold_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w",
        "skip_locked_runs": "FOR UPDATE OF w SKIP LOCKED",
    },
    DialectName.SQLITE: {"share_runs": "", "hold_runs": "", "skip_locked_runs": ""},
    DialectName.MYSQL: {"share_runs": "", "hold_runs": "", "skip_locked_runs": ""},
}


def workflow_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
