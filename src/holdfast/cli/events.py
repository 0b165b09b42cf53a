"""``holdfast events``: what a run has set for others to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.runs import on_runs

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client


@click.command(name="events")
@click.argument("workflow_id", metavar="ID")
@on_runs
def command(client: Client, out: Output, *, workflow_id: str) -> None:
    """Show the events that a run has set, each with its last value."""
    found = client.get_all_events(workflow_id)
    out.document({"events": found})
    out.table(("key", "value"), sorted(found.items()))


__all__ = ["command"]
