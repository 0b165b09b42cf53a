"""The contract of waiting that costs nothing: a run that waits long is put away, and goes on when its wait is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import Superseded, WorkflowCancelled
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate

SOON: dict[str, Any] = {"put_away_after": 0.1}
NAP = 3600.0  # by the database's clock, which the test sets: no run wakes before it has been looked at


async def is_put_away(stage: Stage, app: App, workflow_id: str) -> None:
    """Wait until a run is put away, and nothing of it is left in the process."""
    await stage.until(lambda: stage.run(workflow_id)["status"] == "DELAYED")
    await stage.until(lambda: workflow_id not in app.raw._engine.runner.running)  # noqa: SLF001 -- what it still holds


def pass_time(stage: Stage, app: App, seconds: float) -> None:
    """Set the database's clock so far ahead, and have the application look at it, as its next beat would.

    Who looks in between may wake a run too early, which is put away again.
    """
    engine = app.raw._engine  # noqa: SLF001 -- a look is not part of anybody's interface
    stage.set_clock(seconds)
    engine.database_time(int((time.time() + seconds) * 1000))
    engine.work_released()


class ParkingContract:
    """PENDING -> DELAYED by the holder, and back."""

    def test_run_that_sleeps_long_is_put_away_and_goes_on_when_it_is_time(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, did = stage.app(**SOON), list[str]()

            async def note(what: str) -> None:
                did.append(what)

            step = app.step(note)

            async def sleepy() -> str:
                await step("before")
                await app.do("sleep", NAP)
                await step("after")
                return "rested"

            flow = app.workflow(sleepy)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                row = stage.run(handle.workflow_id)
                assert (row["owner_xid"], row["incarnation"], row["wait_kind"]) == (None, None, "sleep")
                assert (row["recovery_attempts"], row["generation"]) == (0, 0)
                slept = [each for each in stage.steps(handle.workflow_id) if each["function_name"] == "holdfast.sleep"]
                assert row["delay_until_epoch_ms"] == int(slept[0]["output"])
                assert did == ["before"]
                pass_time(stage, app, NAP)
                assert await handle.result() == "rested"
                ended = stage.run(handle.workflow_id)
                assert ended["completed_at"] >= row["delay_until_epoch_ms"]
                assert ended["status"] == "SUCCESS"
            assert did == ["before", "after"]

        Stage(venue).play(scene)

    def test_short_sleep_stays_where_it_is(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def brief() -> str:
                await app.do("sleep", 0.05)
                return "awake"

            flow = app.workflow(brief)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "awake"
            assert stage.run(handle.workflow_id)["executions"] == 1

        Stage(venue).play(scene)

    def test_run_that_waits_for_another_is_put_away_and_woken_by_its_end(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, began = stage.app(**SOON), stage.gate(), list[int]()

            async def slow() -> str:
                await gate()
                return "child"

            child = app.workflow(slow)

            async def patient() -> str:
                began.append(1)
                found: str = await (await child.start()).result()
                return found

            flow = app.workflow(patient)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                assert stage.run(handle.workflow_id)["wait_kind"] == "result"
                gate.open()
                assert await handle.result() == "child"
                await stage.until(lambda: not waits_of(stage, handle.workflow_id))
            assert len(began) == 2

        Stage(venue).play(scene)

    def test_wake_up_that_nobody_gave_costs_a_poll_and_no_more(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(**SOON), stage.gate()
            flow, _ = waiting_for_a_child(app, gate)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                stage.execute(
                    f"UPDATE {stage.table('workflow_status')} SET status = 'CANCELLED', owner_xid = NULL "
                    "WHERE workflow_uuid = ?",
                    f"{handle.workflow_id}-0",
                )
                assert isinstance(await handle.error(), WorkflowCancelled)

        Stage(venue).play(scene)

    def test_run_is_not_put_away_while_one_of_its_branches_works(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, gate, did = stage.app(**SOON), stage.gate(), list[str]()

            async def work() -> str:
                did.append("work")
                await gate()
                return "worked"

            step = app.step(work)

            async def nap() -> str:
                await app.do("sleep", NAP)
                return "slept"

            async def both() -> list[str]:
                return await app.gather(step, nap)

            flow = app.workflow(both)
            async with app:
                handle = await flow.start()
                await gate.reached()
                await stage.pause(0.3)
                assert stage.run(handle.workflow_id)["status"] == "PENDING"
                gate.open()
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "DELAYED")
                pass_time(stage, app, NAP)
                assert await handle.result() == ["worked", "slept"]
            assert did == ["work"]

        Stage(venue).play(scene)

    def test_part_that_goes_on_when_its_time_is_over_keeps_no_run_from_being_put_away(self, venue: Venue) -> None:
        """Nor do parts of its own: a thread cannot be stopped, and nobody waits for it."""

        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, gate = stage.app(**SOON), stage.gate()

            async def endless() -> None:
                await app.gather(gate, gate)

            async def late() -> str:
                try:
                    await app.timeout(0.05, endless)
                except TimeoutError:
                    await app.do("sleep", NAP)
                return "rested"

            flow = app.workflow(late)
            async with app:
                handle = await flow.start()
                await gate.reached()
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, NAP)
                assert await handle.result() == "rested"

        Stage(venue).play(scene)

    def test_all_branches_that_wait_wake_by_the_first(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, did = stage.app(**SOON), list[str]()

            async def note(what: str) -> None:
                did.append(what)

            step = app.step(note)

            async def nap(name: str, seconds: float) -> None:
                await app.do("sleep", seconds)
                await step(name)

            async def naps() -> None:
                await app.gather(lambda: nap("long", 2 * NAP), lambda: nap("short", NAP / 2))

            flow = app.workflow(naps)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, NAP)
                await stage.until(lambda: did)
                assert did == ["short"]
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, 2 * NAP)
                await handle.result()
            assert did == ["short", "long"]

        Stage(venue).play(scene)

    def test_code_that_is_unwound_can_do_nothing_durable(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, refused, did = stage.app(**SOON), list[bool](), list[str]()

            async def clean() -> None:
                did.append("cleaned")

            step = app.step(clean)

            async def careful() -> str:
                try:
                    await app.do("sleep", NAP)
                finally:
                    try:
                        await step()
                    except Superseded:
                        refused.append(True)
                        raise
                return "done"

            flow = app.workflow(careful)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, NAP)
                assert await handle.result() == "done"
            assert refused
            assert did == ["cleaned"]

        Stage(venue).play(scene)

    def test_run_that_was_put_away_by_one_executor_goes_on_in_another(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            first, second = stage.app(**SOON), stage.app(**SOON)
            flow = first.workflow(napping(first))
            second.workflow(napping(second))
            await first.launch()
            handle = await flow.start()
            await is_put_away(stage, first, handle.workflow_id)
            await first.close()
            await second.launch()
            pass_time(stage, second, NAP)
            assert await second.retrieve(handle.workflow_id).result() == "rested"

        Stage(venue).play(scene)

    def test_process_without_workflows_wakes_the_run_that_it_sends_a_message_to(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            first, second = stage.app(**SOON), stage.app()

            async def listening() -> str:
                found: str = await first.do("recv", "news")
                return found

            flow = first.workflow(listening)
            await first.launch()
            handle = await flow.start()
            await is_put_away(stage, first, handle.workflow_id)
            await first.close()  # nobody polls who could wake it
            async with second:
                await second.do("send", handle.workflow_id, "hello", "news")
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "ENQUEUED")

        Stage(venue).play(scene)

    def test_run_that_lost_its_executor_while_it_waited_is_put_away_by_the_next(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            second, run_id = await self._lost_while_it_slept(stage)
            await is_put_away(stage, second, run_id)
            assert stage.run(run_id)["recovery_attempts"] == 1
            pass_time(stage, second, NAP)
            assert await second.retrieve(run_id).result() == "rested"

        Stage(venue).play(scene)

    def test_suspect_that_waits_is_put_away_when_it_is_cleared(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.settings["lease"] = 1
            second, run_id = await self._lost_while_it_slept(stage, max_recovery_attempts=2)
            await is_put_away(stage, second, run_id)
            assert stage.run(run_id)["recovery_attempts"] == 0

        Stage(venue).play(scene)

    async def _lost_while_it_slept(self, stage: Stage, **options: Any) -> tuple[App, str]:
        """Return another application, launched, and a run whose executor was lost before it was put away."""
        stage.set_clock(0)
        first, second = stage.app(put_away_after=2 * NAP), stage.app(**SOON)
        flow = first.workflow(napping(first), **options)
        second.workflow(napping(second), **options)
        await first.launch()
        handle = await flow.start()
        await stage.until(lambda: stage.steps(handle.workflow_id))
        await stage.crash(first)
        await second.launch()
        return second, handle.workflow_id

    def test_run_that_is_put_away_can_be_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(**SOON)
            flow = app.workflow(napping(app))
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                await app.do("cancel_workflow", handle.workflow_id)
                assert isinstance(await handle.error(), WorkflowCancelled)

        Stage(venue).play(scene)


def napping(app: App) -> Callable[[], Coroutine[Any, Any, str]]:
    """Return the body of a workflow that sleeps."""

    async def nap() -> str:
        await app.do("sleep", NAP)
        return "rested"

    return nap


def waiting_for_a_child(app: App, gate: Gate) -> tuple[Flow, Flow]:
    """Return a workflow that waits for the result of one that stands before *gate*."""

    async def slow() -> str:
        await gate()
        return "child"

    child = app.workflow(slow)

    async def patient() -> str:
        found: str = await (await child.start()).result()
        return found

    return app.workflow(patient), child


def waits_of(stage: Stage, workflow_id: str) -> list[dict[str, object]]:
    """Return what a run is noted to wait for."""
    return stage.rows(f"SELECT * FROM {stage.table('workflow_waits')} WHERE workflow_uuid = ?", workflow_id)
