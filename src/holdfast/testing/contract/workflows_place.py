"""The contract of where code stands: in a workflow, in a step, in neither, or in another application's workflow."""

from __future__ import annotations

import asyncio
import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Life, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


TENANT = ContextVar("tenant", default="nobody")


async def double(number: int) -> int:
    return number * 2


def triple(number: int) -> int:
    return number * 3


async def same(thing: Any) -> Any:
    return thing


class PlaceContract:
    """What code is told about where it stands, and what is recorded there."""

    def test_ids_are_there_inside_and_none_outside(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def place() -> list[Any]:
                return [app.raw.workflow_id, app.raw.step_id]

            step = app.step(place)

            async def places() -> list[Any]:
                return [app.raw.workflow_id, app.raw.step_id, *await step(), *await step()]

            flow = app.workflow(places)
            async with app:
                handle = await flow.start()
                me = handle.workflow_id
                assert await handle.result() == [me, None, me, 1, me, 2]
                assert [app.raw.workflow_id, app.raw.step_id] == [None, None]
                assert await step() == [None, None]

        Stage(venue).play(scene)

    def test_step_outside_a_workflow_is_a_plain_call_whether_launched_or_not(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, anything = stage.app(), object()
            step = app.step(same)
            assert await step(anything) is anything
            async with app:
                assert await step(anything) is anything
            assert await step(anything) is anything

        Stage(venue).play(scene)

    def test_step_inside_a_step_is_a_plain_call(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            inner = app.step(double)

            async def outer(number: int) -> int:
                found: int = await inner(number)
                return found + 1

            step = app.step(outer, name="outer")

            async def nested(number: int) -> int:
                found: int = await step(number)
                return found

            flow = app.workflow(nested)
            async with app:
                handle = await flow.start(4)
                assert await handle.result() == 9
                assert [row["function_name"] for row in stage.steps(handle.workflow_id)] == ["outer"]

        Stage(venue).play(scene)

    def test_workflow_started_in_a_step_is_nobodys_child(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            inner = app.workflow(double)

            async def starter(number: int) -> str:
                handle = await inner.start(number)
                await handle.result()
                return handle.workflow_id

            step = app.step(starter)

            async def outer() -> str:
                found: str = await step(2)
                return found

            flow = app.workflow(outer)
            async with app:
                other = await flow()
                assert stage.run(other)["parent_workflow_id"] is None
                assert stage.run(other)["output"] == "4"

        Stage(venue).play(scene)

    def test_run_step_records_functions_of_both_colours(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            declared = app.raw.step(name="declared")(app.coloured(double))

            async def ad_hoc(number: int) -> list[int]:
                return [
                    await app.do("run_step", double, number),
                    await app.do("run_step", triple, number),
                    await app.do("run_step", declared, number=number),
                    await app.do("run_step", functools.partial(triple, number)),
                    await app.do("run_step", max, number, 100),
                ]

            flow = app.workflow(ad_hoc)
            async with app:
                handle = await flow.start(2)
                assert await handle.result() == [4, 6, 4, 6, 100]
                names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
                assert names == ["double", "triple", "declared", "triple", "max"]
                assert await app.do("run_step", double, 5) == 10
                assert await app.do("run_step", triple, 5) == 15

        Stage(venue).play(scene)

    def test_run_step_awaits_what_a_plain_function_gives(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def ad_hoc() -> int:
                found: int = await app.do("run_step", lambda: double(21))
                return found

            flow = app.workflow(ad_hoc)
            async with app:
                assert await flow() == 42

        Stage(venue).play(scene)

    def test_blocking_step_in_an_async_workflow_is_refused_with_the_remedy(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step = app.raw.step(triple)

            async def blocked() -> int:
                found: int = step(1)
                return found

            flow = app.raw.workflow(blocked)
            async with app:
                with pytest.raises(MisuseError, match="run_step"):
                    await flow() if venue.colour is Colour.ASYNC else asyncio.run(flow())

        Stage(venue).play(scene)

    def test_what_another_application_does_in_a_workflow_is_done_plainly(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app(executor_id="other")
            step = other.step(double)
            theirs = other.workflow(double)

            async def mixed() -> list[Any]:
                handle = await theirs.start(4)
                found = [await step(2), await theirs(3), await handle.result()]
                await other.do("now")
                await other.do("random")
                await other.do("uuid")
                await other.do("sleep", 0.001)
                await other.do("run_step", double, 1)
                await other.gather(functools.partial(step, 1))
                return [*found, await other.wait_all([handle]), await other.wait_first([handle])]

            flow = app.workflow(mixed)
            async with app, other:
                handle = await flow.start()
                assert await handle.result() == [4, 6, 8, [8], 0]
                assert stage.steps(handle.workflow_id) == []

        Stage(venue).play(scene)

    def test_run_that_is_started_has_the_context_variables_of_who_starts_it_and_leaves_none_to_others(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            app = stage.app(max_workflow_threads=1)  # which does one run after the other

            async def tenant() -> str:
                found = TENANT.get()
                TENANT.set("set by a run")
                await gate()
                return found

            flow = app.workflow(tenant)
            async with app:
                handles = []
                for name in ("ann", "bob"):
                    mark = TENANT.set(name)
                    handles.append(await flow.start())
                    TENANT.reset(mark)
                handles.append(await flow.start())
                gate.open()
                assert [await each.result() for each in handles] == ["ann", "bob", "nobody"]
                assert TENANT.get() == "nobody"

        Stage(venue).play(scene)

    def test_run_that_goes_on_elsewhere_has_the_context_variables_of_who_launched_the_application(
        self, venue: Venue
    ) -> None:
        def build(app: App, life: Life) -> Flow:
            async def tenant() -> str:
                await life()
                return TENANT.get()

            return app.workflow(tenant)

        async def scene(stage: Stage) -> None:
            mark = TENANT.set("ann")
            try:
                gate, app = stage.gate(), stage.app()
                flow = build(app, Life(1, gate))
                await app.launch()
                handle = await flow.start()
                await gate.reached()
            finally:
                TENANT.reset(mark)
            await stage.crash(app)
            second = stage.app()
            build(second, Life(2))
            await second.launch()
            assert await second.retrieve(handle.workflow_id).result() == "nobody"

        Stage(venue).play(scene)
