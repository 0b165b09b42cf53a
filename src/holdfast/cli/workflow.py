"""``holdfast workflow``: looking at runs. The commands that start, change and move them stand beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.choosing import filter_options
from holdfast.cli.examples import examples
from holdfast.cli.output import moment, plain
from holdfast.cli.runs import on_runs
from holdfast.cli.words import COUNT, POSITION
from holdfast.cli.workflow_change import cancel, delete, fork, resume, rewind
from holdfast.cli.workflow_move import export_, import_
from holdfast.cli.workflow_start import start

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.management.desk import FilterOptions

_COLUMNS = ("id", "status", "name", "created", "queue", "completed", "executor", "version")


@click.group(name="workflow")
def command() -> None:
    """Look at runs, start them, change them, and take them to another database."""


@command.command(
    name="list",
    epilog=examples(
        "workflow list --status ERROR --name checkout --created-after 2030-01-31",
        "workflow list --attribute customer=ada --limit 10 --json",
    ),
)
@filter_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@click.option("--oldest-first", is_flag=True, help="By default the newest come first.")
@click.option("--cursor", help="Where the page before ended; it was printed there.")
@on_runs
def list_(
    client: Client, out: Output, *, filters: FilterOptions, limit: int, oldest_first: bool, cursor: str | None
) -> None:
    """List runs that match all filters."""
    page = client.list_workflows(limit=limit, newest_first=not oldest_first, cursor=cursor, **filters)
    out.document({"workflows": [plain(run) for run in page], "cursor": page.cursor})
    out.table(
        _COLUMNS,
        [
            (
                run.workflow_id,
                run.status.value,
                run.name,
                moment(run.created_at),
                run.queue_name,
                moment(run.completed_at),
                run.executor_id,
                run.application_version,
            )
            for run in page
        ],
    )
    if page.cursor is not None:
        out.remark(f"There are more: --cursor {page.cursor}")


@command.command()
@click.argument("workflow_id", metavar="ID")
@on_runs
def show(client: Client, out: Output, *, workflow_id: str) -> None:
    """Show where one run stands, and what it was given and gave."""
    run = client.get_workflow(workflow_id)
    out.document(plain(run))
    out.facts((name, _readable(name, value)) for name, value in plain(run).items())


@command.command()
@click.argument("workflow_id", metavar="ID")
@click.option("--limit", type=COUNT, help="How many at most.")
@click.option("--offset", type=POSITION, default=0, help="How many to pass over.")
@on_runs
def steps(client: Client, out: Output, *, workflow_id: str, limit: int | None, offset: int) -> None:
    """Show what one run has recorded, in order."""
    found = client.list_steps(workflow_id, limit=limit, offset=offset)
    out.document({"steps": [plain(step) for step in found]})
    out.table(
        ("step", "name", "identity", "output", "error", "child", "began", "ended"),
        [
            (
                step.function_id,
                step.function_name,
                step.identity,
                step.output,
                step.error,
                step.child_workflow_id,
                moment(step.started_at_epoch_ms),
                moment(step.completed_at_epoch_ms),
            )
            for step in found
        ],
    )


def _readable(name: str, value: Any) -> Any:
    is_time = name in {"created_at", "updated_at", "completed_at"} or name.endswith("_epoch_ms")
    return moment(value) if is_time else value


for each in (start, cancel, resume, fork, rewind, delete, export_, import_):
    command.add_command(each)

__all__ = ["command"]
