"""The named queries of looking, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")


def looking_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock."""
    return Queries.load(dialect, schema, folder=FOLDER, clock_offset_ms=clock_offset_ms)


__all__ = ["looking_queries"]
