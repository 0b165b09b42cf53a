"""A table that fits into a terminal: a line a row, whatever its width."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = 2  # between columns, one of which is the box's
_WIDEST = 40  # of a cell that is not in the first column
_MILLISECONDS = re.compile(r"(\d\d:\d\d:\d\d)\.\d{3}Z$")


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[Table, list[str]]:
    """Return the table, and which columns have no room in it.

    The first column is never cut: an id in one piece can be copied. Columns in which nothing stands go first, then
    those furthest to the right.
    """
    cells = [[_short(cell) for cell in row] for row in rows]
    kept = [at for at in range(len(columns)) if at == 0 or not cells or any(row[at] for row in cells)]
    widths = [max(cell_len(text) for text in (columns[at], *(row[at] for row in cells))) for at in range(len(columns))]
    for at in range(1, len(columns)):
        widths[at] = min(widths[at], _WIDEST)
    left_out: list[str] = []
    while len(kept) > 2 and _total(widths, kept) > width:
        left_out.insert(0, columns[kept.pop()])
    # With a width of its own the table is not squeezed: an id that is longer than a line goes on in the next.
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False, width=_total(widths, kept)
    )
    for at in kept:
        table.add_column(columns[at], no_wrap=True, overflow="ellipsis", width=widths[at])
    for row in cells:
        table.add_row(*(Text(row[at]) for at in kept))
    return table, left_out


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[at] + _GAP for at in kept) - _GAP


def _short(cell: str) -> str:
    """Return a time without its milliseconds, and anything else as it is."""
    return _MILLISECONDS.sub(r"\1Z", cell)


__all__ = ["fitted"]
