"""Tables of measurements. Machines are noisy: read the ratios, which come from the same run."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, the first column to the left and the others to the right."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    Console(width=120).print(table)


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"


async def alternating(rounds: int, *measures: Callable[[], Awaitable[float]]) -> tuple[float, ...]:
    """Take each measure once a round, one after the other, so that noise hits all; return the medians."""
    taken: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for place, measure in enumerate(measures):
            taken[place].append(await measure())
    return tuple(statistics.median(each) for each in taken)
