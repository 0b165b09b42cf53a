"""Statements of ours for the connections of other libraries, spelled with the placeholders these want."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.db.queries.placeholders import Part, pieces
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable

_PLACEHOLDERS = {
    DialectName.POSTGRES: re.compile(r"\$(?P<place>\d+)(?:::(?P<type>\w+(?:\[\])?))?"),
    DialectName.MYSQL: re.compile(r"%s|%%"),
    DialectName.SQLITE: re.compile(r"\?"),
}


@lru_cache(maxsize=256)
def named(sql: str, dialect: DialectName) -> tuple[str, tuple[int, ...]]:
    """Return a statement with named parameters, ``:p0``, ``:p1``, and which values it takes; other colons escaped."""
    return _spelled(sql, dialect, lambda place: f":p{place}", lambda rest: rest.replace(":", "\\:"))


@lru_cache(maxsize=256)
def formatted(sql: str, dialect: DialectName) -> tuple[str, tuple[int, ...]]:
    """Return a statement with ``%s``, and which value stands for each in turn; other percent signs are doubled."""
    if dialect is DialectName.MYSQL:  # where it is written so
        return sql, named(sql, dialect)[1]
    return _spelled(sql, dialect, lambda _place: "%s", _doubled, code=_doubled)


def adaptable(value: Any) -> Any:
    """Return what every driver of PostgreSQL takes for an array, if it is one: a list."""
    return list(value) if isinstance(value, tuple | range) else value


def _doubled(text: str) -> str:
    return text.replace("%", "%%")


def _spelled(
    sql: str,
    dialect: DialectName,
    write: Callable[[int], str],
    escape: Callable[[str], str],
    code: Callable[[str], str] = str,
) -> tuple[str, tuple[int, ...]]:
    places: list[int] = []
    placeholder = _PLACEHOLDERS[dialect]

    def parameter(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        place = int(match["place"]) - 1 if dialect is DialectName.POSTGRES else len(places)
        places.append(place)
        type_ = match["type"] if dialect is DialectName.POSTGRES else None
        return write(place) if type_ is None else f"CAST({write(place)} AS {type_})"

    spelled = [
        placeholder.sub(parameter, code(piece)) if part is Part.CODE else escape(piece)
        for part, piece in pieces(sql, dialect)
    ]
    return "".join(spelled), tuple(places)


__all__ = ["adaptable", "formatted", "named"]
