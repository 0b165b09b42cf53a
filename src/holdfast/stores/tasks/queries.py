"""The named queries of the task queue, in the dialect of a database and for one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.identifiers import check_identifier
from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")
TABLE = "holdfast_task_queue"


def tasks_queries(
    dialect: DialectName, schema: str | None, *, table_name: str = TABLE, clock_offset_ms: str | None = None
) -> Queries:
    """Load the queries for the table *table_name*; *clock_offset_ms* is what tests add to the database's clock."""
    indexes = {f"{kind}_index": f"idx_{table_name}_{kind}" for kind in ("ready", "due", "ended")}
    for name in (table_name, *indexes.values()):
        check_identifier(name, dialect)
    # The table of all queues is made by a migration, never by a query; but every query must be one that can be run.
    own_table = table_name if table_name != TABLE else f"{TABLE}_of_its_own"
    fragments = {"tasks": f"@{table_name}", "own_table": f"@{own_table}", **indexes}
    return Queries.load(dialect, schema, folder=FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)


__all__ = ["TABLE", "tasks_queries"]
