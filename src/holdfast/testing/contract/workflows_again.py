"""The contract of runs that are tried again as a whole: from the operation that failed, and nothing twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App

SOON = Retry(attempts=3, interval=0.02, jitter=0)


class Busy(Exception):
    """Worth another try."""


class Broken(Exception):
    """Not worth another try."""


class AgainContract:
    """``@app.workflow(retry=...)``."""

    def test_run_is_tried_again_from_the_operation_that_failed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"second": 2})

            async def three() -> list[str]:
                return [await step(each) for each in ("first", "second", "third")]

            flow = app.workflow(three, retry=SOON)
            async with app:
                handle = await flow.start()
                assert await handle.result() == ["first", "second", "third"]
            assert did == ["first", "second", "second", "second", "third"]
            row = stage.run(handle.workflow_id)
            assert (row["status"], row["retries"], row["generation"]) == ("SUCCESS", 2, 2)
            assert [each["identity"] for each in stage.steps(handle.workflow_id)] == ["0", "1", "2"]
            assert all(each["error"] is None for each in stage.steps(handle.workflow_id))

        Stage(venue).play(scene)

    def test_run_whose_task_group_failed_is_tried_again_from_what_failed_in_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"part": 2})

            async def grouped() -> str:
                await step("before")
                async with asyncio.TaskGroup() as group:
                    part = group.create_task(step("part"))
                return str(part.result())

            flow = app.workflow(grouped, retry=SOON)
            async with app:
                assert await flow() == "part"
            assert did == ["before", "part", "part", "part"]

        if venue.colour is Colour.ASYNC:
            Stage(venue).play(scene)

    def test_last_try_leaves_the_error(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"only": 9})

            async def one() -> str:
                found: str = await step("only")
                return found

            flow = app.workflow(one, retry=SOON)
            async with app:
                handle = await flow.start()
                assert isinstance(await handle.error(), Busy)
            assert did == ["only"] * 3
            assert stage.run(handle.workflow_id)["status"] == "ERROR"
            assert len(stage.steps(handle.workflow_id)) == 1

        Stage(venue).play(scene)

    def test_errors_the_policy_refuses_end_the_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[int]()

            async def breaking() -> None:
                tried.append(1)
                raise Broken("for good")

            step = app.step(breaking)

            async def one() -> None:
                await step()

            flow = app.workflow(one, retry=Retry(attempts=3, interval=0.02, never=(Broken,)))
            async with app:
                with pytest.raises(Broken, match=r"^for good$"):
                    await flow()
            assert len(tried) == 1

        Stage(venue).play(scene)

    def test_policy_that_cannot_judge_an_error_leaves_it_to_be_the_outcome(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[str]()
            unsure = Retry(attempts=3, interval=0.02, when=lambda error: error.code >= 500)  # type: ignore[attr-defined]

            async def breaking() -> None:
                tried.append("step")
                raise Broken("of the step")

            step = app.step(breaking, retry=unsure)

            async def one() -> None:
                tried.append("run")
                await step()

            flow = app.workflow(one, retry=unsure)
            async with app:
                with pytest.raises(Broken, match=r"^of the step"):
                    await flow()
                handle = await flow.start()
                assert isinstance(await handle.error(), Broken)
            assert tried == ["run", "step"] * 2
            assert stage.run(handle.workflow_id)["status"] == "ERROR"

        Stage(venue).play(scene)

    def test_error_that_was_caught_stays_in_the_record(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"try": 99, "then": 1})

            async def fallback() -> str:
                with suppress(Busy):
                    await step("try")
                found: str = await step("then")
                return found

            flow = app.workflow(fallback, retry=SOON)
            async with app:
                assert await flow() == "then"
            assert did == ["try", "then", "then"]

        Stage(venue).play(scene)

    def test_only_the_branch_that_failed_and_what_came_after_is_done_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"second": 1})

            async def chain(names: list[str]) -> list[str]:
                return [await step(each) for each in names]

            async def both() -> list[Any]:
                first = await step("first")
                return [first, *await app.gather(lambda: chain(["second"]), lambda: chain(["third"]))]

            flow = app.workflow(both, retry=SOON)
            async with app:
                assert await flow() == ["first", ["second"], ["third"]]
            assert did.count("first") == 1
            assert did.count("second") == 2

        Stage(venue).play(scene)

    def test_branches_that_failed_together_are_done_again_together(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did, gate = stage.app(), list[str](), stage.gate()
            step = counting(app, did, fails={"first": 1, "second": 1})

            async def late() -> None:
                await gate()
                await step("first")

            async def early() -> None:
                try:
                    await step("second")
                finally:
                    gate.open()

            async def both() -> None:
                await app.gather(late, early)

            flow = app.workflow(both, retry=SOON)
            async with app:
                handle = await flow.start()
                await handle.result()
            assert sorted(did) == ["first", "first", "second", "second"]
            assert stage.run(handle.workflow_id)["retries"] == 1

        Stage(venue).play(scene)

    def test_child_that_failed_is_started_anew(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            step = counting(app, did, fails={"inner": 1})

            async def inner() -> str:
                found: str = await step("inner")
                return found

            child = app.workflow(inner)

            async def outer() -> str:
                await step("outer")
                found: str = await child()
                return found

            flow = app.workflow(outer, retry=SOON)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "inner"
            me = handle.workflow_id
            assert did == ["outer", "inner", "inner"]
            assert stage.run(f"{me}-1")["status"] == "ERROR"
            assert stage.run(f"{me}-g1-1")["status"] == "SUCCESS"

        Stage(venue).play(scene)

    def test_error_of_its_own_code_starts_over_only_what_has_recorded_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[str]()

            async def nothing() -> str:
                tried.append("nothing")
                if len(tried) < 2:
                    raise Busy("not yet")
                return "done"

            empty = app.workflow(nothing, retry=SOON)
            step = counting(app, tried, fails={})

            async def something() -> None:
                await step("step")
                raise Busy("the record would say so again")

            recorded = app.workflow(something, retry=SOON)
            async with app:
                assert await empty() == "done"
                with pytest.raises(Busy, match="again"):
                    await recorded()
            assert tried == ["nothing", "nothing", "step"]

        Stage(venue).play(scene)


def counting(app: App, did: list[str], *, fails: dict[str, int]) -> Any:
    """Return a step that notes each call, and fails so many times for the names in *fails*."""

    async def act(name: str) -> str:
        did.append(name)
        if did.count(name) <= fails.get(name, 0):
            raise Busy(f"{name} is not ready")
        return name

    return app.step(act)
