"""The named queries of streams, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.queries import Queries
from holdfast.workflows.queries import FRAGMENTS

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")


def stream_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; they lock runs as the workflow room's own do."""
    return Queries.load(dialect, schema, folder=FOLDER, fragments=FRAGMENTS[dialect], clock_offset_ms=clock_offset_ms)
