"""``holdfast workflow cancel|resume|fork|rewind|delete``: changing runs, one or many."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.asking import ask, progress
from holdfast.cli.choosing import chosen, run_options
from holdfast.cli.examples import examples
from holdfast.cli.putting import remark_unregistered
from holdfast.cli.runs import on_runs
from holdfast.cli.words import COUNT, text
from holdfast.core.transitions import Event
from holdfast.errors import TransitionRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.model.workflow import Changes
    from holdfast.workflows.management.desk import FilterOptions, Place

_AT_ONCE = 100
_SOME_REFUSED = 1

_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_to_queue = click.option("--to-queue", "to_queue", type=text, help="The queue to go on in.")
_to_partition = click.option("--to-partition", "to_partition", type=text, help="The partition of that queue.")
_step = click.option(
    "--from-step", "start_step", type=COUNT, default=1, show_default=True, help="The first step to run."
)


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        _to_partition,
        _to_queue,
        click.option("--to-version", "to_version", type=text, help="The application version to go on in."),
        _step,
    ):
        function = option(function)
    return function


@click.command(
    epilog=examples(
        "workflow cancel order-17 order-18",
        "workflow cancel --all --name checkout --created-before 2030-01-31 --yes",
    )
)
@run_options
@click.option("--no-children", is_flag=True, help="Let the runs they have started go on.")
@_yes
@on_runs
def cancel(
    client: Client,
    out: Output,
    *,
    ids: Sequence[str],
    filters: FilterOptions,
    everything: bool,
    no_children: bool,
    yes: bool,
) -> None:
    """Cancel runs that have not ended, and their children. They can be resumed."""
    runs = chosen(client, ids, filters, Event.CANCEL, everything=everything)
    if len(runs) > 1:
        ask(f"Cancel {_number(runs)}?", yes=yes)
    _change(out, "Cancelled", runs, lambda some: client.cancel_workflows(some, cancel_children=not no_children))


@click.command(short_help="Let runs that were cancelled or given up go on.")
@run_options
@_to_queue
@_to_partition
@_yes
@on_runs
def resume(
    client: Client,
    out: Output,
    *,
    ids: Sequence[str],
    filters: FilterOptions,
    everything: bool,
    to_queue: str | None,
    to_partition: str | None,
    yes: bool,
) -> None:
    """Let cancelled runs, and those that were given up, go on where they stopped."""
    runs = chosen(client, ids, filters, Event.RESUME, everything=everything)
    if everything:
        ask(f"Resume {_number(runs)}?", yes=yes)
    remark_unregistered(client, out, to_queue)
    where: dict[str, str | None] = {"queue_name": to_queue, "queue_partition_key": to_partition}
    _change(out, "Resumed", runs, lambda some: client.resume_workflows(some, **where))


@click.command(
    epilog=examples(
        "workflow rewind order-17 --from-step 3", "workflow rewind --all --status ERROR --completed-after 2030-01-31"
    )
)
@run_options
@_place
@_yes
@on_runs
def rewind(
    client: Client,
    out: Output,
    *,
    ids: Sequence[str],
    filters: FilterOptions,
    everything: bool,
    start_step: int,
    to_version: str | None,
    to_queue: str | None,
    to_partition: str | None,
    yes: bool,
) -> None:
    """Run ended runs again, under their ids. What they recorded from that step on is forgotten."""
    runs = chosen(client, ids, filters, Event.REWIND, everything=everything)
    place = _where(client, out, to_version, to_queue, to_partition)
    ask(f"Forget what {_number(runs)} recorded from step {start_step} on, and run again?", yes=yes)
    _change(out, "Rewound", runs, lambda some: client.rewind_workflows(some, start_step, **place))


@click.command()
@run_options
@click.option("--children", is_flag=True, help="Delete the runs they have started too.")
@_yes
@on_runs
def delete(
    client: Client,
    out: Output,
    *,
    ids: Sequence[str],
    filters: FilterOptions,
    everything: bool,
    children: bool,
    yes: bool,
) -> None:
    """Delete ended runs and all they have recorded."""
    runs = chosen(client, ids, filters, Event.DELETE, everything=everything)
    ask(f"Delete {_number(runs)}{' and their children' if children else ''} for good?", yes=yes)
    _change(out, "Deleted", runs, lambda some: client.delete_workflows(some, delete_children=children))


@click.command(
    short_help="Start new runs with the beginning of others.",
    epilog=examples("workflow fork order-17 --from-step 3 --to-version 2030-02 --new-id order-17b"),
)
@run_options
@_place
@click.option("--new-id", type=text, help="The id of the new run; for a single one.")
@_yes
@on_runs
def fork(
    client: Client,
    out: Output,
    *,
    ids: Sequence[str],
    filters: FilterOptions,
    everything: bool,
    start_step: int,
    to_version: str | None,
    to_queue: str | None,
    to_partition: str | None,
    new_id: str | None,
    yes: bool,
) -> None:
    """Start new runs with what others have recorded before that step; those stay as they are."""
    runs = chosen(client, ids, filters, Event.FORK, everything=everything)
    if new_id is not None and len(runs) != 1:
        raise click.UsageError("--new-id is the id of one run: name a single run to fork.")
    if everything:
        ask(f"Fork {_number(runs)}?", yes=yes)
    place = _where(client, out, to_version, to_queue, to_partition)
    made: list[tuple[str, str]] = []

    def tell() -> None:
        out.document({"forked": [{"workflow_id": old, "new_workflow_id": new} for old, new in made]})
        out.table(("id", "new id"), made)

    with _told_whatever_comes(out, made, tell), progress("Forking", len(runs)) as done:
        for some in _parts(runs):
            if new_id is None:
                handles = client.fork_workflows(some, start_step, **place)
            else:
                handles = [client.fork_workflow(some[0], start_step, new_workflow_id=new_id, **place)]
            made += zip(some, (each.workflow_id for each in handles), strict=True)
            done(len(made))


def _change(out: Output, verb: str, runs: Sequence[str], change: Callable[[list[str]], Changes]) -> None:
    """Change *runs* a hundred at a time; print which were changed and why the others were not."""
    changed: list[str] = []
    refused: dict[str, Exception] = {}

    def tell() -> None:
        out.document({"changed": changed, "refused": [_refusal(each, error) for each, error in refused.items()]})
        out.say(f"{verb} {_number(changed)}.")
        for error in refused.values():
            out.remark(str(error))

    with _told_whatever_comes(out, changed, tell), progress(verb, len(runs)) as done:
        for some in _parts(runs):
            changes = change(some)
            changed += changes.changed
            refused |= changes.refused
            done(len(changed) + len(refused))
    if refused:
        raise click.exceptions.Exit(_SOME_REFUSED)


@contextmanager
def _told_whatever_comes(out: Output, changed: Sequence[Any], tell: Callable[[], None]) -> Iterator[None]:
    """Have *tell* print what was *changed*, also if somebody interrupts the work, or it fails, in the middle."""
    try:
        yield
    except BaseException as reason:
        if changed or isinstance(reason, KeyboardInterrupt):
            tell()
            out.remark("Then it was broken off: what was under way at that moment may have been changed, too.")
        raise
    tell()


def _refusal(workflow_id: str, error: Exception) -> dict[str, Any]:
    status = error.status if isinstance(error, TransitionRefused) else None
    return {
        "workflow_id": workflow_id,
        "status": status or None,
        "error": type(error).__name__,
        "message": str(error),
    }


def _where(client: Client, out: Output, version: str | None, queue: str | None, partition: str | None) -> Place:
    remark_unregistered(client, out, queue)
    return {"application_version": version, "queue_name": queue, "queue_partition_key": partition}


def _parts(runs: Sequence[str]) -> list[list[str]]:
    return [list(runs[first : first + _AT_ONCE]) for first in range(0, len(runs), _AT_ONCE)]


def _number(runs: Sequence[str]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


__all__ = ["cancel", "delete", "fork", "resume", "rewind"]
