"""The contract of calling: directly, in the background, with options, by parameters; and where code stands."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, WorkflowNotFound
from holdfast.model.workflow import WorkflowStatus
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


async def double(number: int) -> int:
    return number * 2


async def fail(text: str) -> None:
    raise ValueError(text)


def doubling(app: App) -> Flow:
    step = app.step(double)

    async def twice(number: int) -> int:
        found: int = await step(await step(number))
        return found

    return app.workflow(twice)


class CallsContract:
    """What a caller gets."""

    def test_direct_call_runs_durably_and_returns_the_value(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                workflow_id = f"direct-{secrets.token_hex(8)}"
                assert await flow.options(workflow_id=workflow_id)(3) == 12
                assert stage.run(workflow_id)["status"] == "SUCCESS"
                assert [row["function_name"] for row in stage.steps(workflow_id)] == ["double", "double"]

        Stage(venue).play(scene)

    def test_direct_call_raises_the_error_of_the_workflow(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step = app.step(fail)

            async def failing(text: str) -> None:
                await step(text)

            flow = app.workflow(failing)
            async with app:
                workflow_id = f"failing-{secrets.token_hex(8)}"
                with pytest.raises(ValueError, match=r"^no luck$"):
                    await flow.options(workflow_id=workflow_id)("no luck")
                assert stage.run(workflow_id)["status"] == "ERROR"

        Stage(venue).play(scene)

    def test_error_of_a_run_has_its_traceback_however_often_it_is_asked_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = app.workflow(fail)
            async with app:
                handle = await flow.start("no luck")
                lengths = []
                for _ in range(3):
                    with pytest.raises(ValueError, match=r"^no luck$") as caught:
                        await handle.result()
                    lengths.append(len(caught.traceback))
                    assert caught.traceback[-1].name == "fail"
                assert len(set(lengths)) == 1

        Stage(venue).play(scene)

    def test_start_gives_a_handle_with_id_status_and_result(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def patient(number: int) -> int:
                await gate()
                return number + 1

            flow = app.workflow(patient)
            async with app:
                handle = await flow.start(1)
                await gate.reached()
                state = await handle.status()
                assert (state.workflow_id, state.status) == (handle.workflow_id, WorkflowStatus.PENDING)
                assert state.recovery_attempts == 0
                with pytest.raises(TimeoutError, match=handle.workflow_id):
                    await handle.result(timeout=0.01)
                gate.open()
                assert await handle.result() == 2
                assert await handle.result() == 2
                assert (await handle.status()).status is WorkflowStatus.SUCCESS

        Stage(venue).play(scene)

    def test_who_does_not_wait_is_told_what_has_ended(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app()
            flow = app.workflow(double)
            async with app, other:
                handle = await flow.start(2)
                await handle.result()
                for patience in (0, -1):
                    assert await other.retrieve(handle.workflow_id).result(timeout=patience) == 4
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await other.retrieve("nobody").result(timeout=0)

        Stage(venue).play(scene)

    def test_many_waiters_of_one_run_are_all_told(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def patient() -> str:
                await gate()
                return "done"

            flow = app.workflow(patient)
            async with app:
                handle = await flow.start()
                others = [app.retrieve(handle.workflow_id) for _ in range(3)]

                async def opened() -> str:
                    gate.open()
                    return "opened"

                parts = [each.result for each in [handle, *others]]
                assert await app.gather(*parts, opened) == ["done"] * 4 + ["opened"]

        Stage(venue).play(scene)

    def test_whoever_has_waited_long_enough_is_forgotten(self, venue: Venue) -> None:
        """Nobody looks at the database for those who have gone."""

        async def scene(stage: Stage) -> None:
            app, other, gate = stage.app(), stage.app(), stage.gate()

            async def patient(number: int) -> int:
                if number == 0:
                    await gate()
                return number

            flow = app.workflow(patient)
            async with app, other:
                handles = [await flow.start(number) for number in range(2)]
                elsewhere = [other.retrieve(each.workflow_id) for each in handles]
                for handle in (handles[0], elsewhere[0]):
                    with pytest.raises(TimeoutError):
                        await handle.result(timeout=0.01)
                assert await app.wait_first(handles) == 1
                assert await other.wait_first(elsewhere) == 1
                results = other.raw._engine.results  # noqa: SLF001 -- what nobody should notice
                await stage.until(lambda: results.waiting == 0)

        Stage(venue).play(scene)

    def test_handle_of_the_async_class_can_be_awaited(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                handle = await flow.start(5)
                if venue.colour is Colour.ASYNC:
                    assert await handle.raw == 20
                else:
                    assert not hasattr(handle.raw, "__await__")
                    assert handle.raw.result() == 20

        Stage(venue).play(scene)

    def test_execute_returns_results_and_run_id(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                results, run_id = await app.do("execute", flow.raw, parameters={"number": 4})
                assert results == 16
                assert stage.run(run_id)["status"] == "SUCCESS"

        Stage(venue).play(scene)

    def test_retrieved_run_gives_the_same_while_it_runs_and_afterwards(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def pair() -> tuple[int, int]:
                await gate()
                return 1, 2

            flow = app.workflow(pair)
            async with app:
                handle = await flow.start()
                early = app.retrieve(handle.workflow_id)
                gate.open()
                assert await handle.result() == (1, 2)
                assert await early.result() == [1, 2]
                assert await app.retrieve(handle.workflow_id).result() == [1, 2]

        Stage(venue).play(scene)

    def test_retrieving_a_run_that_is_not_there_says_so_when_asked(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                handle = app.retrieve("nobody")
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await handle.result()
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await handle.status()

        Stage(venue).play(scene)

    def test_options_give_a_copy_and_refuse_what_they_do_not_know(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            with pytest.raises(ConfigurationError, match=r"colour.*workflow_id"):
                flow.options(colour="red")
            with pytest.raises(ConfigurationError, match=r"on_conflict.*reject.*return_existing"):
                flow.options(on_conflict="overwrite")
            async with app:
                chosen = flow.options(workflow_id=f"one-{secrets.token_hex(8)}").options(authenticated_user="eve")
                first = await chosen.start(1)
                other = await flow.start(1)
                assert first.workflow_id != other.workflow_id
                assert await first.result() == await other.result() == 4
                assert stage.run(first.workflow_id)["authenticated_user"] == "eve"
                assert stage.run(other.workflow_id)["authenticated_user"] is None

        Stage(venue).play(scene)

    def test_arguments_arrive_as_a_recovery_would_give_them(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            seen: list[object] = []

            async def look(given: list[int], *more: int, named: tuple[int, ...] = (), **rest: str) -> None:
                given.append(9)
                seen.extend([list(given), more, named, rest])

            flow = app.workflow(look)
            async with app:
                mine = [1]
                await flow(mine, 2, 3, named=(4,), x="y")
                assert seen == [[1, 9], (2, 3), (4,), {"x": "y"}]
                assert mine == [1]

        Stage(venue).play(scene)
