"""``holdfast prune``: delete old runs once, now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.asking import ask, progress
from holdfast.cli.examples import examples
from holdfast.cli.runs import on_runs
from holdfast.cli.words import COUNT, duration
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.retention import PruneReport

_ENDED = [status.value for status in WorkflowStatus if status.has_ended]


@click.command(
    name="prune",
    epilog=examples(
        "prune --older-than 30d --status SUCCESS --dry-run", "prune --name checkout --keep-last 1000 --yes"
    ),
)
@click.option("--older-than", type=duration, help="Those that ended longer ago than this, as 30d.")
@click.option("--keep-last", type=COUNT, help="Those that are not among the newest so many.")
@click.option(
    "--status", "statuses", type=click.Choice(_ENDED, case_sensitive=False), multiple=True, help="By default all."
)
@click.option("--name", "names", multiple=True, help="Name of the workflow; by default all.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_runs
def command(
    client: Client,
    out: Output,
    *,
    older_than: timedelta | None,
    keep_last: int | None,
    statuses: Sequence[str],
    names: Sequence[str],
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete ended runs that fit everything that is said here, and all they have recorded."""
    if older_than is None and keep_last is None:
        raise click.UsageError("Say which runs may go: --older-than, --keep-last, or both.")
    policy = Retention(older_than=older_than, keep_last=keep_last, status=statuses or None, name=names or None)
    found = client.prune(policy, dry_run=True)
    if dry_run:
        _tell(out, found, f"{found.matched} runs would be deleted.")
        return
    ask(f"Delete {found.matched} ended runs for good?", yes=yes)
    with progress("Deleting", found.matched) as done:
        report = client.prune(policy, progress=done)
    _tell(out, report, f"Deleted {report.deleted} runs.")


def _tell(out: Output, report: PruneReport, text: str) -> None:
    out.document({"dry_run": report.dry_run, "matched": report.matched, "deleted": report.deleted})
    out.say(text)


__all__ = ["command"]
