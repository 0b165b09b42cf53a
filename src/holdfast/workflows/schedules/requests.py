"""What is asked about schedules and done to them, as requests to the desk; see ``desk.py``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from holdfast.core.moments import checked_moment
from holdfast.core.options import several
from holdfast.core.texts import as_text, check_text, demand_text
from holdfast.errors import ConfigurationError
from holdfast.model.schedule import Schedule, ScheduleStatus
from holdfast.workflows.management.desk import Change, Request
from holdfast.workflows.schedules.settings import wanted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from holdfast.core.options import OnConflict
    from holdfast.workflows.management.desk import Desk
    from holdfast.workflows.schedules.settings import ScheduleSpec, Wanted


def create_schedule(spec: ScheduleSpec, on_conflict: OnConflict) -> Request[Schedule]:
    """Ask for a schedule."""
    asked = wanted(spec)

    async def call(desk: Desk) -> Schedule:
        [made] = await desk.schedules.create([asked], on_conflict)
        return made

    return Request("create_schedule", Change(call), {**_plain(asked), "on_conflict": on_conflict}, Schedule)


def apply_schedules(specs: Iterable[ScheduleSpec]) -> Request[list[Schedule]]:
    """Ask for these schedules and no others."""
    asked = [wanted(spec) for spec in several("schedules", specs)]

    async def call(desk: Desk) -> list[Schedule]:
        return await desk.schedules.apply(asked)

    return Request("apply_schedules", Change(call), {"schedules": [_plain(each) for each in asked]}, list[Schedule])


def list_schedules(
    status: str | None, workflow_name: str | None, schedule_name_prefix: str | None
) -> Request[list[Schedule]]:
    """Ask which schedules there are."""
    wanted_status = None if status is None else _status(status)
    for what, text in (("workflow_name", workflow_name), ("schedule_name_prefix", schedule_name_prefix)):
        if text is not None and demand_text(what, text):
            check_text(what, text)

    async def call(desk: Desk) -> list[Schedule]:
        return await desk.schedules.find(wanted_status, workflow_name, schedule_name_prefix)

    chosen = {"status": wanted_status, "workflow_name": workflow_name, "schedule_name_prefix": schedule_name_prefix}
    return Request("list_schedules", call, chosen, list[Schedule])


def get_schedule(name: str) -> Request[Schedule | None]:
    """Ask how a schedule stands."""
    name = as_text(check_text("The name of a schedule", name))

    async def call(desk: Desk) -> Schedule | None:
        return await desk.schedules.get(name)

    return Request("get_schedule", call, {"name": name}, Schedule | None)


def pause_schedule(method: str, name: str, *, paused: bool) -> Request[None]:
    """Ask for a schedule to fire no more, or again."""
    name = as_text(check_text("The name of a schedule", name))

    async def call(desk: Desk) -> None:
        await desk.schedules.pause(name, paused=paused)

    return Request(method, Change(call), {"name": name}, None)


def delete_schedule(name: str) -> Request[None]:
    """Ask for a schedule to be deleted."""
    name = as_text(check_text("The name of a schedule", name))

    async def call(desk: Desk) -> None:
        await desk.schedules.delete(name)

    return Request("delete_schedule", Change(call), {"name": name}, None)


def trigger_schedule(name: str) -> Request[str]:
    """Ask for a run of a schedule now; the answer is its id."""
    name = as_text(check_text("The name of a schedule", name))

    async def call(desk: Desk) -> str:
        return await desk.schedules.trigger(name)

    return Request("trigger_schedule", Change(call), {"name": name}, str)


def backfill_schedule(name: str, start: datetime, end: datetime) -> Request[list[str]]:
    """Ask for the slots of a span of time; the answer is the ids of their runs."""
    name = as_text(check_text("The name of a schedule", name))
    checked_moment(start, "start")
    checked_moment(end, "end")

    async def call(desk: Desk) -> list[str]:
        return await desk.schedules.backfill(name, start, end)

    return Request("backfill_schedule", call, {"name": name, "start": start, "end": end}, list[str])


def _status(status: str) -> str:
    try:
        return ScheduleStatus(status).value
    except ValueError:
        raise ConfigurationError(
            f"The status of a schedule is one of {', '.join(ScheduleStatus)}, not {status!r}."
        ) from None


def _plain(asked: Wanted) -> dict[str, Any]:
    return {each.name: getattr(asked, each.name) for each in fields(asked)}
