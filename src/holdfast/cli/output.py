"""What a command prints: a table for people, plain lines for a pipe, or one JSON document for a program."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Output:
    """Standard output, in one of the three forms."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._console = Console(markup=False, highlight=False, soft_wrap=True)

    def document(self, value: Any) -> None:
        """Print *value* as JSON, if JSON was asked for."""
        if self.as_json:
            click.echo(msgspec.json.format(_encode(value), indent=2))

    def say(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            click.echo(printable(text))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print rows for people: framed on a terminal; elsewhere one line a row, tabs between, nothing cut."""
        if self.as_json:
            return
        lines = [[shown(cell) for cell in row] for row in rows]
        if not self._console.is_terminal:
            for line in (columns, *lines):
                click.echo("\t".join(line))
            return
        table = Table()
        for number, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=number == 0)  # an id in one piece can be copied
        for line in lines:
            table.add_row(*(Text(cell) for cell in line))
        self._console.print(table)

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Print names and values for people, without those that have none."""
        self.table(("field", "value"), [(name, value) for name, value in facts if value is not None])


def complain(text: str) -> None:
    """Print a line on standard error."""
    click.echo(printable(text), err=True)


def plain(record: Any) -> dict[str, Any]:
    """Return a record as what JSON holds, under its own names."""
    return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}


def shown(value: Any) -> str:
    """Return *value* as the text of a cell."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _encode(value).decode()
    return printable(text)


def printable(text: str) -> str:
    """Return *text* with what would move the cursor, colour the screen or end the line spelled out.

    Ids and errors are written by others: a terminal must not take them for commands.
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def moment(milliseconds: int | None) -> str | None:
    """Return a time as people read it, in UTC."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00") + "Z"


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


__all__ = ["Output", "complain", "has_terminal", "moment", "plain", "printable", "shown"]
