"""Which runs a command is about: ids from its arguments or standard input, or all that match filters."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.words import attribute, distinct, text, time
from holdfast.core.transitions import allowed
from holdfast.model.workflow import WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.client import Client
    from holdfast.core.transitions import Event
    from holdfast.workflows.management.desk import FilterOptions

_PAGE = 500

# The option, the filter it stands for, and what it says.
_TEXTS = (
    ("--name", "name", "Name of the workflow; may be given several times."),
    ("--queue", "queue_name", "Name of the queue."),
    ("--app-version", "application_version", "Application version."),
    ("--executor", "executor_id", "Executor id."),
    ("--user", "authenticated_user", "Authenticated user."),
    ("--parent", "parent_workflow_id", "Id of the run that started it."),
    ("--forked-from", "forked_from", "Id of the run it was forked from."),
)
_TIMES = [f"{what}_{side}" for what in ("created", "started", "completed") for side in ("after", "before")]
_FILTERS = ("status", *(name for _, name, _ in _TEXTS), *_TIMES, "workflow_id_prefix", "attributes", "search")


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose runs; *function* gets them as ``filters``, those that were given."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> None:
        given = {name: options.pop(name) for name in _FILTERS}
        given["attributes"] = distinct(given["attributes"])
        for name, value in given["attributes"].items():
            if isinstance(value, list | dict):
                raise click.UsageError(f"--attribute {name}: runs are found by texts, numbers, true, false and null.")
        function(*args, filters={name: value for name, value in given.items() if value}, **options)

    decorated: Callable[..., Any] = command
    for name in reversed(_TIMES):
        option = "--" + name.replace("_", "-")
        decorated = click.option(option, name, type=time, help="As 2030-01-31T12:00:00Z; without a zone it is UTC.")(
            decorated
        )
    for option, name, told in reversed(_TEXTS):
        decorated = click.option(option, name, type=text, multiple=True, help=told)(decorated)
    statuses = click.Choice(list(WorkflowStatus), case_sensitive=False)
    for choose in (
        click.option("--search", type=text, help="A text in the stored arguments, result or error."),
        click.option(
            "--attribute", "attributes", type=attribute, multiple=True, help="An attribute it has, as name=value."
        ),
        click.option("--prefix", "workflow_id_prefix", type=text, help="What the id begins with."),
        click.option("--status", "status", type=statuses, multiple=True, help="May be given several times."),
    ):
        decorated = choose(decorated)
    return decorated


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the ways to name several runs: ids, ``-``, or ``--all`` with filters."""
    function = filter_options(function)
    told = "All runs that match the filters, as far as this can be done to them."
    function = click.option("--all", "everything", is_flag=True, help=told)(function)
    return click.argument("ids", nargs=-1, metavar="[ID]...")(function)


def chosen(client: Client, ids: Sequence[str], filters: FilterOptions, event: Event, *, everything: bool) -> list[str]:
    """Return the ids that were named, each once, in order."""
    _refuse_unclear(ids, filters, everything=everything)
    if not everything:
        return list(dict.fromkeys(_from_input() if list(ids) == ["-"] else ids))
    if "status" not in filters and not all(allowed(status, event) for status in WorkflowStatus):
        filters = {**filters, "status": [status for status in WorkflowStatus if allowed(status, event)]}
    page = client.list_workflows(limit=_PAGE, newest_first=False, **filters)
    found = [run.workflow_id for run in page]
    while page.cursor is not None:
        page = client.list_workflows(limit=_PAGE, newest_first=False, cursor=page.cursor, **filters)
        found += [run.workflow_id for run in page]
    return found


def _refuse_unclear(ids: Sequence[str], filters: Mapping[str, Any], *, everything: bool) -> None:
    if ids and (everything or filters):
        raise click.UsageError("Ids and filters exclude each other: name the runs, or say --all and what they have.")
    if not ids and not everything:
        raise click.UsageError("No run was named: give ids, - to read them from standard input, or --all with filters.")
    if "-" in ids and len(ids) > 1:
        raise click.UsageError("- stands for all ids: they come from standard input, one a line.")


def _from_input() -> list[str]:
    return [line for line in (each.strip() for each in sys.stdin) if line]


__all__ = ["chosen", "filter_options", "run_options"]
