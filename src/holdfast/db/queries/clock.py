"""What each database says the time is: the fragments ``{now_ms}``, ``{now_iso}`` and ``{later_iso}``.

``{later_iso}`` is ``:later_ms`` milliseconds, which may be negative, after ``{now_iso}``, in the same form.

Each reads the time at which the statement began, so that it is one value all through the statement and an
index can be searched by it; PostgreSQL's ``clock_timestamp()`` would be neither. None depends on the
session's time zone. SQLite counts milliseconds, its text is filled up with zeros. Tests move the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Mapping


def clock(dialect: DialectName, offset_ms: str | None = None) -> Mapping[str, str]:
    """Return the fragments; *offset_ms* is an SQL expression of milliseconds to add, NULL counts as 0."""
    offset = None if offset_ms is None else f"COALESCE(({offset_ms}), 0)"
    now_ms, now_iso = _CLOCKS[dialect](offset)
    _, later_iso = _CLOCKS[dialect](_LATER[dialect] if offset is None else f"({offset} + {_LATER[dialect]})")
    return {
        "now_ms": now_ms if offset is None else f"({now_ms} + {offset})",
        "now_iso": now_iso,
        "later_iso": later_iso,
    }


def _sqlite(offset: str | None) -> tuple[str, str]:
    # SQLite before 3.42 has no unixepoch('subsec'). It keeps whole milliseconds, so rounding what julianday() makes of
    # them as a float gives them back exactly; two strftime() would take four times as long.
    milliseconds = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    moved = "" if offset is None else f", printf('%+.3f seconds', {offset} / 1000.0)"
    return milliseconds, f"strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'{moved})"


def _postgres(offset: str | None) -> tuple[str, str]:
    moved = "" if offset is None else f" + {offset} * interval '1 millisecond'"
    form = """'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'"""
    return (
        "CAST(floor(extract(epoch FROM statement_timestamp()) * 1000) AS bigint)",
        f"to_char((statement_timestamp(){moved}) AT TIME ZONE 'UTC', {form})",
    )


def _mysql(offset: str | None) -> tuple[str, str]:
    # UNIX_TIMESTAMP(NOW()) is an hour off in the hour that a session's time zone has twice.
    moved = "" if offset is None else f" + INTERVAL {offset} * 1000 MICROSECOND"
    return (
        "(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)",
        f"DATE_FORMAT(UTC_TIMESTAMP(6){moved}, '%Y-%m-%dT%H:%i:%s.%f+00:00')",
    )


_LATER = {
    DialectName.SQLITE: ":later_ms",
    DialectName.POSTGRES: "CAST(:later_ms AS bigint)",
    DialectName.MYSQL: ":later_ms",
}
_CLOCKS = {DialectName.SQLITE: _sqlite, DialectName.POSTGRES: _postgres, DialectName.MYSQL: _mysql}

__all__ = ["clock"]
