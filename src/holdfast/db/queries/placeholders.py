"""From the canonical ``?`` to the placeholders of each driver, and what can be told from a statement's text.

SQL is cut into code, string literals, quoted names and comments by the rules of its dialect; only code is
looked at. Servers are assumed to run with their default string rules (PostgreSQL with
``standard_conforming_strings``, MySQL without ``NO_BACKSLASH_ESCAPES``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from holdfast.db.url import DialectName
from holdfast.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part(Enum):
    """What a stretch of SQL is."""

    CODE = auto()
    LITERAL = auto()
    NAME = auto()
    COMMENT = auto()


class Piece(NamedTuple):
    """A stretch of SQL of one kind; the pieces of a statement joined give it back."""

    part: Part
    text: str


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement in its driver's own placeholders, their number, and whether it begins or ends a transaction.

    In MySQL's text every other percent sign is doubled, so the driver must be handed a tuple of arguments
    even when there are none: without one it does not undouble them.
    """

    text: str
    count: int
    controls_transaction: bool = False


# Possessive quantifiers, so that a literal that never ends is found in one pass and never half matched.
_PATTERNS = {
    DialectName.SQLITE: r"""
        (?P<LITERAL> '(?:[^']++|'')*+' )
      | (?P<NAME>    "(?:[^"]++|"")*+" | `(?:[^`]++|``)*+` | \[[^\]]*+\] )
      | (?P<COMMENT> --[^\n]*+ | /\*.*?(?:\*/|\Z) )
      | (?P<open>    ['"`\[] )
    """,
    DialectName.POSTGRES: r"""
        (?P<LITERAL> [eE]'(?:[^'\\]++|''|\\.)*+'(?:\s*\n\s*'(?:[^'\\]++|''|\\.)*+')*+
                   | '(?:[^']++|'')*+'
                   | (?P<tag>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?\$).*?(?P=tag) )
      | (?P<NAME>    "(?:[^"]++|"")*+" )
      | (?P<COMMENT> --[^\r\n]*+ )
      | (?P<nested>  /\* )
      | (?P<open>    [eE]?' | " | \$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?\$ )
      | (?P<word>    [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+ )
    """,
    # /*! ... */ is code that only MySQL runs; -- is a comment only before white space.
    DialectName.MYSQL: r"""
        (?P<LITERAL> '(?:[^'\\]++|''|\\.)*+' | "(?:[^"\\]++|""|\\.)*+" )
      | (?P<NAME>    `(?:[^`]++|``)*+` )
      | (?P<COMMENT> \#[^\n]*+ | --(?=[\s\x00-\x1f]|\Z)[^\n]*+ | /\*(?!M?!).*?\*/ )
      | (?P<open>    ['"`] | /\*(?!M?!) )
    """,
}
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTROLS = re.compile(
    r"\s*(?:BEGIN|COMMIT|END|ABORT|START\s+TRANSACTION|PREPARE\s+TRANSACTION|SET\s+AUTOCOMMIT"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b(?!\s*\()",
    re.IGNORECASE,
)
_MARK = re.compile(r"\?[?0-9]?|%|(?<![\w$])\$[0-9]")

# A text longer than this is written for one call, with values in it; keeping it would only hold memory.
_LONGEST_KEPT = 20_000

_READS = re.compile(r"\s*(?:SELECT|VALUES|WITH|EXPLAIN|SHOW)\b", re.IGNORECASE)
_WRITES = re.compile(
    r"\b(?:INSERT|UPDATE|DELETE|MERGE|INTO|CALL|REPLACE(?!\s*\()|FOR\s+(?:KEY\s+)?SHARE|LOCK\s+IN)\b|;\s*\S",
    re.IGNORECASE,
)
_CTE_COLUMNS = re.compile(r"\b(\w+)\s*\([\w\s,]*\)(?=\s*AS\s*(?:(?:NOT\s+)?MATERIALIZED\s*)?\()", re.IGNORECASE)
_CALLS = re.compile(r'(\.\s*)?(\w+|")\s*\(')
_HARMLESS_BEFORE_PARENTHESIS = frozenset(
    """
    all and any array as between by case distinct else except exists explain filter from group having in intersect
    is join lateral like limit materialized not offset on or over partition row select set some then union using
    values when where with within
    bigint char character decimal integer interval numeric signed time timestamp timestamptz unsigned varchar varying
    abs array_agg array_length avg cardinality cast ceil ceiling char_length coalesce concat concat_ws convert count
    cume_dist date date_format date_trunc datetime dense_rank extract first_value floor format from_unixtime glob
    greatest group_concat hex if ifnull iif instr json json_agg json_array json_array_length json_each json_extract
    json_group_array json_group_object json_object json_tree json_type json_valid jsonb_agg jsonb_array_elements
    jsonb_build_object jsonb_typeof julianday lag last_value lead least left length locate lower lpad ltrim max md5
    min mod now nth_value ntile nullif octet_length percent_rank position power printf quote rank regexp_replace
    replace right round row_number rpad rtrim sign split_part sqrt strftime string_agg substr substring sum to_char
    to_timestamp total trim typeof unhex unicode unix_timestamp unixepoch unnest upper
    """.split()  # noqa: SIM905 -- a list of these would fill a page
)


@cache
def _scanner(dialect: DialectName) -> re.Pattern[str]:
    return re.compile(_PATTERNS[dialect], re.VERBOSE | re.DOTALL)


def pieces(sql: str, dialect: DialectName) -> Iterator[Piece]:
    """Cut *sql* into its pieces; raises QueryFailed, with the place, for a quote or comment without end."""
    search = _scanner(dialect).search
    begin = at = 0
    while (match := search(sql, at)) is not None:
        kind, end = match.lastgroup or "", match.end()
        at = end
        if kind == "word":
            continue
        if kind == "open":
            raise _unfinished(sql, match.start())
        if kind == "nested":
            kind, at = "COMMENT", _end_of_comment(sql, match.start())
        if match.start() > begin:
            yield Piece(Part.CODE, sql[begin : match.start()])
        yield Piece(Part[kind], sql[match.start() : at])
        begin = at
    if begin < len(sql):
        yield Piece(Part.CODE, sql[begin:])


def placeholder(dialect: DialectName, number: int) -> str:
    """Return the *number*-th placeholder (from 1) as the driver of *dialect* wants it."""
    if dialect is DialectName.POSTGRES:
        return f"${number}"
    return "%s" if dialect is DialectName.MYSQL else "?"


def translate(sql: str, dialect: DialectName) -> Translated:
    """Return *sql* with every ``?`` outside of literals, names and comments in the form of *dialect*.

    ``??`` is PostgreSQL's operator ``?``. Raises QueryFailed for text that cannot mean what it says: a
    literal without end, ``?1``, ``?`` beside ``$1``, or ``??`` where there is no such operator.
    """
    return _translate_cached(sql, dialect) if len(sql) <= _LONGEST_KEPT else _translate(sql, dialect)


def is_read(sql: str) -> bool:
    """Tell whether *sql* certainly writes nothing, locks nothing and asks nothing about its connection.

    False is always safe. Text is a read only if it is one by the rules of all dialects. Functions that are
    not on a list of harmless ones count as writes; views, casts and operators are trusted.
    """
    return _is_read_cached(sql) if len(sql) <= _LONGEST_KEPT else _is_read(sql)


def _translate(sql: str, dialect: DialectName) -> Translated:
    done: list[str] = []
    count = 0
    numbered = False
    for part, text in pieces(sql, dialect):
        if part is not Part.CODE:
            done.append(text.replace("%", "%%") if dialect is DialectName.MYSQL else text)
            continue
        at = 0
        for match in _MARK.finditer(text):
            mark = match[0]
            done.append(text[at : match.start()])
            at = match.end()
            count += mark == "?"
            numbered = numbered or mark[0] == "$"
            done.append(_native_mark(mark, count, dialect))
        done.append(text[at:])
    if numbered and count and dialect is DialectName.POSTGRES:
        raise QueryFailed("The statement mixes ? with PostgreSQL's $1: write every parameter as ?.")
    return Translated("".join(done), count, _controls_transaction(sql, dialect))


def _controls_transaction(sql: str, dialect: DialectName) -> bool:
    """Whether the statement is BEGIN, COMMIT or the like. Savepoints are harmless: they stay inside."""
    bare = "".join(text for part, text in pieces(sql, dialect) if part is not Part.COMMENT)
    return _CONTROLS.match(bare) is not None


def _native_mark(mark: str, number: int, dialect: DialectName) -> str:
    if mark == "?":
        return placeholder(dialect, number)
    if mark == "??" and dialect is DialectName.POSTGRES:
        return "?"
    if mark == "??":
        raise QueryFailed(f"The statement has ??, PostgreSQL's operator ?, which {dialect} does not have.")
    if mark[0] == "?":
        raise QueryFailed(f"The statement has the numbered placeholder {mark}: write ? and repeat the argument.")
    return "%%" if mark == "%" and dialect is DialectName.MYSQL else mark


def _is_read(sql: str) -> bool:
    try:
        return all(_reads_in(sql, dialect) for dialect in DialectName)
    except QueryFailed:
        return False


def _reads_in(sql: str, dialect: DialectName) -> bool:
    stand_ins = {Part.LITERAL: "''", Part.NAME: '""', Part.COMMENT: " "}
    bare = "".join(stand_ins.get(part, text) for part, text in pieces(sql, dialect))
    if _READS.match(bare) is None or _WRITES.search(bare) is not None:
        return False
    return all(
        not call[1] and call[2].lower() in _HARMLESS_BEFORE_PARENTHESIS
        for call in _CALLS.finditer(_CTE_COLUMNS.sub(r"\1", bare))
    )


_translate_cached = lru_cache(maxsize=1024)(_translate)
_is_read_cached = lru_cache(maxsize=1024)(_is_read)


def brief(sql: str) -> str:
    """Return the beginning of a statement on one line, for a message."""
    return " ".join(sql.split())[:200]


def _end_of_comment(sql: str, start: int) -> int:
    """Find the end of a PostgreSQL comment; they nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise _unfinished(sql, start)


def _unfinished(sql: str, at: int) -> QueryFailed:
    what = {"'": "string", '"': "double quote", "`": "backtick", "/": "comment", "[": "bracket"}.get(sql[at], "string")
    line = sql.count("\n", 0, at) + 1
    column = at - sql.rfind("\n", 0, at)
    return QueryFailed(f"The {what} that begins in line {line}, column {column} of the statement has no end: close it.")


__all__ = ["Part", "Piece", "Translated", "brief", "is_read", "pieces", "placeholder", "translate"]
