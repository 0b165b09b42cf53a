"""The contract of an application's life: before launch, launched, closing, closed, launched again; and its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, NotInitialized, QueryFailed
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


async def double(number: int) -> int:
    return number * 2


class ApplicationContract:
    """What an application does at which time of its life."""

    def test_use_before_launch_and_after_close_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = app.workflow(double)

            async def refused() -> None:
                with pytest.raises(NotInitialized, match="launch"):
                    await flow(1)
                with pytest.raises(NotInitialized, match="launch"):
                    await flow.start(1)
                for verb in ("now", "random", "uuid", "list_application_versions", "get_latest_application_version"):
                    with pytest.raises(NotInitialized, match="launch"):
                        await app.do(verb)
                with pytest.raises(NotInitialized, match="launch"):
                    await app.retrieve("x").status()
                with pytest.raises(NotInitialized, match="launch"):
                    await app.retrieve("x").result()

            await refused()
            with pytest.raises(NotInitialized, match="launch"):
                _ = app.raw.application_version
            async with app:
                assert await flow(1) == 2
                assert app.raw.application_version == stage.version
            await refused()

        Stage(venue).play(scene)

    def test_second_launch_and_second_close_change_nothing_and_a_closed_application_opens_again(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(executor_id=stage.version)
            flow = app.workflow(double)
            await app.close()
            for round_ in range(2):
                await app.launch()
                await app.launch()
                assert await flow(round_) == round_ * 2
                await app.close()
                await app.close()
            owners = stage.rows(f"SELECT * FROM {stage.table('executors')} WHERE executor_id = ?", stage.version)
            assert owners == []

        Stage(venue).play(scene)

    def test_failed_launch_leaves_the_application_closed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(clock_offset_ms="SELECT nothing FROM nowhere")
            flow = app.workflow(double)
            for _ in range(2):
                with pytest.raises(QueryFailed):
                    await app.launch()
            with pytest.raises(NotInitialized, match="launch"):
                await flow(1)

        Stage(venue).play(scene)

    def test_close_lets_runs_end_within_the_drain_time_with_their_children_and_what_their_steps_start(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            child = app.workflow(double)

            async def starting(number: int) -> int:
                started: int = await (await child.start(number)).result()
                return started

            step = app.step(starting, name="step")

            async def slow(number: int) -> int:
                await gate()
                found: int = await child(await step(number))
                return found

            flow = app.workflow(slow)
            await app.launch()
            handle = await flow.start(3)
            await gate.reached()

            async def closed() -> None:
                await app.close(drain=30)

            async def refuses() -> bool:
                try:
                    await child.start(1)
                except NotInitialized:
                    return True
                return False

            async def opened() -> None:
                await stage.until(refuses)
                gate.open()

            await stage.app().gather(closed, opened)
            assert stage.run(handle.workflow_id)["status"] == "SUCCESS"
            assert stage.run(handle.workflow_id)["output"] == "12"

        Stage(venue).play(scene)

    def test_whoever_waits_when_the_application_closes_is_told(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def stuck() -> None:
                await gate()

            flow = app.workflow(stuck)
            await app.launch()
            handle = await flow.start()
            await gate.reached()
            other = stage.app()

            async def waits() -> str:
                try:
                    await handle.result()
                except NotInitialized as error:
                    return str(error)
                return "no error"

            async def closes() -> None:
                await app.close()

            told, _ = await other.gather(waits, closes)
            assert handle.workflow_id in told

        Stage(venue).play(scene)

    def test_two_workflows_of_one_name_are_refused_with_both_places(self, venue: Venue) -> None:
        app = Stage(venue).app()
        app.workflow(double)

        async def other(number: int) -> int:
            return number

        with pytest.raises(ConfigurationError, match=r"'double'.*\.py:\d+ and .*\.py:\d+.*name="):
            app.workflow(other, name="double")
