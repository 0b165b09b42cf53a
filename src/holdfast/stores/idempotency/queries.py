"""The named queries of the idempotency store, in the dialect of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.clock import clock
from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from holdfast.db.url import DialectName

FOLDER = Path(__file__).with_name("sql")


def idempotency_queries(dialect: DialectName, schema: str | None, *, clock_offset_ms: str | None = None) -> Queries:
    """Load the queries; *clock_offset_ms* is an SQL expression that tests add to the database's clock.

    ``{row_later_iso}`` is the database's clock and ``r.later_ms`` more: rows of one batch may live for different times.
    """
    offset = "r.later_ms" if clock_offset_ms is None else f"COALESCE(({clock_offset_ms}), 0) + r.later_ms"
    fragments = {"row_later_iso": clock(dialect, offset)["now_iso"]}
    return Queries.load(dialect, schema, folder=FOLDER, fragments=fragments, clock_offset_ms=clock_offset_ms)


__all__ = ["idempotency_queries"]
