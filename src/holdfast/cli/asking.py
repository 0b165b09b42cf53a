"""Asking before something is lost, and showing how far bulk work has come."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.failure import Failure
from holdfast.cli.output import has_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def ask(question: str, *, yes: bool) -> None:
    """Return if the answer is yes, or was given beforehand; without a terminal nobody can be asked."""
    if yes:
        return
    if not has_terminal():
        raise Failure(f"{question} Nobody can be asked here: say --yes if so.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):  # which is no answer
            raise KeyboardInterrupt from None
        agreed = False
    if not agreed:
        raise Failure("Nothing was changed.")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, if that is a terminal; what is yielded takes how many are done so far."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


__all__ = ["ask", "progress"]
