"""How the rows of a batch query become calls: which texts are sent, and which values go with each.

PostgreSQL and MySQL take one call for each statement; SQLite one for each statement and ``MOST_ROWS`` rows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.db.queries.text import (
    ALL_ROWS,
    MOST_ROWS,
    Statement,
    fits_json,
    union_table,
    values_table,
)
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.queries.source import Column

Call: TypeAlias = "tuple[str, tuple[Any, ...]]"
Take: TypeAlias = "Callable[[Any], tuple[Any, ...]]"
Spread: TypeAlias = "Callable[[Sequence[Sequence[Any]], tuple[Any, ...]], list[Call]]"

_encode = msgspec.json.encode
_MOST_PATTERNS = 6  # of empty columns for which a query has texts of their own; others have that with all columns


def spread_many(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...], dialect: DialectName
) -> Spread:
    """Return what makes the calls of *written* for any number of rows of *columns*, and values for *parameters*."""
    return _SPREADS[dialect](written, columns, parameters)


def taker(keys: Sequence[Any]) -> Take:
    """Return what fetches *keys*, always as a tuple, out of a mapping or a sequence."""
    if not keys:
        return lambda _: ()
    if len(keys) == 1:
        only = keys[0]
        return lambda values: (values[only],)
    return itemgetter(*keys)


def _positions(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]
) -> list[tuple[str, Take]]:
    """Prepare each statement to take its arguments out of one sequence: n, the columns, the parameters."""
    names = ["rows.n", *(f"rows.{column.name}" for column in columns), *parameters]
    place = {name: at for at, name in enumerate(names)}
    return [(each.text, taker([place[name] for name in each.order])) for each in written]


def _spread_postgres(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]
) -> Spread:
    """PostgreSQL: each statement once, the batch being one JSON text, or an array a column where JSON would not do."""
    return (_spread_json if fits_json(columns) else _spread_arrays)(written, columns, parameters)


def spread_alone(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...], dialect: DialectName
) -> Spread:
    """Each statement once, for the only row there is: *written* are statements of one row."""
    if dialect is DialectName.SQLITE:
        return _spread_one_of_sqlite(written, columns, parameters)
    takes = _positions(written, columns, parameters)

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        together = (0, *rows[0], *values)
        return [(text, take(together)) for text, take in takes]

    return spread


def _spread_one_of_sqlite(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]
) -> Spread:
    """SQLite: each statement once, with NULL in its text wherever the row has no value: see ``_Emptiness``."""
    place = {name: at for at, name in enumerate([*(f"rows.{column.name}" for column in columns), *parameters])}
    known: dict[tuple[int, ...], list[tuple[str, Take]]] = {}

    def shape(empty: tuple[int, ...]) -> list[tuple[str, Take]]:
        """Return the texts for a row that is empty there, and what takes their values."""
        none = {columns[at] for at in empty}
        without = [each.without(none) for each in written]
        return [(text, taker([place[name] for name in order])) for text, order in without]

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        row = rows[0]
        empty = tuple([at for at, value in enumerate(row) if value is None]) if None in row else ()
        if empty not in known and len(known) >= _MOST_PATTERNS:
            empty = ()
        if empty not in known:
            known[empty] = shape(empty)
        together = (*row, *values)
        return [(text, take(together)) for text, take in known[empty]]

    return spread


def _spread_json(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    place = {name: at for at, name in enumerate((ALL_ROWS, *parameters))}
    takes = [(each.text, taker([place[name] for name in each.order])) for each in written]
    # What is None is not written: a key that is not there is NULL.
    fields: list[Any] = [("n", int), *((column.name, Any, None) for column in columns)]
    keys = {field[0]: str(at) for at, field in enumerate(fields)}
    row_type: Any = msgspec.defstruct("BatchRow", fields, rename=keys, omit_defaults=True, gc=False)

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        together = (_encode([row_type(n, *row) for n, row in enumerate(rows)]).decode(), *values)
        return [(text, take(together)) for text, take in takes]

    return spread


def _spread_arrays(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    takes = _positions(written, columns, parameters)

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        together = (range(len(rows)), *zip(*rows, strict=True), *values)
        return [(text, take(together)) for text, take in takes]

    return spread


def _cuts(written: tuple[Statement, ...], parameters: tuple[str, ...]) -> list[list[tuple[str, Take]]]:
    """Return the parts of each statement between which its rows go, each with what takes its values."""
    place = {name: at for at, name in enumerate(parameters)}
    return [
        [(text, taker([place[name] for name in order])) for text, order in each.cut or ((each.text, each.order),)]
        for each in written
    ]


def _joined(cut: list[tuple[str, Take]], values: tuple[Any, ...], flat: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a statement: those of its parts, and between them those of its rows."""
    (_, first), *rest = cut
    return sum([flat + take(values) for _, take in rest], first(values))


def _spread_union(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    """MySQL: each statement once, in a text for that number of rows."""
    cuts = _cuts(written, parameters)
    picks = [_picker(each.columns, columns) for each in written]

    # Sizes of batches repeat; a text is about as long as the rows it is for.
    @lru_cache(maxsize=64)
    def texts(count: int) -> tuple[str, ...]:
        return tuple(_filled(cut, union_table(each.columns, count)) for each, cut in zip(written, cuts, strict=True))

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        calls: list[Call] = []
        for text, cut, pick in zip(texts(len(rows)), cuts, picks, strict=True):
            flat = tuple(chain.from_iterable(rows if pick is None else map(pick, rows))) if len(cut) > 1 else ()
            calls.append((text, _joined(cut, values, flat)))
        return calls

    return spread


def _spread_sizes(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    """SQLite: each statement once for up to ``MOST_ROWS`` rows, in a text for as many rows or some more.

    A statement for many rows runs without the interpreter's lock from end to end, and costs half of what the same
    statement costs row by row. Its texts are for few sizes, so that few have to be prepared.
    """
    cuts = _cuts(written, parameters)
    emptiness = _Emptiness(columns)

    # Sizes repeat, and so do the sets of empty columns.
    @lru_cache(maxsize=64)
    def shapes(size: int, empty: frozenset[Column]) -> list[tuple[str, Take | None, int]]:
        given = [tuple(column for column in each.columns if column not in empty) for each in written]
        return [
            (_filled(cut, values_table(each.columns, size, empty)), _picker(kept, columns), len(kept))
            for each, cut, kept in zip(written, cuts, given, strict=True)
        ]

    def some(first: int, rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        size = _size(len(rows))
        calls: list[Call] = []
        for (text, pick, width), cut in zip(shapes(size, emptiness.of(rows)), cuts, strict=True):
            flat: tuple[Any, ...] = ()
            if len(cut) > 1:
                given = chain.from_iterable(rows if pick is None else map(pick, rows))
                flat = (first, *given, *(0,) * ((size - len(rows)) * width), len(rows))
            calls.append((text, _joined(cut, values, flat)))
        return calls

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        parts = range(0, len(rows), MOST_ROWS)
        return [call for at in parts for call in some(at, rows[at : at + MOST_ROWS], values)]

    return spread


class _Emptiness:
    """Tells in which columns no row of a batch has a value.

    There a text for SQLite says NULL: to hand over one None takes the interpreter as long as eight numbers. Which
    columns those are repeats; so that the texts are few, only those sets of them count that come first.
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._known: dict[tuple[int, ...], frozenset[Column]] = {(): frozenset()}

    def of(self, rows: Sequence[Sequence[Any]]) -> frozenset[Column]:
        """Return columns in which no row has a value: all of them, or none if there are too many such sets."""
        candidates = [at for at, value in enumerate(rows[0]) if value is None]
        empty = tuple([at for at in candidates if [row[at] for row in rows].count(None) == len(rows)])
        if empty not in self._known and len(self._known) < _MOST_PATTERNS:
            self._known[empty] = frozenset([self._columns[at] for at in empty])
        return self._known.get(empty, self._known[()])


def _filled(cut: list[tuple[str, Take]], table: str) -> str:
    """Return the text of a statement whose rows stand in it as a *table*."""
    return table.join(text for text, _ in cut)


def _size(count: int) -> int:
    """Return for how many rows the text is that takes *count*: 1, 2, 3, 4, 6, 8, 12, 16 ..."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power


def _picker(wanted: tuple[Column, ...], there: tuple[Column, ...]) -> Take | None:
    """Return what picks the *wanted* columns out of a row that has those *there*; None if it has no others."""
    return None if wanted == there else taker([there.index(column) for column in wanted])


_SPREADS = {
    DialectName.SQLITE: _spread_sizes,
    DialectName.POSTGRES: _spread_postgres,
    DialectName.MYSQL: _spread_union,
}

__all__ = ["Call", "Spread", "Take", "spread_alone", "spread_many", "taker"]
