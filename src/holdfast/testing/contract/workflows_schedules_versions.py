"""The contract of slots and versions: a slot is for the latest version that has its workflow."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.core.moments import moment_of
from holdfast.testing.contract.workflows_schedules_stage import HOURLY, Calendar
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue

SECOND = timedelta(seconds=1)


async def _nothing() -> None:
    """Do nothing, for another application."""


class ScheduleVersionsContract:
    """For which version the slots of a schedule are, and whose word about a schedule counts."""

    def test_slot_is_not_for_a_later_version_that_lacks_its_workflow(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            other = stage.app(application_version=f"{stage.version}-other")
            other.workflow(_nothing, name=f"other-{stage.version}")
            async with calendar.open(), other:
                await calendar.create(overlap="skip")
                await other.do("set_latest_application_version", f"{stage.version}-other")
                first = await calendar.due()
                calendar.jump(first + SECOND)
                await calendar.ended(1)
                assert [run["application_version"] for run in calendar.runs()] == [stage.version]
                handle = Handle(calendar.app, await calendar.app.do("trigger_schedule", calendar.name))
                assert await handle.result() == calendar.calls[1][0].isoformat()

        Stage(venue).play(scene)

    def test_slot_is_for_the_latest_version_also_while_no_process_runs_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            newer, _ = calendar.another(application_version=f"{stage.version}-newer")
            async with calendar.open():
                async with newer:
                    await newer.do("set_latest_application_version", f"{stage.version}-newer")
                await calendar.create()
                first = await calendar.due()
                calendar.jump(first + SECOND)
                await calendar.moved_past(first)
                [run] = calendar.runs()
                assert (run["application_version"], run["status"]) == (f"{stage.version}-newer", "ENQUEUED")

        Stage(venue).play(scene)

    def test_slot_of_a_workflow_that_no_version_has_is_for_whoever_comes(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            bystander = stage.app(application_version=f"{stage.version}-bystander")
            async with bystander:
                await bystander.do("create_schedule", calendar.name, f"note-{stage.version}", HOURLY)
                first = moment_of(calendar.row()["next_due_epoch_ms"])
                calendar.jump(first + SECOND, bystander)
                await calendar.moved_past(first)
                assert [run["application_version"] for run in calendar.runs()] == [None]
                async with calendar.open():
                    await calendar.ended(1)

        Stage(venue).play(scene)

    def test_schedule_is_declared_anew_though_another_application_has_registered_since(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            calendar = Calendar(stage)
            for expression in (HOURLY, "@daily"):
                app, flow = calendar.another()
                app.raw.scheduled(expression, name=calendar.name)(flow.raw)
                async with app:
                    pass
                assert calendar.row()["schedule"] == expression
                other = stage.app(application_version=f"{stage.version}-other")
                other.workflow(_nothing, name=f"other-{stage.version}")
                async with other:
                    await other.do("set_latest_application_version", f"{stage.version}-other")
            calendar.forget()

        Stage(venue).play(scene)


__all__ = ["ScheduleVersionsContract"]
