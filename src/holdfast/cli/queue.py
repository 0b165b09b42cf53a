"""``holdfast queue``: what waits in queues and how they are set; pausing, draining and deleting them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.asking import ask, progress
from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure
from holdfast.cli.output import moment, plain
from holdfast.cli.queue_settings import refuse_partition_limits, setting_options, written_rate
from holdfast.cli.runs import on_runs
from holdfast.cli.words import duration
from holdfast.errors import QueueConflict, QueueNotFound
from holdfast.model.queue import RESERVED_PREFIX, Queue
from holdfast.model.workflow import WorkflowStatus

if TYPE_CHECKING:
    from datetime import timedelta

    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.queues import QueueSettings

_LOOK_AGAIN = 0.5
_STILL_RUNNING = 1
_COLUMNS = ("queue", "state", "waiting", "running", "delayed", "concurrency", "per process", "rate", "partitions")
_TIMES = frozenset({"created_at", "updated_at"})


class _Counts(NamedTuple):
    """How many runs of a queue have not ended; *delayed* are those that wait for a moment, or were put away."""

    waiting: int = 0
    running: int = 0
    delayed: int = 0


_named = click.argument("name", metavar="NAME")


@click.group(name="queue")
def command() -> None:
    """Look at queues, set them, pause them, drain them."""


@command.command(name="list")
@on_runs
def list_(client: Client, out: Output) -> None:
    """List the queues, and how many runs are in them. A queue that is not registered is served by nobody."""
    queues = {queue.name: queue for queue in client.list_queues()}
    counts = _counts(client)
    names = sorted(queues.keys() | {name for name in counts if not name.startswith(RESERVED_PREFIX)})
    found = [(name, queues.get(name), counts.get(name, _Counts())) for name in names]
    out.document({"queues": [_document(*each) for each in found]})
    out.table(_COLUMNS, [_line(*each) for each in found])


@command.command()
@_named
@on_runs
def show(client: Client, out: Output, *, name: str) -> None:
    """Show how one queue is set, and how many runs are in it."""
    _show(client, out, _there(client, name))


@command.command(
    name="set",
    epilog=examples("queue set mails --concurrency 10 --rate-limit 100/1m", "queue set orders --create --priority"),
)
@_named
@setting_options
@click.option("--create", is_flag=True, help="Make the queue if there is none of this name.")
@on_runs
def set_(client: Client, out: Output, *, name: str, settings: QueueSettings, create: bool) -> None:
    """Change settings of a queue. Every process goes by them from its next look for work on."""
    if not settings and not create:
        raise click.UsageError("Nothing is to be set: give at least one setting, or --create.")
    there = client.retrieve_queue(name) if create else _there(client, name, "and --create makes one")
    refuse_partition_limits(name, {} if there is None else plain(there), settings)
    if there is None:
        queue = client.register_queue(name, **settings)
    else:
        queue = client.update_queue(name, **settings) if settings else there
    _show(client, out, queue)


@command.command()
@_named
@on_runs
def pause(client: Client, out: Output, *, name: str) -> None:
    """Have nothing more claimed from a queue. What runs goes on."""
    _there(client, name)
    client.pause_queue(name)
    out.document({"queue": name, "paused": True})
    out.say(f"Paused {name}.")


@command.command()
@_named
@on_runs
def resume(client: Client, out: Output, *, name: str) -> None:
    """Have a paused queue claimed from again."""
    _there(client, name)
    client.resume_queue(name)
    out.document({"queue": name, "paused": False})
    out.say(f"Resumed {name}.")


@command.command()
@_named
@click.option("--wait-for", type=duration, help="Wait no longer than this, as 2m; exit with 1 if some still run.")
@on_runs
def drain(client: Client, out: Output, *, name: str, wait_for: timedelta | None) -> None:
    """Pause a queue, and wait until nothing of it runs. It stays paused."""
    _there(client, name)
    client.pause_queue(name)
    deadline = None if wait_for is None else time.monotonic() + wait_for.total_seconds()
    first = left = _running(client, name)
    with progress("Draining", first) as done:
        while left and (deadline is None or time.monotonic() < deadline):
            time.sleep(_LOOK_AGAIN if deadline is None else max(0.0, min(_LOOK_AGAIN, deadline - time.monotonic())))
            left = _running(client, name)
            done(first - left)
    out.document({"queue": name, "paused": True, "running": left})
    out.say(f"Paused {name}; {left} runs of it still run." if left else f"Paused {name}; nothing of it runs.")
    if left:
        raise click.exceptions.Exit(_STILL_RUNNING)


@command.command()
@_named
@click.option("--force", is_flag=True, help="Even if runs are in it: they wait until there is such a queue again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_runs
def delete(client: Client, out: Output, *, name: str, force: bool, yes: bool) -> None:
    """Delete a queue in which no runs are."""
    _there(client, name)
    ask(f"Delete the queue {name}{', although runs may be in it' if force else ''}?", yes=yes)
    try:
        client.delete_queue(name, force=force)
    except QueueConflict as error:
        raise Failure(
            f"Runs that have not ended are in the queue {name!r}: let them end or cancel them first. With --force they "
            "wait until there is such a queue again."
        ) from error
    out.document({"queue": name, "deleted": True})
    out.say(f"Deleted {name}.")


def _there(client: Client, name: str, besides: str = "") -> Queue:
    queue = client.retrieve_queue(name)
    if queue is None:
        remedy = "`holdfast queue list` shows those there are" + (besides and f", {besides}")
        raise QueueNotFound(f"There is no queue {name!r}: {remedy}.")
    return queue


def _counts(client: Client, name: str | None = None) -> dict[str, _Counts]:
    """Count the runs that have not ended, by the queue they are in."""
    live = [status.value for status in WorkflowStatus if not status.has_ended]
    found: dict[str, dict[str, int]] = {}
    for each in client.count_workflows(group_by=("queue_name", "status"), status=live, queue_name=name):
        if each.group["queue_name"] is not None:
            found.setdefault(each.group["queue_name"], {})[each.group["status"]] = each.count
    order = (WorkflowStatus.ENQUEUED, WorkflowStatus.PENDING, WorkflowStatus.DELAYED)
    return {queue: _Counts(*(by.get(status.value, 0) for status in order)) for queue, by in found.items()}


def _running(client: Client, name: str) -> int:
    return _counts(client, name).get(name, _Counts()).running


def _show(client: Client, out: Output, queue: Queue) -> None:
    counts = _counts(client, queue.name).get(queue.name, _Counts())
    document = _document(queue.name, queue, counts)
    out.document(document)
    out.facts((key, moment(value) if key in _TIMES else value) for key, value in document.items())


def _document(name: str, queue: Queue | None, counts: _Counts) -> dict[str, Any]:
    settings = {"name": name} if queue is None else plain(queue)
    return {**settings, "registered": queue is not None, **counts._asdict()}


def _line(name: str, queue: Queue | None, counts: _Counts) -> tuple[Any, ...]:
    if queue is None:
        return (name, "not registered", *counts, None, None, None, None)
    return (
        name,
        "paused" if queue.paused else "open",
        *counts,
        queue.concurrency,
        queue.worker_concurrency,
        written_rate(queue.rate_limit_max, queue.rate_limit_period_sec),
        "yes" if queue.partition_queue else None,
    )


__all__ = ["command"]
