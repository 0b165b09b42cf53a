"""From the text of a named query to the statements that one dialect's driver is handed.

First the fragments are put in (they may hold parameters, tables and other fragments), then the optional parts
that do not stand are left out, then the rest is cut into statements and every mark of ours is replaced.
Comments are left out, save MySQL's hints, and white space is drawn together. Inside a string literal nothing
is ever touched, but for MySQL's percent signs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.db.queries.identifiers import qualified, quote
from holdfast.db.queries.placeholders import Part, pieces, placeholder
from holdfast.db.queries.segments import Segment, cut, mark
from holdfast.db.queries.source import Column
from holdfast.db.url import DialectName
from holdfast.errors import InvalidIdentifier, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.db.queries.source import Source

# ``json`` is checked by the server but kept letter by letter, and goes into text, json and jsonb columns.
_TYPES = {
    "text": "text",
    "int": "integer",
    "bigint": "bigint",
    "float": "double precision",
    "bool": "boolean",
    "bytes": "bytea",
    "json": "json",
}
PLACE = Column("n", "int")
# The parameter that takes a whole batch as one JSON text, and the types that come out of JSON as they went in.
ALL_ROWS = "rows.*"
_THROUGH_JSON = {"text", "int", "bigint", "bool"}
_NARROW = 6
# PostgreSQL takes the rows of a batch for 10 or 100, and would walk through all keys of a table that was small when the
# plan was made, long after it has grown. Of such a range it believes that it leaves one row, to be found by its key.
_FEW = "BETWEEN 0 AND 2147483647"
MOST_ROWS = 768  # of a batch in one statement of SQLite
_MOST_VALUES = 32_766  # that SQLite takes with one statement
# Where the rows of SQLite and MySQL will go, in a text that cannot hold a NUL character otherwise.
_GAP = "\x00rows"
_FRAGMENT = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_NUMBERED = re.compile(r"\$(\d+)")
_EVERY = re.compile(r"(?:\.|\bSELECT\s+(?:DISTINCT\s+)?)\*", re.IGNORECASE)  # what reads columns it does not name
_DEEPEST = 8
_TOKEN = re.compile(
    r"""
      (?P<space>     \s+ )
    | (?<![:\w]) :   (?P<parameter> [A-Za-z_]\w* )
    | (?<![\w@<]) @  (?P<table> [A-Za-z_]\w* )
    | \{rows\} \s+ AS \s+ (?P<alias> \w+ )
    | (?P<end>       ; )
    | (?P<percent>   % )
    | (?P<refused>   \{rows\} | \? | (?<![\w$])\$[0-9] )
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement in a driver's own placeholders; ``order`` names the parameter for each of them.

    A column of the rows is named ``rows.column``. The batch statement of SQLite and MySQL is shown for one row; ``cut``
    is the same without the rows, as the parts (text, order) between which they go, and ``columns`` are those of the
    rows that go there: no others than it reads.
    """

    text: str
    order: tuple[str, ...]
    cut: tuple[tuple[str, tuple[str, ...]], ...] = ()
    columns: tuple[Column, ...] = ()

    def without(self, empty: Collection[Column]) -> tuple[str, tuple[str, ...]]:
        """Return text and order of this batch statement of SQLite for one row without a value in *empty* columns."""
        names = [f"rows.{column.name}" for column in self.columns if column not in empty]
        table = one_row(self.columns, empty)
        texts, orders = zip(*(self.cut or ((self.text, self.order),)), strict=True)
        first, *others = orders
        return table.join(texts), (*first, *(name for order in others for name in (*names, *order)))


def expanded(source: Source, dialect: DialectName, fragments: Mapping[str, str]) -> Segment:
    """Put the fragments into *source* and find its optional parts. Raises QueryFailed, with its place in the file."""
    try:
        marked = {name: mark(text) for name, text in fragments.items()}
        whole = cut(expand(mark(source.text), dialect, marked), dialect)
    except QueryFailed as error:
        raise QueryFailed(f"{source.place}, query {source.name}: {error}") from error
    if source.rows is not None and any(whole.inner()):
        raise QueryFailed(f"{source.place}, query {source.name}: it takes rows, so nothing in it can be optional.")
    return whole


def statements(
    source: Source, text: str, dialect: DialectName, schema: str | None, *, alone: bool = False
) -> tuple[Statement, ...]:
    """Write *text*, which *source* has come to, for *dialect*; on PostgreSQL, if *alone*, for a batch of one row.

    Raises QueryFailed, with its place in the file.
    """
    try:
        writer = _Writer(dialect, schema if dialect is DialectName.POSTGRES else None, source.rows, alone=alone)
        done = writer.write(text)
    except (QueryFailed, InvalidIdentifier) as error:
        raise QueryFailed(f"{source.place}, query {source.name}: {error}") from error
    if source.rows is not None and not writer.took_rows:
        raise QueryFailed(f"{source.place}, query {source.name}: it declares rows but never reads {{rows}} AS r.")
    return done


def expand(text: str, dialect: DialectName, fragments: Mapping[str, str]) -> str:
    """Put *fragments* in for every ``{name}`` outside of literals, also in one another; ``{rows}`` stays."""

    def fragment(match: re.Match[str]) -> str:
        if match[1] == "rows":
            return match[0]
        if match[1] not in fragments:
            raise QueryFailed(f"there is no fragment {match[0]}; the known ones are {', '.join(sorted(fragments))}.")
        return fragments[match[1]]

    for _ in range(_DEEPEST):
        further = "".join(
            _FRAGMENT.sub(fragment, piece) if part is Part.CODE else piece for part, piece in pieces(text, dialect)
        )
        if further == text:
            return text
        text = further
    raise QueryFailed(f"its fragments stand in one another more than {_DEEPEST} deep.")


def values_table(columns: Sequence[Column], size: int, empty: Collection[Column] = ()) -> str:
    """Return a table of SQLite for up to *size* rows.

    Its values are the number of the first row, then for each row those of *columns* but the *empty* ones, which have
    none in any row, then how many rows count: the rest are only there so that few texts have to be prepared.
    """
    given = [column for column in columns if column not in empty]
    places = {column: f"column{at}" for at, column in enumerate(given, 2)}
    names = [f"{places.get(column, 'NULL')} AS {_quoted(column)}" for column in columns]
    others = ", ?" * len(given)
    rows = ", ".join(f"({at}{others})" for at in range(size))
    fields = ", ".join([f"column1 + ? AS {_quoted(PLACE)}", *names])
    # A LIMIT in place of the condition is wrong beside row_number(), which SQLite 3.40 counts before it.
    return f"(SELECT {fields} FROM (VALUES {rows}) WHERE column1 < ?)"  # noqa: S608 -- quoted names and numbers


def one_row(columns: Sequence[Column], empty: Collection[Column] = ()) -> str:
    """Return a table of SQLite of one row, a sixth faster than one for several.

    Its values are those of *columns* but the *empty* ones, which have none.
    """
    fields = [f"{'NULL' if column in empty else '?'} AS {_quoted(column)}" for column in columns]
    return f"(SELECT {', '.join([f'0 AS {_quoted(PLACE)}', *fields])})"


def _quoted(column: Column) -> str:
    return quote(column.name, DialectName.SQLITE, "column")


def union_table(columns: tuple[Column, ...], count: int) -> str:
    """Return a table of *count* rows as MySQL and MariaDB both read it: their VALUES differ."""
    names = "".join(f", %s AS {quote(column.name, DialectName.MYSQL)}" for column in columns)
    others = ", %s" * len(columns)
    return f"(SELECT 0 AS `n`{names}{''.join(f' UNION ALL SELECT {n}{others}' for n in range(1, count))})"


class _Writer:
    """Writes one query; holds the statement that is being written."""

    def __init__(
        self, dialect: DialectName, schema: str | None, rows: tuple[Column, ...] | None, *, alone: bool
    ) -> None:
        self._dialect = dialect
        self._schema = schema
        self._rows = rows
        self._alone = alone
        self._done: list[Statement] = []
        self.took_rows = False
        self._begin()

    def _begin(self) -> None:
        self._text: list[str] = []
        self._order: list[str] = []

    def write(self, text: str) -> tuple[Statement, ...]:
        for part, piece in pieces(text, self._dialect):
            if part is Part.CODE:
                self._code(piece)
            elif part is Part.COMMENT:
                self._text.append(piece if piece.startswith("/*+") else " ")
            elif self._dialect is DialectName.MYSQL:
                is_name = piece.startswith('"')
                self._text.append(quote(piece[1:-1], self._dialect, "name") if is_name else piece.replace("%", "%%"))
            else:
                self._text.append(piece)
        self._end()
        return tuple(self._done)

    def _code(self, code: str) -> None:
        at = 0
        for match in _TOKEN.finditer(code):
            self._text.append(code[at : match.start()])
            at = match.end()
            self._token(str(match.lastgroup), match[match.lastgroup or 0])
        self._text.append(code[at:])

    def _token(self, kind: str, value: str) -> None:
        if kind == "space":
            self._text.append(" ")
        elif kind == "parameter":
            self._text.append(self._parameter(value))
        elif kind == "table":
            self._text.append(qualified(self._schema, value, self._dialect))
        elif kind == "alias":
            self._table_of_rows(value)
        elif kind == "end":
            self._end()
        elif kind == "percent":
            self._text.append("%%" if self._dialect is DialectName.MYSQL else "%")
        elif value == "?" and self._dialect is DialectName.POSTGRES:
            self._text.append(value)
        else:
            remedy = "write {rows} AS alias" if value.startswith("{") else "name the parameter, as in :name"
            raise QueryFailed(f"{value} cannot stand here: {remedy}.")

    def _parameter(self, name: str) -> str:
        if self._dialect is DialectName.POSTGRES and name in self._order:
            return placeholder(self._dialect, self._order.index(name) + 1)
        self._order.append(name)
        return placeholder(self._dialect, len(self._order))

    def _table_of_rows(self, alias: str) -> None:
        if self._rows is None:
            raise QueryFailed("it reads {rows} but has no `-- rows:` line: say which columns they have.")
        self.took_rows = True
        named = quote(alias, self._dialect, "alias")
        if self._dialect is not DialectName.POSTGRES:
            self._text.append(f"{_GAP} AS {named}")
            self._order.append(_GAP)
            return
        write = self._one_row if self._alone else self._json_rows if fits_json(self._rows) else self._arrays
        self._text.append(write(self._rows, named))

    def _one_row(self, columns: tuple[Column, ...], alias: str) -> str:
        """Return a row that stands for itself: the server puts its values where its columns are asked for."""
        fields = [
            f"{self._parameter(f'rows.{column.name}')}::{_TYPES[column.type]} AS {self._column(column)}"
            for column in columns
        ]
        return f"(SELECT 0 AS {self._column(PLACE)}, {', '.join(fields)}) AS {alias}"

    def _json_rows(self, columns: tuple[Column, ...], alias: str) -> str:
        """Return the rows of a JSON text whose keys are the numbers of the columns: there is less to send and read."""
        every = list(enumerate((PLACE, *columns)))
        keys = ", ".join(f'"{at}" {_TYPES[column.type]}' for at, column in every)
        names = ", ".join(f'"{at}" AS {self._column(column)}' for at, column in every)
        rows = f"json_to_recordset({self._parameter(ALL_ROWS)}::json) AS j({keys})"
        return f'(SELECT {names} FROM {rows} WHERE "0" {_FEW}) AS {alias}'  # noqa: S608 -- quoted names and placeholders only

    def _arrays(self, columns: tuple[Column, ...], alias: str) -> str:
        every = (PLACE, *columns)
        arrays = ", ".join(f"{self._parameter(f'rows.{column.name}')}::{_TYPES[column.type]}[]" for column in every)
        names = ", ".join(map(self._column, every))
        few = f"{self._column(PLACE)} {_FEW}"
        return f"(SELECT * FROM unnest({arrays}) AS {alias}({names}) WHERE {few}) AS {alias}"  # noqa: S608 -- as above

    def _column(self, column: Column) -> str:
        return quote(column.name, self._dialect, "column")

    def _end(self) -> None:
        text = "".join(self._text).strip()
        if _GAP in self._order and self._rows is not None:
            self._done.append(_with_gaps(text, self._order, self._rows, self._dialect))
        elif text:
            self._done.append(Statement(text, tuple(self._order)))
        self._begin()


def fits_json(columns: tuple[Column, ...]) -> bool:
    """Whether PostgreSQL gets a batch of these columns as JSON.

    For wide rows that is half the work here of encoding an array a column. For narrow ones it would be, too, but it is
    more for the server, which takes JSON for 100 rows, arrays for 10, and rather walks a small table than update 100
    rows of it by their keys.
    """
    return len(columns) > _NARROW and all(column.type in _THROUGH_JSON for column in columns)


def together(writes: Sequence[tuple[str, int]]) -> str:
    """Return one statement of PostgreSQL that does what *writes* do; its one row says how many rows each touched.

    Each is an INSERT, UPDATE or DELETE without RETURNING, and how many values it takes; the values of all follow one
    another. None of them sees what another one writes.
    """
    parts: list[str] = []
    before = 0
    for number, (text, count) in enumerate(writes):
        parts.append(f"s{number} AS ({_moved_on(text, before)} RETURNING 1)")
        before += count
    counts = [f"(SELECT count(*) FROM s{number}) AS n{number}" for number in range(len(writes))]  # noqa: S608 -- numbers
    return f"WITH {', '.join(parts)} SELECT {', '.join(counts)}"


def _moved_on(text: str, by: int) -> str:
    """Return a statement of PostgreSQL with its placeholders moved on by so many."""
    return "".join(
        _NUMBERED.sub(lambda mark: f"${int(mark[1]) + by}", piece) if part is Part.CODE else piece
        for part, piece in pieces(text, DialectName.POSTGRES)
    )


def _with_gaps(text: str, order: list[str], rows: tuple[Column, ...], dialect: DialectName) -> Statement:
    groups: list[list[str]] = [[]]
    for name in order:
        if name == _GAP:
            groups.append([])
        else:
            groups[-1].append(name)
    cut = tuple((part, tuple(group)) for part, group in zip(text.split(_GAP), groups, strict=True))
    columns = tuple(column for column in rows if _EVERY.search(text) or _names(text, column))
    if dialect is DialectName.SQLITE:
        _refuse_too_many(len(groups) - 1, columns, len(order))
    table = one_row(columns) if dialect is DialectName.SQLITE else union_table(columns, 1)
    names = [f"rows.{column.name}" for column in columns]
    order_of_one = [name for at, group in enumerate(groups) for name in ([] if at == 0 else names) + group]
    return Statement(text.replace(_GAP, table), tuple(order_of_one), cut, columns)


def _refuse_too_many(times: int, columns: tuple[Column, ...], others: int) -> None:
    """Hold a statement of SQLite to what it takes: a batch of ``MOST_ROWS`` is always one call, which can commit."""
    if times * (len(columns) * MOST_ROWS + 2) + others > _MOST_VALUES:
        raise QueryFailed(
            f"it reads {len(columns)} columns of its rows {times} times: {MOST_ROWS} rows would be more than the "
            f"{_MOST_VALUES} values that a statement of SQLite takes."
        )


def _names(text: str, column: Column) -> bool:
    """Whether a statement may read a column of its rows; a word of that name may also mean another one."""
    return re.search(rf"\b{column.name}\b", text, re.IGNORECASE) is not None


__all__ = [
    "MOST_ROWS",
    "Statement",
    "expand",
    "expanded",
    "statements",
    "together",
    "union_table",
    "values_table",
]
