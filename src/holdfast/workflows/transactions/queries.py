"""The named queries of transactions, in the dialect of a database: the application's own, or another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.migrations.migrator import key_collation, schema_fragments
from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")
SCHEMA = "holdfast"


def transaction_queries(
    dialect: DialectName, schema: str, *, clock_offset_ms: str | None = None, server_version: str = "MariaDB"
) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock.

    *server_version* decides the collation of keys where the outputs table is made on MariaDB/MySQL.
    """
    fragments = {**schema_fragments(dialect, schema), "key_collation": key_collation(server_version)}
    return Queries.load(dialect, schema, folder=FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)
