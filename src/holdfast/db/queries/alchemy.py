"""Statements of ours on a connection of SQLAlchemy, which is there: only those who use it import this.

They are written as ``text()`` with named parameters, which SQLAlchemy spells for whatever driver it has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from holdfast.db.queries.foreign import adaptable, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, CursorResult, TextClause

    from holdfast.db.url import DialectName


def execute(connection: Connection, dialect: DialectName, sql: str, values: Sequence[Any]) -> CursorResult[Any]:
    """Run a statement of ours, in the words of *dialect*."""
    statement, places = _text(sql, dialect)
    return connection.execute(statement, {f"p{place}": adaptable(values[place]) for place in places})


@lru_cache(maxsize=256)
def _text(sql: str, dialect: DialectName) -> tuple[TextClause, tuple[int, ...]]:
    """Return a statement as ``text()``, and which values it takes, as p0, p1 ..."""
    spelled, places = named(sql, dialect)
    return text(spelled), places


__all__ = ["execute"]
