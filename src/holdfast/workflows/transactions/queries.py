"""The named queries of transactions, in the dialect of a database: the application's own, or another."""

from __future__ import annotations

from pathlib import Path

from holdfast.db.migrations.migrator import key_collation, schema_fragments
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")
SCHEMA = "holdfast"

_LOCKS = {
    DialectName.POSTGRES: {"share_run": "FOR SHARE OF w", "lock_run": "FOR UPDATE OF w"},
    DialectName.SQLITE: {"share_run": "", "lock_run": ""},
    DialectName.MYSQL: {"share_run": "", "lock_run": "FOR UPDATE"},
}


def transaction_queries(
    dialect: DialectName, schema: str, *, clock_offset_ms: str | None = None, server_version: str = "MariaDB"
) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock.

    *server_version* decides the collation of keys where the outputs table is made on MariaDB/MySQL.
    """
    fragments = {**_LOCKS[dialect], **schema_fragments(dialect, schema), "key_collation": key_collation(server_version)}
    return Queries.load(dialect, schema, folder=FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)
