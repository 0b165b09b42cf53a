"""The contract of child workflows: runs of their own, which a parent starts once, however often it is replayed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError, WorkflowConflict, WorkflowNotFound
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


async def double(number: int) -> int:
    return number * 2


async def refuse(reason: str) -> None:
    raise PermissionError(reason)


def behalf(stage: Stage, workflow_id: str) -> tuple[str | None, str | None, str | None]:
    """Return on whose behalf a run acts, by its row."""
    row = stage.run(workflow_id)
    return row["authenticated_user"], row["assumed_role"], row["authenticated_roles"]


class ChildrenContract:
    """Direct and started children."""

    def test_children_have_ids_that_follow_from_their_place_and_name_their_parent(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            child = app.workflow(double)

            async def parent() -> list[int]:
                direct = await child(1)
                handle = await child.start(2)
                return [direct, await handle.result()]

            flow = app.workflow(parent)
            async with app:
                handle = await flow.start()
                assert await handle.result() == [2, 4]
                me = handle.workflow_id
                rows = [(row["function_name"], row["child_workflow_id"]) for row in stage.steps(me)]
                assert rows == [
                    ("double", f"{me}-0"),
                    ("holdfast.get_result", None),
                    ("double", f"{me}-2"),
                    ("holdfast.get_result", None),
                ]
                for number in (0, 2):
                    assert stage.run(f"{me}-{number}")["parent_workflow_id"] == me
                    assert stage.run(f"{me}-{number}")["status"] == "SUCCESS"

        Stage(venue).play(scene)

    def test_children_act_on_behalf_of_their_parents_user(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            child = app.workflow(double)

            async def below() -> None:
                await child(1)

            async def parent() -> None:
                await child(1)
                await child.options(assumed_role="auditor").start(2)
                await child.options(authenticated_user="bob").start(3)
                claimed = await app.do("enqueue", "below", queue_name="q")
                await app.value(claimed.result())

            app.workflow(below, name="below")
            flow = app.workflow(parent).options(
                authenticated_user="ann", assumed_role="clerk", authenticated_roles=("clerk", "guest")
            )
            async with app:
                await app.do("register_queue", "q")
                handle = await flow.start()
                await handle.result()
                me, ann = handle.workflow_id, ("ann", "clerk", '["clerk","guest"]')
                assert behalf(stage, f"{me}-0") == ann
                assert behalf(stage, f"{me}-2") == ("ann", "auditor", '["clerk","guest"]')
                assert behalf(stage, f"{me}-3") == ("bob", None, None)
                assert behalf(stage, f"{me}-4") == behalf(stage, f"{me}-4-0") == ann

        Stage(venue).play(scene)

    def test_status_that_a_workflow_asked_for_is_the_same_on_replay(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def asking() -> list[str]:
                mine = await app.retrieve(app.raw.workflow_id).status()
                try:
                    await app.retrieve("there is no such run").status()
                except WorkflowNotFound:
                    await life()
                return [mine.status, f"recovered {mine.recovery_attempts} times"]

            return app.workflow(asking)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == ["PENDING", "recovered 0 times"]
            assert stage.run(handle.workflow_id)["executions"] == 2
            assert [row["function_name"] for row in stage.steps(handle.workflow_id)] == ["holdfast.status"] * 2

        Stage(venue).play(scene)

    def test_error_of_a_child_reaches_its_parent_and_can_be_caught(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            child = app.workflow(refuse)

            async def parent(*, catch: bool) -> str:
                try:
                    await child("not you")
                except PermissionError as error:
                    if catch:
                        return f"caught {error}"
                    raise
                return "nothing"

            flow = app.workflow(parent)
            async with app:
                assert await flow(catch=True) == "caught not you"
                with pytest.raises(PermissionError, match=r"^not you$"):
                    await flow(catch=False)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("how", ["direct", "started"])
    def test_parent_that_is_replayed_finds_the_child_that_ended(self, venue: Venue, how: str) -> None:
        ran: list[int] = []

        def build(app: App, life: Life) -> Flow:
            async def counted(number: int) -> int:
                ran.append(number)
                return number * 2

            child = app.workflow(counted)

            async def parent() -> int:
                handle = None if how == "direct" else await child.start(4)
                found: int = await child(4) if handle is None else await handle.result()
                await life()
                return found

            return app.workflow(parent)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == 8
            assert ran == [4]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("how", ["direct", "started"])
    def test_parent_and_child_that_are_lost_together_both_go_on(self, venue: Venue, how: str) -> None:
        ran: list[str] = []

        def build(app: App, life: Life) -> Flow:
            async def note(text: str) -> str:
                ran.append(text)
                return text

            step = app.step(note)

            async def young() -> str:
                first = await step("first")
                await life()
                return f"{first} {await step('second')}"

            child = app.workflow(young)

            async def parent() -> str:
                before = await step("before")
                handle = None if how == "direct" else await child.start()
                found = await child() if handle is None else await handle.result()
                return f"{before} {found} {await step('after')}"

            return app.workflow(parent)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == "before first second after"
            assert ran == ["before", "first", "second", "after"]

        Stage(venue).play(scene)

    def test_child_with_an_id_of_its_own_attaches_or_conflicts_live_and_on_replay(self, venue: Venue) -> None:
        mark = secrets.token_hex(8)
        seen: list[Any] = []

        def build(app: App, life: Life) -> Flow:
            child = app.workflow(double)

            async def parent() -> None:
                chosen = child.options(workflow_id=f"{mark}-child")
                seen.append([await chosen(1), await (await chosen.start(1)).result()])
                try:
                    await chosen.start(2)
                except WorkflowConflict as error:
                    seen.append(str(error))
                existing = await chosen.options(on_conflict="return_existing").start(2)
                seen.append(await existing.result())
                await life()

            return app.workflow(parent)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            await handle.result()
            assert len(seen) == 6
            assert seen[:3] == seen[3:]
            assert seen[0] == [2, 2]
            assert "other arguments" in seen[1]
            assert seen[2] == 2

        Stage(venue).play(scene)

    def test_child_that_is_not_waited_for_any_more_goes_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, ids = stage.app(), stage.gate(), list[str]()

            async def slow() -> str:
                ids.append(app.raw.workflow_id)
                await gate()
                return "done"

            child = app.workflow(slow)

            async def parent() -> str:
                try:
                    found: str = await app.timeout(1, child)
                except TimeoutError:
                    return "too late"
                return found

            flow = app.workflow(parent)
            async with app:
                while not ids:  # on a busy machine the child may not have begun in time
                    assert await flow() == "too late"
                gate.open()
                assert await app.retrieve(ids[0]).result() == "done"

        Stage(venue).play(scene)

    def test_waiting_with_a_limit_in_a_workflow_is_the_same_on_replay(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def slow() -> str:
                await gate()
                return "done"

            child = app.workflow(slow)

            async def parent() -> str:
                handle = await child.start()
                try:
                    found: str = await handle.result(timeout=0.02)
                except TimeoutError:
                    found = "too late"
                gate.open()
                await handle.result(timeout=None)
                await life()
                return found

            return app.workflow(parent)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == "too late"

        stage = Stage(venue)
        gate = stage.gate()
        stage.play(scene)

    def test_many_generations_run_inside_each_other(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(max_workflow_threads=2)

            async def descend(depth: int) -> int:
                if depth == 0:
                    return 0
                below: int = await flow(depth - 1)
                return below + 1

            flow = app.workflow(descend)
            async with app:
                assert await flow(8) == 8

        Stage(venue).play(scene)

    def test_run_that_would_wait_for_itself_is_told(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def again(depth: int, way: str) -> int:
                if way == "call":
                    called: int = await flow.options(workflow_id="r-1")(depth, way)
                    return called
                handle = await flow.options(workflow_id="r-1").start(depth, way)
                if way == "first":
                    await app.wait_first([handle])
                found: int = await handle.result(timeout=60 if way == "patient" else None)
                return found

            flow = app.workflow(again)
            async with app:
                for way in ("call", "result", "patient", "first"):
                    handle = await flow.options(workflow_id="r-1").start(1, way)
                    with pytest.raises(MisuseError, match="Run r-1 was to wait for its own result"):
                        await handle.result(timeout=20)
                    await app.do("delete_workflow", "r-1")

        Stage(venue).play(scene)
