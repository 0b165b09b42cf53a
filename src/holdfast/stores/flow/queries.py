"""The named SQL of flow checkpoints, for a table of the user's choice."""

from __future__ import annotations

import hashlib
from pathlib import Path

from holdfast.db.migrations.migrator import key_collation
from holdfast.db.queries.identifiers import qualified, quote
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName
from holdfast.errors import InvalidIdentifier

TABLE = "holdfast_flow_checkpoints"
_FOLDER = Path(__file__).with_name("sql")
_INDEXES = ("flow_created", "flow_status", "run", "wf_run", "waiting", "due")
_LONGEST = 63  # of a name on PostgreSQL, which cuts longer ones in silence


def flow_queries(
    dialect: DialectName,
    table_name: str = TABLE,
    *,
    clock_offset_ms: str | None = None,
    server_version: str = "MariaDB",
) -> Queries:
    """Load the queries; *table_name* may have a schema before a dot. Raises ``InvalidIdentifier``."""
    schema, table = split_name(table_name, dialect)
    cards = qualified(schema, table, dialect)  # first, so that a name that is not allowed is that of the table
    indexes = {f"cards_{index}": quote(_index_name(table, index), dialect, "index") for index in _INDEXES}
    fragments = {
        "cards": cards,
        "schema": quote(schema or "public", dialect, "schema"),
        "schema_name": "NULL" if schema is None else f"'{schema}'",
        "table_name": f"'{table}'",
        "key_collation": key_collation(server_version),
        **indexes,
    }
    return Queries.load(dialect, folder=_FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)


def split_name(table_name: str, dialect: DialectName) -> tuple[str | None, str]:
    """Return the schema, or None, and the table. Their characters are checked by whoever quotes them."""
    if not isinstance(table_name, str):
        raise InvalidIdentifier(f"The name of the table is text, not {type(table_name).__name__}.")
    schema, dot, table = table_name.rpartition(".")
    if dot and dialect is DialectName.SQLITE:
        raise InvalidIdentifier("A table of SQLite has no schema before its name; name another file instead.")
    return schema if dot else None, table


def _index_name(table: str, index: str) -> str:
    name = f"idx_{table}_{index}"
    return name if len(name) <= _LONGEST else f"idx_{hashlib.sha256(table.encode()).hexdigest()[:32]}_{index}"
