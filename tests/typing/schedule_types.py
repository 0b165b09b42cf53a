"""What a type checker must say about schedules. Checked by mypy, never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from holdfast import AsyncClient, AsyncHandle, AsyncHoldfast, Client, Handle, Holdfast, Schedule, ScheduleSpec
from holdfast.client import AsyncClientHandle, ClientHandle

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()


@app.scheduled("0 3 * * *", cron_timezone="Europe/Berlin", jitter=timedelta(minutes=1), overlap="skip")
@app.workflow
def above(scheduled_at: datetime, context: int) -> str:
    return f"{scheduled_at} {context}"


@aapp.workflow
@aapp.scheduled("0 3 * * *", automatic_backfill=True)
async def below(scheduled_at: datetime) -> int:
    return scheduled_at.day


app.scheduled("0 3 * * *", overlap="never")  # type: ignore[arg-type]
app.scheduled(3)  # type: ignore[arg-type]


def sync_calls(client: Client) -> None:
    now = datetime.now(UTC)
    assert_type(above(now, 1), str)
    above("now", 1)  # type: ignore[arg-type]
    assert_type(app.create_schedule("a", above, "@daily", context={"any": 1}, jitter=5), Schedule)
    assert_type(app.get_schedule("a"), Schedule | None)
    assert_type(app.list_schedules(status="PAUSED"), list[Schedule])
    assert_type(app.apply_schedules([ScheduleSpec("a", above, "@daily", overlap="queue")]), list[Schedule])
    assert_type(app.trigger_schedule("a"), Handle[Any])
    assert_type(app.backfill_schedule("a", now, now), list[Handle[Any]])
    assert_type(client.trigger_schedule("a"), ClientHandle)
    assert_type(client.create_schedule("a", "name", "@daily", on_conflict="keep"), Schedule)
    app.create_schedule("a", 5, "@daily")  # type: ignore[arg-type]
    app.create_schedule("a", above, "@daily", on_conflict="perhaps")  # type: ignore[arg-type]
    ScheduleSpec("a", above, "@daily", overlap="never")  # type: ignore[arg-type]


async def async_calls(client: AsyncClient) -> None:
    now = datetime.now(UTC)
    assert_type(await below(now), int)
    assert_type(await aapp.create_schedule("a", below, "@daily"), Schedule)
    assert_type(await aapp.trigger_schedule("a"), AsyncHandle[Any])
    assert_type(await aapp.backfill_schedule("a", now, now), list[AsyncHandle[Any]])
    assert_type(await client.backfill_schedule("a", now, now), list[AsyncClientHandle])
