"""The contract of going back: a run that is rewound or forked keeps what it had recorded before, in every branch."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import WorkflowNotFound
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_control import family, two_steps
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow

HOUR = 3600


class Woven:
    """A workflow with two gathered chains, a child and a last step; every step draws a new number."""

    def __init__(self, app: App) -> None:
        self.ran: Counter[str] = Counter()
        numbers = itertools.count(1)

        async def draw(name: str) -> int:
            self.ran[name] += 1
            return next(numbers)

        step = app.step(draw, name="draw")

        async def young() -> int:
            found: int = await step("child")
            return found

        child = app.workflow(young)

        async def chain(name: str) -> list[int]:
            return [await step(f"{name}{place}") for place in range(3)]

        async def weave() -> list[Any]:
            chains = await app.gather(partial(chain, "a"), partial(chain, "b"))
            return [*chains, await child(), await step("last")]

        self.flow = app.workflow(weave)


def outcomes(steps: list[Row]) -> dict[str, Any]:
    """Return what was recorded by identity, with the child and without positions."""
    return {row["identity"]: (row["output"], row["child_workflow_id"]) for row in steps}


def drawn(steps: list[Row]) -> int:
    """Return how many of the records are steps that drew a number."""
    return sum(row["function_name"] == "draw" for row in steps)


class GoingBackContract:
    """Rewind and fork."""

    @pytest.mark.parametrize("start_step", [1, 2, 4, 6, 8, 9])
    def test_rewound_run_keeps_its_prefix_in_every_branch_and_does_the_rest_again(
        self, venue: Venue, start_step: int
    ) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            woven = Woven(app)
            async with app:
                handle = await woven.flow.start()
                first = await handle.result()
                before = stage.steps(handle.workflow_id)
                assert [row["function_id"] for row in before] == list(range(1, 10))
                kept = outcomes([row for row in before if row["function_id"] < start_step])
                again = Handle(app, await app.do("rewind_workflow", handle.workflow_id, start_step))
                second = await again.result()
                after = outcomes(stage.steps(handle.workflow_id))
                assert after.keys() == outcomes(before).keys()
                assert kept.items() <= after.items()
                assert sum(woven.ran.values()) == 8 + 7 - drawn(before[: start_step - 1]) + (start_step <= 7)
                assert (first == second) is (start_step > 9)
                assert stage.run(handle.workflow_id)["generation"] == 1
                # The start of the child has position 7: cut away, another child is started, with another id.
                assert len(family(stage, handle.workflow_id)) == (2 if start_step <= 7 else 1)

        Stage(venue).play(scene)

    def test_operation_that_was_given_the_id_of_its_run_is_replayed_under_another(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, charged = stage.app(), list[str]()

            async def charge(key: str) -> str:
                charged.append(key)
                return key

            async def ship() -> str:
                return "shipped"

            step, then = app.step(charge), app.step(ship)

            async def order() -> list[str]:
                return [await step(str(app.raw.workflow_id)), await then()]

            flow = app.workflow(order)
            async with app:
                handle = await flow.start()
                first = await handle.result()
                fork = Handle(app, await app.do("fork_workflow", handle.workflow_id, 2))
                assert await fork.result() == first
                moved = await app.do(
                    "import_workflow",
                    await app.do("export_workflow", handle.workflow_id),
                    workflow_id=f"{handle.workflow_id}-moved",
                )
                again = Handle(app, await app.do("rewind_workflow", moved.workflow_id, 2))
                assert await again.result() == first
            assert charged == [handle.workflow_id]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("start_step", [1, 4, 8, 100])
    def test_forked_run_has_the_prefix_of_every_branch_and_leaves_the_original(
        self, venue: Venue, start_step: int
    ) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            woven = Woven(app)
            new_id = f"fork-{secrets.token_hex(8)}"
            async with app:
                handle = await woven.flow.start()
                first = await handle.result()
                before = stage.steps(handle.workflow_id)
                fork = Handle(
                    app, await app.do("fork_workflow", handle.workflow_id, start_step, new_workflow_id=new_id)
                )
                assert fork.workflow_id == new_id
                second = await fork.result()
                assert (first == second) is (start_step == 100)
                kept = outcomes([row for row in before if row["function_id"] < start_step])
                assert kept.items() <= outcomes(stage.steps(new_id)).items()
                assert stage.steps(handle.workflow_id) == before
                assert await handle.result() == first
                assert (stage.run(new_id)["forked_from"], stage.run(handle.workflow_id)["was_forked_from"]) == (
                    handle.workflow_id,
                    True,
                )
                # The original's child belongs to the record: only a fork from before its start has one of its own.
                assert len(family(stage, handle.workflow_id)) == 1
                assert len(family(stage, new_id)) == (start_step <= 7)

        Stage(venue).play(scene)

    def test_run_that_failed_is_rewound_to_the_step_that_failed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, ran = stage.app(), list[str]()

            async def pay(what: str) -> str:
                ran.append(what)
                if ran == ["book", "charge"]:
                    raise PermissionError("card refused")
                return f"{what} done"

            step = app.step(pay)

            async def order() -> list[str]:
                return [await step("book"), await step("charge")]

            flow = app.workflow(order)
            async with app:
                handle = await flow.start()
                assert isinstance(await handle.error(), PermissionError)
                again = Handle(app, await app.do("rewind_workflow", handle.workflow_id, 2))
                assert await again.result() == ["book done", "charge done"]
                assert ran == ["book", "charge", "charge"]

        Stage(venue).play(scene)

    def test_many_forks_are_made_together_or_not_at_all(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            gate.open()
            flow = two_steps(app, gate, [])
            async with app:
                handles = [await flow.start() for _ in range(3)]
                ids = [each.workflow_id for each in handles]
                assert await app.wait_all(handles) == ["first second"] * 3
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await app.do("fork_workflows", [*ids, "nobody"], 2)
                assert not any(stage.run(each)["was_forked_from"] for each in ids)
                forks = [Handle(app, raw) for raw in await app.do("fork_workflows", ids, 2)]
                assert [await each.result() for each in forks] == ["first second"] * 3
                assert [stage.run(each.workflow_id)["forked_from"] for each in forks] == ids

        Stage(venue).play(scene)

    def test_part_with_a_time_limit_that_is_gone_back_into_has_its_time_anew(self, venue: Venue) -> None:
        """Twice the limit passes between the failure and the second try, the rewind and the fork."""

        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            ran: Counter[str] = Counter()

            async def draw(what: str) -> str:
                ran[what] += 1
                if what == "charge" and not healthy:
                    raise ConnectionError("not now")
                return what

            def build(app: App) -> tuple[Flow, Flow]:
                step = app.step(draw, name="draw")

                async def inner() -> list[str]:
                    return [await step("pack"), await step("charge")]

                async def outer() -> list[str]:
                    found: list[str] = [await step("book"), *await app.timeout(HOUR, inner)]
                    return found

                async def order() -> list[str]:
                    done: list[str] = await app.timeout(HOUR, outer)
                    return [*done, await step("ship")]

                return app.workflow(order, name="once"), app.workflow(
                    order, name="twice", retry=Retry(attempts=2, interval=60)
                )

            healthy, first, second = False, stage.app(), stage.app()
            once, twice = build(first)
            async with first:
                failed, tried = await once.start(), await twice.start()
                assert isinstance(await failed.error(), ConnectionError)
                await stage.until(lambda: stage.run(tried.workflow_id)["status"] == "DELAYED")
            healthy = True
            stage.set_clock(2 * HOUR)
            build(second)
            async with second:
                drew = [row for row in stage.steps(failed.workflow_id) if row["function_name"] == "draw"]
                at = drew[2]["function_id"]
                fork = Handle(second, await second.do("fork_workflow", failed.workflow_id, at))
                again = Handle(second, await second.do("rewind_workflow", failed.workflow_id, at))
                for handle in (second.retrieve(tried.workflow_id), fork, again):
                    assert await handle.result() == ["book", "pack", "charge", "ship"]
                assert ran == {"book": 2, "pack": 2, "charge": 5, "ship": 3}
                # A part that has ended is not gone back into: it keeps its end, and the run does not go in again.
                before = stage.steps(failed.workflow_id)
                await second.do("rewind_workflow", failed.workflow_id, before[-1]["function_id"])
                assert await again.result() == ["book", "pack", "charge", "ship"]
                assert outcomes(stage.steps(failed.workflow_id)) == outcomes(before)

        Stage(venue).play(scene)
