"""How the rows of a batch query become calls: which texts are sent, and which values go with each.

PostgreSQL and MySQL take one call for each statement; SQLite one for each statement and some of the rows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.db.queries.text import ALL_ROWS, Statement, fits_json, rows_table
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.queries.source import Column

Call: TypeAlias = "tuple[str, tuple[Any, ...]]"
Take: TypeAlias = "Callable[[Any], tuple[Any, ...]]"
Spread: TypeAlias = "Callable[[Sequence[Sequence[Any]], tuple[Any, ...]], list[Call]]"

_MOST_ROWS = 128  # in one statement of SQLite
_encode = msgspec.json.encode


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


def spread_alone(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    """Each statement once, for the only row there is: *written* are statements of one row."""
    takes = _positions(written, columns, parameters)

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        together = (0, *rows[0], *values)
        return [(text, take(together)) for text, take in takes]

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


def _spread_texts(
    written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...], dialect: DialectName
) -> Spread:
    """Each statement once, in a text for that number of rows."""
    place = {name: at for at, name in enumerate(parameters)}
    cuts = [each.cut or ((each.text, each.order),) for each in written]
    takes = [[taker([place[name] for name in order]) for _, order in cut] for cut in cuts]
    picks = [_picker(each.columns, columns, numbered=dialect is DialectName.SQLITE) for each in written]

    # Sizes of batches repeat; a text is about as long as the rows it is for.
    @lru_cache(maxsize=64)
    def texts(count: int) -> tuple[str, ...]:
        return tuple(
            rows_table(each.columns, count, dialect).join(text for text, _ in cut)
            for each, cut in zip(written, cuts, strict=True)
        )

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        calls: list[Call] = []
        for text, (first, *rest), pick in zip(texts(len(rows)), takes, picks, strict=True):
            flat = tuple(chain.from_iterable(rows if pick is None else map(pick, rows))) if rest else ()
            calls.append((text, sum([flat + take(values) for take in rest], first(values))))
        return calls

    return spread


def _picker(wanted: tuple[Column, ...], columns: tuple[Column, ...], *, numbered: bool) -> Take | None:
    """Return what picks the columns *wanted* out of a row, and its number if it has one; None if that is all of it."""
    if wanted == columns:
        return None
    first = int(numbered)
    return taker([*range(first), *(columns.index(column) + first for column in wanted)])


def _spread_union(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    """MySQL: the whole batch at once."""
    return _spread_texts(written, columns, parameters, DialectName.MYSQL)


def _spread_powers(written: tuple[Statement, ...], columns: tuple[Column, ...], parameters: tuple[str, ...]) -> Spread:
    """SQLite: some rows at a time, a power of two of them, so that few texts have to be prepared.

    A statement for many rows runs without the interpreter's lock from end to end, and costs half of what the same
    statement costs row by row.
    """
    some = _spread_texts(written, columns, parameters, DialectName.SQLITE)

    def spread(rows: Sequence[Sequence[Any]], values: tuple[Any, ...]) -> list[Call]:
        calls: list[Call] = []
        numbered = [(n, *row) for n, row in enumerate(rows)]
        at = 0
        while at < len(rows):
            count = min(_MOST_ROWS, 1 << ((len(rows) - at).bit_length() - 1))
            calls += some(numbered[at : at + count], values)
            at += count
        return calls

    return spread


_SPREADS = {
    DialectName.SQLITE: _spread_powers,
    DialectName.POSTGRES: _spread_postgres,
    DialectName.MYSQL: _spread_union,
}

__all__ = ["Call", "Spread", "Take", "spread_alone", "spread_many", "taker"]
