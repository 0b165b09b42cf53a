"""The contract of schedules as they are set: made, declared, changed, refused, fired by hand and deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import ScheduleSpec
from holdfast.client import AsyncClient, Client
from holdfast.errors import (
    ConfigurationError,
    InvalidSchedule,
    MisuseError,
    QueueNotFound,
    ScheduleConflict,
    ScheduleNotFound,
)
from holdfast.model.schedule import ScheduleStatus
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_schedules_stage import HOUR, HOURLY, Calendar, written
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class ScheduleCallsContract:
    """The calls of applications and clients."""

    def test_schedule_is_stored_with_the_documented_columns(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                await calendar.app.do("register_queue", calendar.name)
                made = await calendar.create(
                    "0 0 3 * * *",
                    context={"to": ["a", "b"]},
                    cron_timezone="Europe/Berlin",
                    queue_name=calendar.name,
                    automatic_backfill=True,
                    jitter=timedelta(seconds=1.5),
                    overlap="skip",
                )
                row = calendar.row()
                assert await calendar.get() == made
                assert made in await calendar.app.do("list_schedules")
                assert await calendar.app.do("get_schedule", "none") is None
            expected = {
                "schedule_id": made.schedule_id,
                "schedule_name": calendar.name,
                "workflow_name": f"note-{stage.version}",
                "workflow_class_name": None,
                "schedule": "0 0 3 * * *",
                "status": "ACTIVE",
                "context": '{"to":["a","b"]}',
                "last_fired_at": None,
                "cron_timezone": "Europe/Berlin",
                "queue_name": calendar.name,
                "jitter_ms": 1500,
                "overlap": "skip",
                "passes": 2,
            }
            assert {key: row[key] for key in expected} == expected
            assert bool(row["automatic_backfill"]) is made.automatic_backfill is True
            assert made.context == {"to": ["a", "b"]}
            assert made.next_due_at is not None
            assert row["next_due_epoch_ms"] == made.next_due_at.timestamp() * 1000

        Stage(venue).play(scene)

    def test_schedule_that_is_there_is_set_anew_kept_or_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                first = await calendar.create()
                assert await calendar.create() == first
                kept = await calendar.create("@daily", on_conflict="keep")
                assert kept == first
                with pytest.raises(ScheduleConflict, match=calendar.name):
                    await calendar.create("@daily", on_conflict="reject")
                other = await calendar.create(context=5)
                assert (other.schedule_id, other.next_due_at) == (first.schedule_id, first.next_due_at)
                assert (other.context, other.version) == (5, first.version + 1)
                yearly = await calendar.create("@yearly")
                assert yearly.next_due_at is not None
                assert (yearly.next_due_at.month, yearly.next_due_at.day, yearly.context) == (1, 1, None)
                await calendar.app.do("pause_schedule", calendar.name)
                paused = await calendar.create(HOURLY)
                assert (paused.status, paused.next_due_at) == (ScheduleStatus.PAUSED, None)
                assert [each.schedule_name for each in await calendar.app.do("list_schedules", status="PAUSED")] == [
                    calendar.name
                ]
                assert await calendar.app.do("list_schedules", status=ScheduleStatus.ACTIVE) == []
                with pytest.raises(ConfigurationError, match="ACTIVE, PAUSED"):
                    await calendar.app.do("list_schedules", status="active")
                assert await calendar.app.do("list_schedules", workflow_name="other") == []
                assert len(await calendar.app.do("list_schedules", schedule_name_prefix=calendar.name[:-1])) == 1
                assert await calendar.app.do("list_schedules", schedule_name_prefix="%") == []
                await calendar.app.do("delete_schedule", calendar.name)
                assert await calendar.app.do("list_schedules") == []
                for verb in ("pause_schedule", "resume_schedule", "delete_schedule", "trigger_schedule"):
                    with pytest.raises(ScheduleNotFound, match=calendar.name):
                        await calendar.app.do(verb, calendar.name)
                with pytest.raises(ScheduleNotFound, match=calendar.name):
                    await calendar.app.do("backfill_schedule", calendar.name, datetime.now(UTC), datetime.now(UTC))

        Stage(venue).play(scene)

    def test_mistake_is_refused_with_its_place_and_nothing_is_stored(self, venue: Venue) -> None:
        cases: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"schedule": "0 25 * * *"}, InvalidSchedule, r"Field 2 \(hour\) .*'25'.*0 to 23"),
            ({"schedule": "0 0 30 2 *"}, InvalidSchedule, "never"),
            ({"cron_timezone": "Mars/Olympus"}, InvalidSchedule, "Mars/Olympus"),
            ({"queue_name": "nowhere"}, QueueNotFound, "nowhere"),
            ({"queue_name": "_holdfast_sys_internal"}, ConfigurationError, "is ours"),
            ({"overlap": "perhaps"}, ConfigurationError, "allow, skip, queue, cancel_other"),
            ({"jitter": -1}, ConfigurationError, "jitter"),
            ({"name": "n" * 201}, ConfigurationError, "1 to 200"),
            ({"name": "a\nb"}, ConfigurationError, "printable"),
            ({"on_conflict": "perhaps"}, ConfigurationError, "update, keep, reject"),
            ({"automatic_backfill": "yes"}, ConfigurationError, "True or False"),
        ]

        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)

            async def greedy(first: int, second: int, third: int) -> None:
                raise AssertionError((first, second, third))

            wrong = calendar.app.workflow(greedy, name=f"greedy-{stage.version}")
            async with calendar.open():
                for said, kind, message in cases:
                    with pytest.raises(kind, match=message):
                        await calendar.create(**said)
                for workflow in (wrong.raw, f"greedy-{stage.version}"):
                    with pytest.raises(ConfigurationError, match="scheduled_at, context"):
                        await calendar.app.do("create_schedule", calendar.name, workflow, HOURLY)
                with pytest.raises(ConfigurationError, match=r"@app\.workflow"):
                    await calendar.app.do("create_schedule", calendar.name, greedy, HOURLY)
                await calendar.app.do("register_queue", calendar.name, partition_queue=True)
                with pytest.raises(ConfigurationError, match="partitions"):
                    await calendar.create(queue_name=calendar.name)
                with pytest.raises(MisuseError, match="before launch"):
                    calendar.app.raw.scheduled(HOURLY)
                assert await calendar.app.do("list_schedules") == []

        Stage(venue).play(scene)

    def test_whole_set_is_declared_at_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                kept = await calendar.create(name="a")
                await calendar.create(name="b")
                await calendar.create(name="c")
                wanted = [
                    ScheduleSpec("d", calendar.flow.raw, HOURLY),
                    ScheduleSpec("b", calendar.flow.raw, "@daily", context=1),
                    ScheduleSpec("a", calendar.flow.raw, HOURLY),
                ]
                with pytest.raises(QueueNotFound):
                    await calendar.app.do(
                        "apply_schedules", [*wanted, ScheduleSpec("z", "any", HOURLY, queue_name="none")]
                    )
                with pytest.raises(ConfigurationError, match="two called d"):
                    await calendar.app.do("apply_schedules", [*wanted, wanted[0]])
                assert [each.schedule_name for each in await calendar.app.do("list_schedules")] == ["a", "b", "c"]
                made = await calendar.app.do("apply_schedules", wanted)
                assert [each.schedule_name for each in made] == ["a", "b", "d"]
                assert made == await calendar.app.do("list_schedules")
                assert (made[0], made[1].schedule, made[1].context) == (kept, "@daily", 1)
                assert await calendar.app.do("apply_schedules", []) == []
                assert await calendar.app.do("list_schedules") == []

        Stage(venue).play(scene)

    def test_slot_is_fired_by_hand_and_a_span_of_them_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                await calendar.create(context="c")
                await calendar.app.do("pause_schedule", calendar.name)
                handle = await calendar.app.do("trigger_schedule", calendar.name)
                await stage.until(lambda: len(calendar.calls) == 1)
                assert handle.workflow_id.startswith(f"sched-{calendar.name}-trigger-")
                start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 3, tzinfo=UTC)
                first = await calendar.app.do("backfill_schedule", calendar.name, start, end)
                again = await calendar.app.do("backfill_schedule", calendar.name, start - HOUR, end)
                await calendar.ended(4)
                assert [each.workflow_id for each in again[1:]] == [each.workflow_id for each in first]
                assert calendar.slots() == [written(start + number * HOUR) for number in range(-1, 3)]
                assert sorted(calendar.calls[1:]) == [(start + number * HOUR, "c") for number in range(-1, 3)]
                with pytest.raises(ConfigurationError, match="future"):
                    await calendar.app.do("backfill_schedule", calendar.name, start, datetime.now(UTC) + HOUR)
                with pytest.raises(ConfigurationError, match="time zone"):
                    await calendar.app.do("backfill_schedule", calendar.name, start.replace(tzinfo=None), end)
                with pytest.raises(ConfigurationError, match="the years 1970"):
                    await calendar.app.do("backfill_schedule", calendar.name, datetime.min.replace(tzinfo=UTC), end)

        Stage(venue).play(scene)

    def test_client_does_all_of_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                kind = AsyncClient if stage.colour is Colour.ASYNC else Client
                client: Any = kind(stage.url, clock_offset_ms=stage.settings["clock_offset_ms"])
                start = datetime(2026, 3, 1, tzinfo=UTC)

                async def do(verb: str, *args: Any, **said: Any) -> Any:
                    return await calendar.app.value(getattr(client, verb)(*args, **said))

                await do("open")
                made = await do("create_schedule", calendar.name, f"note-{stage.version}", HOURLY, context=[1])
                assert await do("get_schedule", calendar.name) == made
                await do("pause_schedule", calendar.name)
                assert await do("list_schedules", status="PAUSED") == [await do("get_schedule", calendar.name)]
                await do("resume_schedule", calendar.name)
                triggered = await do("trigger_schedule", calendar.name)
                [slot] = await do("backfill_schedule", calendar.name, start, start + HOUR)
                assert await calendar.app.value(slot.result(timeout=60)) == start.isoformat()
                assert await calendar.app.value(triggered.result(timeout=60))
                [again] = await do("apply_schedules", [ScheduleSpec(calendar.name, "other", HOURLY)])
                assert again.workflow_name == "other"
                await do("delete_schedule", calendar.name)
                await do("close")
                assert await calendar.app.do("get_schedule", calendar.name) is None
                assert (start, [1]) in calendar.calls

        Stage(venue).play(scene)

    def test_workflow_that_asks_gets_the_same_answer_on_replay(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            name = f"sched{stage.version}"
            start = datetime(2026, 3, 1, tzinfo=UTC)

            def build(app: App, life: Life) -> Flow:
                async def slot(scheduled_at: datetime) -> str:
                    return scheduled_at.isoformat()

                async def plan() -> list[str]:
                    made = await app.do("create_schedule", name, f"slot-{stage.version}", HOURLY, on_conflict="reject")
                    run = await app.do("trigger_schedule", name)
                    slots = await app.do("backfill_schedule", name, start, start + HOUR)
                    await app.do("delete_schedule", name)
                    await life()
                    return [made.schedule_id, run.workflow_id, *(each.workflow_id for each in slots)]

                app.workflow(slot, name=f"slot-{stage.version}")
                return app.workflow(plan, name=f"plan-{stage.version}")

            handle = await stage.relive(build)
            made, run, slot = await handle.result()
            steps = [row["function_name"] for row in stage.steps(handle.workflow_id)]
            assert steps == [
                "holdfast.create_schedule",
                "holdfast.trigger_schedule",
                "holdfast.backfill_schedule",
                "holdfast.delete_schedule",
            ]
            assert (made.startswith(handle.workflow_id), run.startswith(handle.workflow_id)) == (True, True)
            assert slot == f"sched-{name}-{written(start)}"
            assert stage.run(run)["name"] == f"slot-{stage.version}"

        Stage(venue).play(scene)

    def test_decorator_declares_at_launch_above_and_below(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            app = calendar.app
            calls: list[tuple[Any, ...]] = []

            async def nothing() -> None:
                calls.append(())

            async def moment(at: datetime) -> None:
                calls.append((at,))

            above = f"nothing-{stage.version}"
            app.raw.scheduled(HOURLY)(app.workflow(nothing, name=above).raw)
            below = app.raw.scheduled("@daily", name="below", context=1)(app.coloured(moment))
            app.raw.workflow(name=f"moment-{stage.version}")(below)
            async with calendar.open():
                found = {each.schedule_name: each for each in await app.do("list_schedules")}
                assert {
                    name: (found[name].workflow_name, found[name].passes, found[name].schedule)
                    for name in (above, "below")
                } == {above: (above, 0, HOURLY), "below": (f"moment-{stage.version}", 1, "@daily")}
                await app.do("trigger_schedule", above)
                await app.do("trigger_schedule", "below")
                await stage.until(lambda: len(calls) == 2)
                assert sorted(len(call) for call in calls) == [0, 1]
                assert all(isinstance(each, datetime) and each.tzinfo is not None for call in calls for each in call)
                older = stage.app(application_version=f"{stage.version}-old")
                older.raw.scheduled("@yearly", name="below")(older.workflow(nothing, name="older").raw)
                await older.launch()
                await app.do("set_latest_application_version", stage.version)
                await older.close()
                await older.launch()  # not the latest any more: it leaves what is there
                await app.do("create_schedule", "below", f"moment-{stage.version}", "@daily")
                await older.close()
                await older.launch()
                assert (await calendar.get("below")).schedule == "@daily"

        Stage(venue).play(scene)

    def test_decorator_without_a_workflow_is_refused_at_launch(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            with pytest.raises(InvalidSchedule, match=r"Field 1 \(minute\)"):
                app.raw.scheduled("61 * * * *")(print)
            app.raw.scheduled(HOURLY)(print)
            with pytest.raises(ConfigurationError, match="print"):
                await app.launch()

        Stage(venue).play(scene)
