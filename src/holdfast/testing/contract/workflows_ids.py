"""The contract of workflow ids: each is an idempotency key, here and in any other executor."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, WorkflowConflict, WorkflowNotFound
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate


ODD = [
    *("plain", "plain ", "Plain", "a b", "Ä/ö?&=#", "a/o?&=#", "'; DROP TABLE x; --", 'quo"te\\', "100%_", "100x_"),
    *("🐙", "🐚", "line\nbreak", "x" * 238, "x" * 239),
]


async def double(number: int) -> int:
    return number * 2


async def triple(number: int) -> int:
    return number * 3


def counting(app: App, counted: list[int], gate: Gate | None = None) -> Flow:
    """Return a workflow whose executions are counted."""

    async def counts(number: int) -> int:
        counted.append(number)
        if gate is not None:
            await gate()
        return number * 2

    return app.workflow(counts)


class IdsContract:
    """A second start with the same id attaches to the first, or is refused if it is another call."""

    def test_second_start_attaches_to_a_run_that_runs_and_to_one_that_ended(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, counted = stage.app(), stage.gate(), list[int]()
            flow = counting(app, counted, gate).options(workflow_id=f"key-{secrets.token_hex(8)}")
            async with app:
                first = await flow.start(4)
                await gate.reached()
                second = await flow.start(4)
                gate.open()
                assert [await first.result(), await second.result(), await flow(4)] == [8, 8, 8]
                assert await (await flow.start(4)).result() == 8
                assert counted == [4]

        Stage(venue).play(scene)

    def test_second_start_attaches_to_a_run_that_failed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, counted = stage.app(), list[int]()

            async def fails() -> None:
                counted.append(1)
                raise LookupError("nothing there")

            flow = app.workflow(fails).options(workflow_id=f"key-{secrets.token_hex(8)}")
            async with app:
                for _ in range(2):
                    with pytest.raises(LookupError, match=r"^nothing there$"):
                        await flow()
                assert counted == [1]

        Stage(venue).play(scene)

    def test_second_start_attaches_to_a_run_of_another_executor(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other, gate, counted = stage.app(), stage.app(), stage.gate(), list[int]()
            workflow_id = f"key-{secrets.token_hex(8)}"
            flow = counting(app, counted, gate).options(workflow_id=workflow_id)
            same = counting(other, counted).options(workflow_id=workflow_id)
            async with app, other:
                first = await flow.start(4)
                await gate.reached()
                second = await same.start(4)
                with pytest.raises(TimeoutError, match=workflow_id):
                    await second.result(timeout=0.01)
                gate.open()
                assert [await second.result(), await first.result()] == [8, 8]
                assert counted == [4]

        Stage(venue).play(scene)

    def test_many_starts_at_once_make_one_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other, counted = stage.app(), stage.app(), list[int]()
            workflow_id = f"key-{secrets.token_hex(8)}"
            flows = [counting(each, counted).options(workflow_id=workflow_id) for each in (app, other)]
            async with app, other:
                found = await app.gather(*(lambda flow=flow: flow(7) for flow in flows * 5))
                assert found == [14] * 10
                assert counted == [7]

        Stage(venue).play(scene)

    def test_other_arguments_or_another_function_are_a_conflict(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            workflow_id = f"key-{secrets.token_hex(8)}"
            flow = app.workflow(double).options(workflow_id=workflow_id)
            other = app.workflow(triple).options(workflow_id=workflow_id)
            async with app:
                assert await flow(1) == 2
                with pytest.raises(WorkflowConflict, match=f"{workflow_id}.*other arguments.*SUCCESS"):
                    await flow(2)
                with pytest.raises(WorkflowConflict, match=f"{workflow_id}.*'double'.*return_existing"):
                    await other.start(1)
                assert await flow.options(on_conflict="return_existing")(2) == 2
                assert await other.options(on_conflict="return_existing")(1) == 2
                assert await flow(1) == 2

        Stage(venue).play(scene)

    def test_odd_ids_are_kept_to_the_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step = app.step(double)

            async def stepping(number: int) -> int:
                found: int = await step(number)
                return found

            flow, mark = app.workflow(stepping), secrets.token_hex(8)
            async with app:
                for number, odd in enumerate(ODD):
                    handle = await flow.options(workflow_id=mark + odd).start(number)
                    assert handle.workflow_id == mark + odd
                    assert await handle.result() == number * 2
                for number, odd in enumerate(ODD):  # each is its own, also where another differs by little
                    assert await app.retrieve(mark + odd).result() == number * 2
                    assert len(stage.steps(mark + odd)) == 1

        Stage(venue).play(scene)

    def test_ids_that_cannot_be_kept_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = app.workflow(double)
            async with app:
                for wrong in ("", "x" * 256, "nul\0", "half \ud83d"):
                    with pytest.raises(ConfigurationError, match="255"):
                        await flow.options(workflow_id=wrong).start(1)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("impossible", ["nul \0", "half \ud800", "", "x" * 300])
    def test_id_that_no_run_can_have_is_not_found_and_troubles_nobody_else(self, venue: Venue, impossible: str) -> None:
        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app()
            flow = app.workflow(double)
            async with app, other:
                for verb in ("get_workflow", "cancel_workflow", "list_steps", "export_workflow", "get_all_events"):
                    with pytest.raises(WorkflowNotFound, match="no run"):
                        await app.do(verb, impossible)
                with pytest.raises(WorkflowNotFound, match="no run"):
                    await app.retrieve(impossible).result()
                with pytest.raises(WorkflowNotFound, match="no run"):
                    app.raw.read_stream(impossible, "progress")
                handle = await flow.start(4)
                assert await other.retrieve(handle.workflow_id).result() == 8

        Stage(venue).play(scene)

    def test_long_ids_leave_room_for_children(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            child = app.workflow(double)

            async def parent() -> list[int]:
                return [await child(1), await child(2)]

            flow = app.workflow(parent)
            async with app:
                workflow_id = secrets.token_hex(16) + "y" * 223
                assert await flow.options(workflow_id=workflow_id)() == [2, 4]
                children = [row["child_workflow_id"] for row in stage.steps(workflow_id) if row["child_workflow_id"]]
                assert len(set(children)) == 2
                assert all(len(each) <= 255 for each in children)

        Stage(venue).play(scene)
