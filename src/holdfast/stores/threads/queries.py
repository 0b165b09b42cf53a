"""The named SQL of conversation threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

_FOLDER = Path(__file__).with_name("sql")


def thread_queries(dialect: DialectName, schema: str | None) -> Queries:
    """Load the queries."""
    return Queries.load(dialect, schema, folder=_FOLDER)
