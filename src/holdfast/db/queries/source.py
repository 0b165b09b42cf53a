"""What is written in a file of named queries, before any dialect has a say.

``-- name: lower_snake_name`` begins a query. The comment lines up to its first line of SQL are its
documentation, save those that speak to us: ``-- rows: column type, column type`` (a second such line goes on
where the first ends) and ``-- only: dialect``. ``-- fragment: lower_snake_name`` begins a text that queries
of this folder put in with ``{lower_snake_name}``; its comment lines are for the reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from holdfast.db.url import DialectName
from holdfast.errors import QueryFailed

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"^--[ \t]*(name|fragment):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_LOWER_SNAKE = re.compile(r"[a-z][a-z0-9_]*")
_DIRECTIVE = re.compile(r"(rows|only):\s*(.*)")
TYPES = frozenset({"text", "int", "bigint", "float", "bool", "bytes", "json"})


class Column(NamedTuple):
    """A column of the rows that a batch query takes."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Source:
    """A query as its author wrote it. ``only`` is empty when every dialect must have it."""

    name: str
    place: str
    doc: str
    rows: tuple[Column, ...] | None
    only: frozenset[DialectName]
    text: str


class File(NamedTuple):
    """The queries and the fragments of one file, by name."""

    queries: dict[str, Source]
    fragments: dict[str, str]


def read(path: Path) -> File:
    """Read one file; a file that is not there holds nothing.

    Raises QueryFailed, with file and line, for what is not in the grammar and for a name given twice.
    """
    if not path.exists():
        return File({}, {})
    text = path.read_text(encoding="utf-8")
    headings = list(_NAME.finditer(text))
    before = text[: headings[0].start()] if headings else text
    if any(line.strip() and not line.startswith("--") for line in before.splitlines()):
        raise QueryFailed(f"{path.name}: there is SQL before the first query: begin it with `-- name: some_name`.")
    file = File({}, {})
    for heading, following in zip_longest(headings, headings[1:]):
        end = len(text) if following is None else following.start()
        place = f"{path.name}:{text.count(chr(10), 0, heading.start()) + 1}"
        _add(file, heading, text[heading.end() : end], place)
    return file


def _add(file: File, heading: re.Match[str], body: str, place: str) -> None:
    kind, name = heading[1], heading[2]
    what = "query" if kind == "name" else kind
    if _LOWER_SNAKE.fullmatch(name) is None:
        raise QueryFailed(f"{place}: the name of a {what} is lower_snake_case, nothing else may stand in its line.")
    if name in (file.queries if kind == "name" else file.fragments):
        raise QueryFailed(f"{place}: the {what} {name} is there twice: rename or remove one.")
    if kind == "name":
        file.queries[name] = _source(name, body, place)
    else:
        file.fragments[name] = "\n".join(_parts(body)[1])


def _parts(body: str) -> tuple[list[str], list[str]]:
    """Return the comment lines at the head, and the lines of SQL after them."""
    lines = body.strip().splitlines()
    head = 0
    while head < len(lines) and (lines[head].startswith("--") or not lines[head].strip()):
        head += 1
    return lines[:head], lines[head:]


def _source(name: str, body: str, place: str) -> Source:
    head, lines = _parts(body)
    doc: list[str] = []
    told: dict[str, list[str]] = {"rows": [], "only": []}
    for line in head:
        said = line.removeprefix("--").strip()
        if (directive := _DIRECTIVE.fullmatch(said)) is not None:
            told[directive[1]].append(directive[2])
        else:
            doc.append(said)
    text = "\n".join(lines)
    if not text:
        raise QueryFailed(f"{place}: the query {name} has no SQL: write it, or remove its heading.")
    rows = _columns(told["rows"], place) if told["rows"] else None
    return Source(name, place, "\n".join(doc).strip(), rows, _only(told["only"], place), text)


def _columns(texts: list[str], place: str) -> tuple[Column, ...]:
    columns: list[Column] = []
    for part in ",".join(text.rstrip(", ") for text in texts).split(","):
        words = part.split()
        if len(words) != 2 or _LOWER_SNAKE.fullmatch(words[0]) is None or words[1] not in TYPES:
            raise QueryFailed(f"{place}: `rows:` is a list of `column type`, the types are {', '.join(sorted(TYPES))}.")
        if words[0] == "n" or words[0] in {column.name for column in columns}:
            raise QueryFailed(f"{place}: the column {words[0]} is there twice (n is the row's place): rename it.")
        columns.append(Column(words[0], words[1]))
    return tuple(columns)


def _only(texts: list[str], place: str) -> frozenset[DialectName]:
    names = {name for text in texts for name in re.split(r"[\s,]+", text) if name}
    known = {dialect for dialect in DialectName if dialect.value in names}
    if len(known) != len(names) or (texts and not names):
        raise QueryFailed(f"{place}: `only:` is a list of dialects, which are {', '.join(DialectName)}.")
    return frozenset(known)


__all__ = ["TYPES", "Column", "File", "Source", "read"]
