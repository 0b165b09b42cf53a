"""The contract of what must not change on replay: the time, chance, fresh ids, and the end of a sleep."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life

HOUR = 3600.0


class TimeContract:
    """``now``, ``random``, ``uuid`` and ``sleep``."""

    def test_time_chance_and_ids_are_the_same_on_replay(self, venue: Venue) -> None:
        seen: dict[int, list[Any]] = {}

        def build(app: App, life: Life) -> Flow:
            async def drawing() -> None:
                seen[life.number] = [await app.do(verb) for verb in ("now", "random", "uuid", "now", "random", "uuid")]
                await life()

            return app.workflow(drawing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            await handle.result()
            assert seen[1] == seen[2]
            now, chance, fresh, *others = seen[1]
            assert abs(now - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
            assert 0 <= chance < 1
            assert others[1:] != [chance, fresh]
            names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
            assert names == ["holdfast.now", "holdfast.random", "holdfast.uuid"] * 2

        Stage(venue).play(scene)

    def test_outside_a_workflow_they_are_plain(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                assert await app.do("uuid") != await app.do("uuid")
                assert 0 <= await app.do("random") < 1
                assert (await app.do("now")).tzinfo is dt.UTC
                await app.do("sleep", 0.001)
                await app.do("sleep", dt.timedelta(milliseconds=1))

        Stage(venue).play(scene)

    def test_time_follows_the_database(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.settings["clock_offset_ms"] = "SELECT 3600000"
            async with stage.app() as app:
                ahead = await app.do("now") - dt.datetime.now(dt.UTC)
                assert dt.timedelta(minutes=55) < ahead < dt.timedelta(minutes=65)

        Stage(venue).play(scene)

    def test_sleep_that_is_interrupted_ends_when_it_would_have_ended(self, venue: Venue) -> None:
        """The clock moves on by the length of the sleep between two lives: nothing is left to sleep in the second."""

        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            first = stage.app()

            async def sleeping() -> str:
                await app.do("sleep", HOUR)
                return "awake"

            app = first
            flow = first.workflow(sleeping)
            await first.launch()
            handle = await flow.start()
            await stage.until(lambda: stage.steps(handle.workflow_id))
            (row,) = stage.steps(handle.workflow_id)
            assert row["function_name"] == "holdfast.sleep"
            end = int(row["output"])
            assert abs(end - stage.run(handle.workflow_id)["created_at"] - HOUR * 1000) < 60_000
            await stage.crash(first)
            stage.set_clock(HOUR)
            app = stage.app()
            flow = app.workflow(sleeping)
            await app.launch()
            again = await flow.options(workflow_id=handle.workflow_id).start()
            assert await again.result() == "awake"
            (row,) = stage.steps(handle.workflow_id)
            assert int(row["output"]) == end

        Stage(venue).play(scene)

    def test_sleep_of_a_run_that_is_handed_over_goes_on_elsewhere(self, venue: Venue) -> None:
        def build(app: App) -> Flow:
            async def sleeping() -> str:
                await app.do("sleep", 0.4)
                return "awake"

            return app.workflow(sleeping)

        async def scene(stage: Stage) -> None:
            first, second = stage.app(), stage.app()
            flow, same = build(first), build(second)
            await first.launch()
            handle = await flow.start()
            await stage.until(lambda: stage.steps(handle.workflow_id))
            await first.close()
            await second.launch()
            again = await same.options(workflow_id=handle.workflow_id).start()
            assert await again.result() == "awake"
            assert (await again.status()).recovery_attempts == 0
            assert len(stage.steps(handle.workflow_id)) == 1

        Stage(venue).play(scene)

    def test_sleep_ends_at_its_recorded_moment_also_if_the_database_s_clock_is_set_back_meanwhile(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(HOUR)
            app = stage.app(lease=1)

            async def sleeping() -> dt.datetime:
                await app.do("sleep", 2)
                woken: dt.datetime = await app.do("now")
                return woken

            flow = app.workflow(sleeping)
            async with app:
                handle = await flow.start()
                await stage.until(lambda: stage.steps(handle.workflow_id))
                stage.set_clock(HOUR - 3)  # heard of with the next beat
                woken = await handle.result()
                [end, _] = stage.steps(handle.workflow_id)
                assert woken.timestamp() * 1000 > int(end["output"]) - 1000  # each beat reads the clock anew

        Stage(venue).play(scene)
