"""``holdfast schedule``: what fires when; making, pausing and deleting schedules, and firing slots by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import click

from holdfast.cli.asking import ask
from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure
from holdfast.cli.output import moment, plain
from holdfast.cli.runs import on_runs
from holdfast.cli.starting import told, wait_options
from holdfast.cli.words import duration, text, time, value
from holdfast.core.cron import cron
from holdfast.errors import QueueNotFound, ScheduleConflict, ScheduleNotFound
from holdfast.model.schedule import Overlap, Schedule, ScheduleStatus

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client

_COLUMNS = ("schedule", "state", "cron", "zone", "workflow", "queue", "last fired", "next due")
_TIMES = frozenset({"created_at", "updated_at"})
_DAY = timedelta(days=1)
_END = datetime(9000, 1, 1, tzinfo=UTC)

_named = click.argument("name", metavar="NAME")


def _within_a_day(word: str) -> timedelta:
    length = duration(word)
    if length > _DAY:
        raise click.BadParameter(f"{word!r} is longer than a day.")
    return length


@click.group(name="schedule")
def command() -> None:
    """Look at schedules, make them, pause them, fire their slots by hand."""


@command.command(name="list")
@click.option(
    "--status", type=click.Choice(list(ScheduleStatus), case_sensitive=False), help="Only those of this status."
)
@click.option("--workflow", "workflow_name", type=text, help="Only those of this workflow.")
@click.option("--prefix", "schedule_name_prefix", type=text, help="Only those whose names begin so.")
@on_runs
def list_(client: Client, out: Output, **chosen: Any) -> None:
    """List the schedules, with the last slot that fired and the next."""
    found = client.list_schedules(**chosen)
    out.document({"schedules": [_document(each) for each in found]})
    out.table(_COLUMNS, [_line(each) for each in found])


@command.command()
@_named
@on_runs
def get(client: Client, out: Output, *, name: str) -> None:
    """Show one schedule."""
    _show(out, _there(client, name))


@command.command(
    short_help="Run a workflow at every slot of a cron expression.",
    epilog=examples(
        "schedule create nightly report '0 3 * * *' --timezone Europe/Berlin --queue reports",
        "schedule create poll look '*/10 * * * * *' --overlap skip",
    ),
)
@_named
@click.argument("workflow", metavar="WORKFLOW")
@click.argument("schedule", metavar="CRON")
@click.option("--context", type=value, default="null", help='What every run is given, as JSON: {"order": 17}.')
@click.option("--timezone", "cron_timezone", type=text, help="An IANA name such as Europe/Berlin; by default UTC.")
@click.option("--queue", "queue_name", type=text, help="The queue its runs go to.")
@click.option("--backfill", "automatic_backfill", is_flag=True, help="Fire slots that were missed, too.")
@click.option("--jitter", type=_within_a_day, metavar="DURATION", help="Put each slot off by up to this time, as 30s.")
@click.option(
    "--overlap",
    type=click.Choice(get_args(Overlap)),
    default="allow",
    show_default=True,
    help="What becomes of a slot while the run of the last one has not ended.",
)
@click.option("--keep", is_flag=True, help="Leave a schedule of this name as it is.")
@click.option("--reject", is_flag=True, help="Fail if there is a schedule of this name.")
@on_runs
def create(
    client: Client,
    out: Output,
    *,
    name: str,
    workflow: str,
    schedule: str,
    context: Any,
    keep: bool,
    reject: bool,
    jitter: timedelta | None,
    **said: Any,
) -> None:
    """Run WORKFLOW at every slot of CRON: five fields, or six with the second first. One that is there is set so."""
    if keep and reject:
        raise click.UsageError("--keep and --reject exclude each other: give one of them.")
    try:
        made = client.create_schedule(
            name,
            workflow,
            schedule,
            context=context,
            jitter=jitter or 0,
            on_conflict="keep" if keep else "reject" if reject else "update",
            **said,
        )
    except ScheduleConflict as error:
        raise Failure(f"There is a schedule {name!r} already: choose another name, or leave out --reject.") from error
    except QueueNotFound as error:
        queue = said["queue_name"]
        raise Failure(
            f"There is no queue {queue!r} for the runs of {name}: `holdfast queue set {queue} --create` makes one. "
            "Without --queue they need none."
        ) from error
    _show(out, made)


@command.command()
@_named
@on_runs
def pause(client: Client, out: Output, *, name: str) -> None:
    """Have a schedule fire no more."""
    _there(client, name)
    client.pause_schedule(name)
    out.document({"schedule": name, "status": ScheduleStatus.PAUSED.value})
    out.say(f"Paused {name}.")


@command.command()
@_named
@on_runs
def resume(client: Client, out: Output, *, name: str) -> None:
    """Have a paused schedule fire again, from its next slot on."""
    _there(client, name)
    client.resume_schedule(name)
    out.document({"schedule": name, "status": ScheduleStatus.ACTIVE.value})
    out.say(f"Resumed {name}.")


@command.command()
@_named
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_runs
def delete(client: Client, out: Output, *, name: str, yes: bool) -> None:
    """Delete a schedule. Its runs stay."""
    _there(client, name)
    ask(f"Delete the schedule {name}?", yes=yes)
    client.delete_schedule(name)
    out.document({"schedule": name, "deleted": True})
    out.say(f"Deleted {name}.")


@command.command()
@_named
@wait_options
@on_runs
def trigger(client: Client, out: Output, *, name: str, wait: bool, wait_for: timedelta | None) -> None:
    """Enqueue a run of a schedule now, paused or not."""
    _there(client, name)
    handle = client.trigger_schedule(name)
    told(out, handle, wait=wait, wait_for=wait_for)


@command.command()
@_named
@click.option("--from", "start", type=time, required=True, help="The first moment; ISO-8601, without a zone it is UTC.")
@click.option("--to", "end", type=time, required=True, help="The moment before which the last slot lies; likewise.")
@on_runs
def backfill(client: Client, out: Output, *, name: str, start: datetime, end: datetime) -> None:
    """Fire the slots of a past span of time. A slot that has fired keeps its run.

    All of them fire; where slots must not overlap (queue, skip), one after the other.
    """
    _there(client, name)
    ids = [handle.workflow_id for handle in client.backfill_schedule(name, start, end)]
    out.document({"workflow_ids": ids})
    for each in ids:
        out.say(each)


@command.command(name="next")
@_named
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
@on_runs
def next_(client: Client, out: Output, *, name: str, count: int) -> None:
    """Show the next slots of a schedule, in its zone and in UTC."""
    schedule = _there(client, name)
    slots = _upcoming(schedule, count)
    zone = cron(schedule.schedule, schedule.cron_timezone).zone
    if schedule.next_due_at is None:
        out.remark(f"{name} is paused: these would be its slots.")
    out.document(
        {
            "schedule": name,
            "status": schedule.status.value,
            "slots": [{"local": each.astimezone(zone).isoformat(), "utc": each.isoformat()} for each in slots],
        }
    )
    rows = [(each.astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"), _written(each)) for each in slots]
    out.table((schedule.cron_timezone or "UTC", "UTC"), rows)


def _upcoming(schedule: Schedule, count: int) -> list[datetime]:
    """Return the next slots, from the one that the database will fire next."""
    first = schedule.next_due_at or datetime.now(UTC)
    return list(islice(cron(schedule.schedule, schedule.cron_timezone).between(first, _END), count))


def _there(client: Client, name: str) -> Schedule:
    schedule = client.get_schedule(name)
    if schedule is None:
        raise ScheduleNotFound(f"There is no schedule {name!r}: `holdfast schedule list` shows those there are.")
    return schedule


def _show(out: Output, schedule: Schedule) -> None:
    document = _document(schedule)
    out.document(document)
    out.facts((key, moment(value) if key in _TIMES else value) for key, value in document.items())


def _document(schedule: Schedule) -> dict[str, Any]:
    document = plain(schedule)
    for key in ("last_fired_at", "next_due_at"):
        document[key] = _written(document[key])
    return document


def _line(schedule: Schedule) -> tuple[Any, ...]:
    return (
        schedule.schedule_name,
        "paused" if schedule.status is ScheduleStatus.PAUSED else "active",
        schedule.schedule,
        schedule.cron_timezone or "UTC",
        schedule.workflow_name,
        schedule.queue_name,
        _written(schedule.last_fired_at),
        _written(schedule.next_due_at),
    )


def _written(slot: datetime | None) -> str | None:
    return None if slot is None else slot.isoformat(timespec="seconds").replace("+00:00", "Z")


__all__ = ["command"]
