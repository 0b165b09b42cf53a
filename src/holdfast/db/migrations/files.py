"""Migrations as they are written: numbered ``.sql`` files, one folder a dialect, forward only.

``0001_foundation.sql`` is version 1; the numbers have no gaps. In a file ``@name`` is one of our tables (also
inside PostgreSQL's ``$$`` bodies, so that a function's text is qualified too), ``"name"`` a quoted name in
every dialect, ``{name}`` a fragment, ``;`` ends a statement; a trigger of SQLite ends with ``END;``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.db.queries.identifiers import qualified, quote
from holdfast.db.queries.placeholders import Part, pieces
from holdfast.db.queries.text import expand
from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).with_name("sql")
_FILE = re.compile(r"(?P<version>[0-9]{4})_[a-z0-9_]+\.sql")
# A trigger of SQLite has statements inside, each with its semicolon, and ends with END.
_OPEN_TRIGGER = re.compile(r"(?:\s|--[^\n]*\n)*CREATE\s+TRIGGER\b.*(?<!\bEND)\s*", re.IGNORECASE | re.DOTALL)
_TABLE = re.compile(r"(?<![\w@<])@([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; ``name`` is the file's, without its ending."""

    version: int
    name: str
    text: str = field(repr=False)


def read_migrations(folder: Path, dialect: DialectName) -> tuple[Migration, ...]:
    """Read the migrations of *dialect* in order; ConfigurationError for a gap or a file that is none."""
    place = folder / dialect
    found = []
    for path in sorted(place.glob("*.sql")):
        match = _FILE.fullmatch(path.name)
        if match is None:
            raise ConfigurationError(f"{path} is no migration: name it like 0002_what_it_does.sql.")
        found.append(Migration(int(match["version"]), path.stem, path.read_text(encoding="utf-8")))
    if [each.version for each in found] != list(range(1, len(found) + 1)):
        names = ", ".join(each.name for each in found)
        raise ConfigurationError(f"The migrations in {place} must be numbered from 0001 without gaps: {names}.")
    if not found:
        raise ConfigurationError(f"There are no migrations in {place}; reinstall the package.")
    return tuple(found)


def statements(
    migration: Migration, dialect: DialectName, schema: str | None, fragments: Mapping[str, str]
) -> list[str]:
    """Return the statements of *migration* for one database, their layout and comments kept."""
    place = schema if dialect is DialectName.POSTGRES else None
    done: list[str] = []
    written: list[str] = []
    says_something = False
    for part, piece in pieces(expand(migration.text, dialect, fragments), dialect):
        if part is not Part.CODE:
            says_something = says_something or part is not Part.COMMENT
            written.append(_kept(piece, dialect, place))
            continue
        *ended, rest = _with_tables(piece, dialect, place).split(";")
        for code in ended:
            if dialect is DialectName.SQLITE and _OPEN_TRIGGER.fullmatch("".join([*written, code])):
                written.append(f"{code};")
                continue
            if says_something or code.strip():
                done.append("".join([*written, code]).strip())
            written, says_something = [], False
        written.append(rest)
        says_something = says_something or bool(rest.strip())
    return [*done, "".join(written).strip()] if says_something else done


def _kept(piece: str, dialect: DialectName, schema: str | None) -> str:
    if dialect is DialectName.MYSQL and piece.startswith('"'):
        return quote(piece[1:-1], dialect, "name")
    if dialect is DialectName.POSTGRES and piece.startswith("$"):
        return _with_tables(piece, dialect, schema)
    return piece


def _with_tables(code: str, dialect: DialectName, schema: str | None) -> str:
    return _TABLE.sub(lambda match: qualified(schema, match[1], dialect), code)


__all__ = ["FOLDER", "Migration", "read_migrations", "statements"]
