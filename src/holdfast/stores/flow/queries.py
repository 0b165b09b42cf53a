"""The named SQL of flow checkpoints, for a table of the user's choice."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.identifiers import check_identifier, quote
from holdfast.db.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

TABLE = "holdfast_flow_checkpoints"
_FOLDER = Path(__file__).with_name("sql")
_INDEXES = ("by_flow", "by_run", "by_wf_run", "waiting", "due")
_LONGEST = 63  # of a name on PostgreSQL, which cuts longer ones in silence


def flow_queries(
    dialect: DialectName,
    table_name: str = TABLE,
    *,
    clock_offset_ms: str | None = None,
    key_collation: str = "utf8mb4_nopad_bin",
) -> Queries:
    """Load the queries; *table_name* may have a schema before a dot. Raises ``InvalidIdentifier``."""
    *schema, table = table_name.split(".", 1)
    for part in (*schema, table):
        check_identifier(part, dialect, "table")
    names = {f"cards_{index}": quote(_index_name(table, index), dialect, "index") for index in _INDEXES}
    cards = ".".join(quote(part, dialect, "table") for part in (*schema, table))
    fragments = {"cards": cards, "key_collation": key_collation, **names}
    return Queries.load(dialect, folder=_FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)


def _index_name(table: str, index: str) -> str:
    name = f"idx_{table}_{index}"
    return name if len(name) <= _LONGEST else f"idx_{hashlib.sha256(table.encode()).hexdigest()[:32]}_{index}"
