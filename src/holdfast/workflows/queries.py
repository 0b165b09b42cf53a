"""The named queries of runs, in the dialect of a database: one loader for each folder ``sql`` in this room.

Each folder keeps its SQL beside the code that uses it; what its queries share within a dialect is said here. Those of
transactions, which may be in another database, are loaded by ``transactions/queries.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class _Loader:
    """Loads the queries in *folder* of this room; *fragments* are what their texts take from a dialect."""

    folder: str
    fragments: Mapping[DialectName, Mapping[str, str]] = field(default_factory=dict)

    def __call__(self, dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
        """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
        folder = Path(__file__).parent / self.folder
        return Queries.load(
            dialect, schema, folder=folder, fragments=self.fragments.get(dialect), clock_offset_ms=clock_offset_ms
        )


# The guard of a write holds the run's row until commit, rows in id order so that two batches cannot wait for each
# other. PostgreSQL needs FOR SHARE: a foreign key's lock does not stop a token from changing. MariaDB/MySQL has its
# own texts; SQLite has one writer.
_GUARDS = {
    DialectName.POSTGRES: {
        "share_runs": "ORDER BY w.workflow_uuid FOR SHARE OF w",
        "hold_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w",
        "skip_locked_runs": "FOR UPDATE OF w SKIP LOCKED",
    },
    DialectName.SQLITE: {"share_runs": "", "hold_runs": "", "skip_locked_runs": ""},
    DialectName.MYSQL: {"share_runs": "", "hold_runs": "", "skip_locked_runs": ""},
}

# Rows are locked in id order, so that two changes cannot wait for each other. MariaDB/MySQL has its own texts; SQLite
# has one writer.
_HOLDS = {
    DialectName.POSTGRES: {
        "hold_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w",
        "hold_free_runs": "ORDER BY w.workflow_uuid FOR UPDATE OF w SKIP LOCKED",
    },
    DialectName.SQLITE: {"hold_runs": "", "hold_free_runs": ""},
}

# A status or name is looked up in a JSON array of those that are wanted; SQLite, which needs a subquery for it, has its
# own texts.
_WANTED = {
    DialectName.POSTGRES: {
        "wanted_status": "jsonb_exists(CAST(:statuses AS jsonb), w.status)",
        "wanted_name": "jsonb_exists(CAST(:names AS jsonb), w.name)",
        "letters": 'COLLATE "C"',
    },
    DialectName.MYSQL: {
        "wanted_status": "JSON_CONTAINS(:statuses, JSON_QUOTE(w.status))",
        "wanted_name": "JSON_CONTAINS(:names, JSON_QUOTE(w.name))",
        "letters": "",
    },
}

workflow_queries = _Loader("sql", _GUARDS)
control_queries = _Loader("control/sql", _HOLDS)
dispatch_state_queries = _Loader("dispatch_state/sql")
looking_queries = _Loader("looking/sql")
messaging_queries = _Loader("messaging/sql")
parking_queries = _Loader("parking/sql")
queue_queries = _Loader("queues/sql")
retention_queries = _Loader("retention/sql", _WANTED)
schedule_queries = _Loader("schedules/sql")
stream_queries = _Loader("streams/sql", _GUARDS)

__all__ = [
    "control_queries",
    "dispatch_state_queries",
    "looking_queries",
    "messaging_queries",
    "parking_queries",
    "queue_queries",
    "retention_queries",
    "schedule_queries",
    "stream_queries",
    "workflow_queries",
]
