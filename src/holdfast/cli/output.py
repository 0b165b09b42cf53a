"""What a command prints: a table for people, plain lines for a pipe, or one JSON document for a program."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.narrow import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Output:
    """Standard output, in one of the three forms."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: not every locale has every letter
        self._console = Console(markup=False, highlight=False, soft_wrap=True)

    def document(self, value: Any) -> None:
        """Print *value* as JSON, if JSON was asked for."""
        if self.as_json:
            click.echo(msgspec.json.format(_encode(value), indent=2))

    def say(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            click.echo(printable(text))

    def remark(self, text: str) -> None:
        """Print a line for people beside a table: on standard error, so that whoever reads the table gets rows only."""
        if not self.as_json:
            complain(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, about: str | None = None) -> None:
        """Print rows for people, a line each: what fits on a terminal; elsewhere all of it, with tabs between.

        If the last column has sentences *about* another, they stand on a terminal below the table, whole.
        """
        lines = [[shown(cell) for cell in row] for row in rows]
        if self.as_json or self._piped(columns, lines):
            return
        sentences: list[str] = []
        if about is not None:
            sentences = [f"{line[columns.index(about)]}: {line[-1]}" for line in lines if line[-1]]
            columns, lines = columns[:-1], [line[:-1] for line in lines]
        table, left_out = fitted(columns, lines, self._console.width)
        self._console.print(table)
        for each in sentences:
            click.echo("\n" + click.wrap_text(each, self._console.width, subsequent_indent="  "))
        if left_out:
            complain(f"There is no room for {', '.join(left_out)}: widen the terminal, or use --json.")

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Print names and values for people, without those that have none."""
        columns, lines = ("field", "value"), [[name, shown(value)] for name, value in facts if value is not None]
        if self.as_json or self._piped(columns, lines):
            return
        table = Table()
        table.add_column(columns[0], no_wrap=True)
        table.add_column(columns[1], overflow="fold")
        for line in lines:
            table.add_row(*(Text(cell) for cell in line))
        self._console.print(table)

    def _piped(self, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> bool:
        """Print a header and the lines if standard output is no terminal; return whether it is none."""
        if self._console.is_terminal:
            return False
        for line in (columns, *lines):
            click.echo("\t".join(line))
        return True


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


def moment(at: int | datetime | None) -> str | None:
    """Return a time as people read it, in UTC; a number is one of milliseconds since the epoch."""
    if at is None:
        return None
    time = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at
    return time.isoformat(" ", "milliseconds").removesuffix("+00:00") + "Z"


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


__all__ = ["Output", "complain", "has_terminal", "moment", "plain", "printable", "shown"]
