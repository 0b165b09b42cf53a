"""The contract of slots: each fires once, for the latest version, and as backfill, pause, jitter and overlap say."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from holdfast.core.slots import shift
from holdfast.errors import TransitionRefused
from holdfast.testing.contract.workflows_schedules_stage import HOUR, HOURLY, Calendar, written
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue

SECOND = timedelta(seconds=1)


class ScheduleFiringContract:
    """What becomes of slots."""

    def test_due_slot_fires_once_in_whichever_process(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            other, _ = calendar.another()
            async with calendar.open(), other:
                await calendar.create(context={"a": 1})
                first = await calendar.due()
                for number in range(3):
                    calendar.jump(first + number * HOUR + SECOND, calendar.app, other)
                    await calendar.moved_past(first + number * HOUR)
                await calendar.ended(3)
                slots = [first + number * HOUR for number in range(3)]
                assert sorted(calendar.calls) == [(slot, {"a": 1}) for slot in slots]
                assert calendar.slots() == [written(slot) for slot in slots]
                run = calendar.runs()[0]
                assert (run["application_version"], run["queue_name"]) == (stage.version, "_holdfast_sys_internal")
                assert calendar.row()["last_fired_at"] == written(slots[-1])
                found = await calendar.app.do("list_workflows", attributes={"schedule_name": calendar.name})
                assert len(found) == 3
                schedule = await calendar.get()
                assert (schedule.last_fired_at, schedule.next_due_at) == (slots[-1], slots[-1] + HOUR)
                assert schedule.last_run_id == calendar.runs()[-1]["workflow_uuid"]

        Stage(venue).play(scene)

    def test_missed_slots_are_left_out_or_all_fired_in_order(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                await calendar.create("* * * * *")
                await calendar.create("* * * * *", name=f"{calendar.name}-all", automatic_backfill=True)
                first = await calendar.due()
                last = first + timedelta(minutes=5)
                calendar.jump(last + 30 * SECOND)
                await calendar.moved_past(last)
                await stage.until(lambda: len(calendar.runs(f"{calendar.name}-all")) == 6)
                assert calendar.slots() == [written(last)]
                assert (await calendar.get(f"{calendar.name}-all")).last_fired_at == last

        Stage(venue).play(scene)

    def test_paused_schedule_does_not_fire_and_goes_on_with_its_next_slot(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                await calendar.create(automatic_backfill=True)
                other = await calendar.create(name=f"{calendar.name}-other")
                first = await calendar.due()
                await calendar.app.do("pause_schedule", calendar.name)
                calendar.jump(first + SECOND)
                await stage.until(lambda: calendar.runs(other.schedule_name))
                assert calendar.slots() == []
                await calendar.app.do("resume_schedule", calendar.name)
                assert await calendar.due() == first + HOUR
                calendar.jump(first + HOUR + SECOND)
                await calendar.moved_past(first + HOUR)
                assert calendar.slots() == [written(first + HOUR)]

        Stage(venue).play(scene)

    def test_change_by_one_process_is_heeded_by_the_others(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            other, flow = calendar.another()
            async with calendar.open():
                await calendar.create(context="before")
                first = await calendar.due()
                async with other:
                    await other.do("create_schedule", calendar.name, flow.raw, HOURLY, context="after")
                calendar.jump(first + SECOND)
                await calendar.ended(1)
                assert calendar.calls == [(first, "after")]

        Stage(venue).play(scene)

    def test_slot_is_for_the_latest_version_and_its_queue(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            newer, _ = calendar.another(application_version=f"{stage.version}-newer")
            async with calendar.open(), newer:
                await calendar.app.do("register_queue", calendar.name)
                await calendar.create(queue_name=calendar.name)
                await newer.do("set_latest_application_version", f"{stage.version}-newer")
                calendar.jump(await calendar.due() + SECOND)
                await calendar.ended(1)
                [run] = calendar.runs()
                assert (run["application_version"], run["queue_name"]) == (f"{stage.version}-newer", calendar.name)

        Stage(venue).play(scene)

    def test_jitter_puts_a_slot_off_by_what_is_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                made = await calendar.create(jitter=1800)
                slot = await calendar.due()
                delay = shift(made.schedule_id, slot, 1_800_000)
                calendar.jump(slot)
                await calendar.moved_past(slot)
                [run] = calendar.runs()
                assert run["delay_until_epoch_ms"] == slot.timestamp() * 1000 + delay
                calendar.jump(slot + timedelta(milliseconds=delay) + SECOND)
                await calendar.ended(1)
                assert calendar.calls == [(slot, None)]

        Stage(venue).play(scene)

    def test_overlap_skip_leaves_a_slot_out_while_the_last_one_runs(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            calendar = Calendar(stage, gate)
            async with calendar.open():
                await calendar.create(overlap="skip")
                first = await calendar.due()
                for number in range(2):
                    calendar.jump(first + number * HOUR)
                    await calendar.moved_past(first + number * HOUR)
                await gate.reached()
                assert calendar.slots() == [written(first)]
                assert (await calendar.get()).last_fired_at == first
                gate.open()
                await calendar.ended(1)
                calendar.jump(first + 2 * HOUR)
                await calendar.moved_past(first + 2 * HOUR)
                assert calendar.slots() == [written(first), written(first + 2 * HOUR)]

        Stage(venue).play(scene)

    def test_overlap_queue_begins_a_slot_when_the_last_one_has_ended(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            calendar = Calendar(stage, gate)
            async with calendar.open():
                await calendar.create(overlap="queue", automatic_backfill=True)
                first = await calendar.due()
                calendar.jump(first)
                await gate.reached()
                calendar.jump(first + 2 * HOUR)
                await calendar.moved_past(first + 2 * HOUR)
                assert [row["status"] for row in calendar.runs()] == ["PENDING", "DELAYED", "DELAYED"]
                assert len(calendar.calls) == 1
                gate.open()
                await calendar.ended(3)
                assert calendar.calls == [(first + number * HOUR, None) for number in range(3)]
                ends = [(row["started_at_epoch_ms"], row["completed_at"]) for row in calendar.runs()]
                assert all(begun >= before for (_, before), (begun, _) in itertools.pairwise(ends))

        Stage(venue).play(scene)

    def test_overlap_queue_lets_nobody_pass_when_a_run_that_waits_is_cancelled_or_deleted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            calendar = Calendar(stage, gate)
            async with calendar.open():
                await calendar.create(overlap="queue", automatic_backfill=True)
                first = await calendar.due()
                calendar.jump(first)
                await gate.reached()
                calendar.jump(first + 5 * HOUR)
                await calendar.moved_past(first + 5 * HOUR)
                ids = [row["workflow_uuid"] for row in calendar.runs()]
                for each in (ids[1], ids[2], ids[5]):
                    await calendar.app.do("cancel_workflow", each)
                await calendar.app.do("delete_workflow", ids[2])
                for number in (6, 7):  # each look of the dispatcher is one at those that wait, too
                    calendar.jump(first + number * HOUR)
                    await calendar.moved_past(first + number * HOUR)
                waiting = ["PENDING", "CANCELLED", "DELAYED", "DELAYED", "CANCELLED", "DELAYED", "DELAYED"]
                assert [row["status"] for row in calendar.runs()] == waiting
                gate.open()
                await calendar.ended(5)
                assert calendar.calls == [(first + number * HOUR, None) for number in (0, 3, 4, 6, 7)]
                ended = [row for row in calendar.runs() if row["status"] == "SUCCESS"]
                assert all(
                    after["started_at_epoch_ms"] >= before["completed_at"]
                    for before, after in itertools.pairwise(ended)
                )
                waits = f"SELECT * FROM {stage.table('workflow_waits')} WHERE workflow_uuid LIKE ?"
                await stage.until(lambda: not stage.rows(waits, f"sched-{calendar.name}-%"))

        Stage(venue).play(scene)

    def test_overlap_queue_has_no_delay_that_could_be_set(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            calendar = Calendar(stage, gate)
            async with calendar.open():
                await calendar.create(overlap="queue", automatic_backfill=True)
                first = await calendar.due()
                calendar.jump(first)
                await gate.reached()
                calendar.jump(first + HOUR)
                await calendar.moved_past(first + HOUR)
                waiting = calendar.runs()[1]["workflow_uuid"]
                for delay in (0, 7200):
                    with pytest.raises(TransitionRefused, match="waits until the runs of its schedule before it"):
                        await calendar.app.do("set_workflow_delay", waiting, delay)
                assert [row["status"] for row in calendar.runs()] == ["PENDING", "DELAYED"]
                gate.open()
                await calendar.ended(2)

        Stage(venue).play(scene)

    def test_overlap_cancel_other_ends_the_last_one(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            calendar = Calendar(stage, gate)
            async with calendar.open():
                await calendar.create(overlap="cancel_other")
                first = await calendar.due()
                calendar.jump(first)
                await gate.reached()
                calendar.jump(first + HOUR)
                await calendar.moved_past(first + HOUR)
                assert calendar.runs()[0]["status"] == "CANCELLED"
                gate.open()
                await calendar.ended(1)
                assert [row["status"] for row in calendar.runs()] == ["CANCELLED", "SUCCESS"]

        Stage(venue).play(scene)

    def test_slots_fired_by_hand_wait_for_each_other_and_later_ones_for_them(self, venue: Venue) -> None:
        Stage(venue).play(partial(self._backfill, "queue", 5))

    def test_slots_fired_by_hand_wait_for_each_other_and_later_ones_are_skipped(self, venue: Venue) -> None:
        Stage(venue).play(partial(self._backfill, "skip", 4))

    async def _backfill(self, overlap: str, slots: int, stage: Stage) -> None:
        """Fire four slots by hand, of which one has fired, then one more by the calendar, while the first runs."""
        gate = stage.gate()
        calendar = Calendar(stage, gate)
        async with calendar.open():
            await calendar.create(overlap=overlap)
            first = await calendar.due()
            end = first - HOUR + SECOND
            await calendar.app.do("backfill_schedule", calendar.name, first - 3 * HOUR, first - 2 * HOUR)
            await gate.reached()
            for _ in range(2):
                await calendar.app.do("backfill_schedule", calendar.name, first - 4 * HOUR, end)
            calendar.jump(first)
            await calendar.moved_past(first)
            waiting = ["DELAYED", "PENDING", "DELAYED", "DELAYED", "DELAYED"][:slots]
            assert [row["status"] for row in calendar.runs()] == waiting
            gate.open()
            await calendar.ended(slots)
            in_turn = [first + number * HOUR for number in (-3, -4, -2, -1, 0)[:slots]]
            assert [slot for slot, _ in calendar.calls] == in_turn
            runs = {row["workflow_uuid"][-25:]: row for row in calendar.runs()}
            assert all(
                runs[written(after)]["started_at_epoch_ms"] >= runs[written(before)]["completed_at"]
                for before, after in itertools.pairwise(in_turn)
            )

    def test_row_that_somebody_else_wrote_fires_from_its_next_slot_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                stage.execute(
                    f"INSERT INTO {calendar.table} (schedule_id, schedule_name, workflow_name, schedule, context, "
                    f"automatic_backfill) VALUES ('by-hand', '{calendar.name}', '{calendar.flow.raw.definition.name}', "
                    f"'{HOURLY}', '[1]', TRUE)"
                )
                calendar.app.raw._engine.work_released()  # noqa: SLF001 -- a look is not part of anybody's interface
                await stage.until(lambda: calendar.row()["next_due_epoch_ms"])
                first = await calendar.due()
                calendar.jump(first)
                await calendar.ended(1)
                assert calendar.calls == [(first, [1])]
                await calendar.app.do("pause_schedule", calendar.name)
                assert (await calendar.get()).next_due_at is None
                calendar.jump(first + 2 * HOUR)
                stage.execute(f"UPDATE {calendar.table} SET status = 'ACTIVE'")
                await calendar.moved_past(first + 2 * HOUR)
                assert await calendar.due() == first + 3 * HOUR
                calendar.jump(first + 3 * HOUR)
                await calendar.ended(2)
                assert calendar.slots() == [written(first), written(first + 3 * HOUR)]

        Stage(venue).play(scene)

    def test_slot_that_was_fired_by_hand_does_not_fire_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            async with calendar.open():
                await calendar.create(automatic_backfill=True)
                first = await calendar.due()
                await calendar.app.do("pause_schedule", calendar.name)
                calendar.jump(first + 2 * HOUR + SECOND)
                await calendar.app.do("backfill_schedule", calendar.name, first, first + 2 * HOUR)
                await calendar.ended(2)
                due = int(first.timestamp() * 1000)
                stage.execute(f"UPDATE {calendar.table} SET status = 'ACTIVE', next_due_epoch_ms = {due}")
                calendar.jump(datetime.fromtimestamp(due / 1000, UTC) + 2 * HOUR + 2 * SECOND)
                await calendar.moved_past(first + 2 * HOUR)
                await calendar.ended(3)
                assert len(calendar.calls) == 3
                assert (await calendar.get()).last_fired_at == first + 2 * HOUR

        Stage(venue).play(scene)
