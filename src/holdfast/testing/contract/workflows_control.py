"""The contract of what is done to runs: cancel, resume, delete and attributes, through an application."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, TransitionRefused, WorkflowCancelled, WorkflowNotFound
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate, Life


def family(stage: Stage, parent: str) -> list[str]:
    """Return the ids of the children of a run."""
    rows = stage.rows(
        f"SELECT workflow_uuid FROM {stage.table('workflow_status')} WHERE parent_workflow_id = ?", parent
    )
    return sorted(row["workflow_uuid"] for row in rows)


def two_steps(app: App, gate: Gate, ran: list[str]) -> Flow:
    """Return a workflow that waits at *gate* between two steps."""

    async def note(text: str) -> str:
        ran.append(text)
        return text

    step = app.step(note)

    async def stopping() -> str:
        first = await step("first")
        await gate()
        return f"{first} {await step('second')}"

    return app.workflow(stopping)


def parent_of_one(app: App, gate: Gate) -> Flow:
    """Return a workflow with a child that waits at *gate*."""

    async def slow() -> str:
        await gate()
        return "done"

    child = app.workflow(slow)

    async def parent() -> str:
        found: str = await child()
        return found

    return app.workflow(parent)


class ControlContract:
    """What an application does to runs, its own and others'."""

    def test_cancelled_run_tells_whoever_waits_and_goes_on_after_resume_where_it_stopped(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, ran = stage.app(), stage.gate(), list[str]()
            flow = two_steps(app, gate, ran)
            async with app:
                handle = await flow.start()

                async def cancel() -> None:
                    await gate.reached()
                    await app.do("cancel_workflow", handle.workflow_id)

                told = list[BaseException]()

                async def wait() -> None:
                    told.append(await handle.error())

                await app.at_once(wait, cancel)
                assert isinstance(told[0], WorkflowCancelled)
                assert handle.workflow_id in str(told[0])
                assert stage.run(handle.workflow_id)["status"] == "CANCELLED"
                gate.open()
                resumed = Handle(app, await app.do("resume_workflow", handle.workflow_id))
                assert await resumed.result() == "first second"
                assert ran.count("first") == 1
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ['"first"', '"second"']

        Stage(venue).play(scene)

    def test_many_are_cancelled_and_go_on_in_the_queue_they_are_resumed_into(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, ran = stage.app(), stage.gate(), list[str]()
            flow = two_steps(app, gate, ran)
            async with app:
                handles = [await flow.start() for _ in range(2)]
                ids = tuple(handle.workflow_id for handle in handles)
                assert (await app.do("cancel_workflows", ids)).changed == ids
                gate.open()
                queue = f"resumed-{stage.version}"
                where = {"queue_name": queue, "queue_partition_key": "tenant"}
                assert (await app.do("resume_workflows", ids, **where)).changed == ids
                rows = [stage.run(each) for each in ids]
                assert [(row["queue_name"], row["queue_partition_key"]) for row in rows] == [(queue, "tenant")] * 2
                await app.do("register_queue", queue)
                assert [await handle.result() for handle in handles] == ["first second"] * 2

        Stage(venue).play(scene)

    def test_cancel_from_another_application_reaches_the_run_and_its_children(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other, gate = stage.app(), stage.app(), stage.gate()
            flow = parent_of_one(app, gate)
            async with app, other:
                handle = await flow.start()
                await gate.reached()
                [young] = family(stage, handle.workflow_id)
                await other.do("cancel_workflow", handle.workflow_id)
                for each in (handle.workflow_id, young):
                    assert isinstance(await app.retrieve(each).error(), WorkflowCancelled)
                    assert isinstance(await other.retrieve(each).error(), WorkflowCancelled)
                gate.open()
                assert [stage.run(each)["status"] for each in (handle.workflow_id, young)] == ["CANCELLED"] * 2

        Stage(venue).play(scene)

    def test_resume_brings_back_the_children_that_were_cancelled_with_their_parent(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = parent_of_one(app, gate)
            async with app:
                handle = await flow.start()
                await gate.reached()
                await app.do("cancel_workflow", handle.workflow_id)
                gate.open()
                assert await Handle(app, await app.do("resume_workflow", handle.workflow_id)).result() == "done"
                [young] = family(stage, handle.workflow_id)
                assert stage.run(young)["status"] == "SUCCESS"

        Stage(venue).play(scene)

    def test_cancel_can_leave_the_children(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def slow() -> str:
                await gate()
                return "done"

            child = app.workflow(slow)

            async def parent() -> str:
                handle = await child.start()
                found: str = await handle.result(timeout=None)
                return found

            flow = app.workflow(parent)
            async with app:
                handle = await flow.start()
                await gate.reached()
                [young] = family(stage, handle.workflow_id)
                await app.do("cancel_workflow", handle.workflow_id, cancel_children=False)
                gate.open()
                assert await app.retrieve(young).result() == "done"
                assert isinstance(await handle.error(), WorkflowCancelled)

        Stage(venue).play(scene)

    def test_refusals_name_the_run_and_what_to_do(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            gate.open()
            flow = two_steps(app, gate, [])
            async with app:
                handle = await flow.start()
                await handle.result()
                ended = handle.workflow_id
                for verb in ("cancel_workflow", "resume_workflow", "set_workflow_delay"):
                    more = {"delay": 1} if verb == "set_workflow_delay" else {}
                    told = f"is refused for run {ended}: it is SUCCESS"
                    with pytest.raises(TransitionRefused, match=told) as refused:
                        await app.do(verb, ended, **more)
                    assert (refused.value.workflow_id, refused.value.status) == (ended, "SUCCESS")
                for verb in ("cancel_workflow", "resume_workflow", "rewind_workflow", "delete_workflow"):
                    with pytest.raises(WorkflowNotFound, match="nobody"):
                        await app.do(verb, "nobody")
                changes = await app.do("delete_workflows", ["nobody", ended])
                assert changes.changed == (ended,)
                assert list(changes.refused) == ["nobody"]

        Stage(venue).play(scene)

    def test_deleted_run_is_not_there_for_waiters_and_its_id_is_free(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other, gate, ran = stage.app(), stage.app(), stage.gate(), list[str]()
            flow = two_steps(app, gate, ran)
            two_steps(other, gate, ran)
            chosen = f"deleted-{secrets.token_hex(8)}"
            async with app, other:
                await flow.options(workflow_id=chosen).start()

                async def end() -> None:
                    await gate.reached()
                    with pytest.raises(TransitionRefused, match="PENDING"):
                        await app.do("delete_workflow", chosen)
                    await app.do("cancel_workflow", chosen)
                    await app.do("delete_workflow", chosen)

                told = list[BaseException]()

                async def wait() -> None:
                    told.append(await other.retrieve(chosen).error())

                await other.at_once(wait, end)
                # Whoever looked between the two was told of the first.
                assert isinstance(told[0], WorkflowCancelled | WorkflowNotFound)
                assert isinstance(await other.retrieve(chosen).error(), WorkflowNotFound)
                assert stage.steps(chosen) == []
                gate.open()
                again = await flow.options(workflow_id=chosen).start()
                assert await again.result() == "first second"
                assert ran.count("first") == 2

        Stage(venue).play(scene)

    def test_child_cannot_be_deleted_while_its_parent_may_ask_for_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def young() -> int:
                return 1

            child = app.workflow(young)

            async def parent() -> int:
                handle = await child.start()
                await gate()
                found: int = await handle.result()
                return found

            flow = app.workflow(parent)
            async with app:
                handle = await flow.start()
                await gate.reached()
                [only] = family(stage, handle.workflow_id)
                await app.retrieve(only).result()
                with pytest.raises(TransitionRefused, match=f"its parent {handle.workflow_id} is PENDING"):
                    await app.do("delete_workflow", only)
                gate.open()
                assert await handle.result() == 1
                await app.do("delete_workflow", handle.workflow_id, delete_children=True)
                for each in (only, handle.workflow_id):
                    assert isinstance(await app.retrieve(each).error(), WorkflowNotFound)

        Stage(venue).play(scene)

    def test_child_cannot_be_deleted_while_a_fork_of_its_parent_may_ask_for_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"queue-{secrets.token_hex(8)}"

            async def young() -> int:
                return 1

            child = app.workflow(young)

            async def parent() -> int:
                handle = await child.start()
                found: int = await handle.result()
                return found

            flow = app.workflow(parent)
            async with app:
                handle = await flow.start()
                assert await handle.result() == 1
                [only] = family(stage, handle.workflow_id)
                fork = await app.do("fork_workflow", handle.workflow_id, 2, queue_name=queue)
                needed = f"{only} is in the record of {fork.workflow_id}, which has not ended"
                with pytest.raises(TransitionRefused, match=needed):
                    await app.do("delete_workflow", only)
                with pytest.raises(TransitionRefused, match=needed):
                    await app.do("delete_workflow", handle.workflow_id, delete_children=True)
                await app.do("delete_workflow", handle.workflow_id)
                await app.do("register_queue", queue)
                assert await app.retrieve(fork.workflow_id).result() == 1
                await app.do("delete_workflow", only)

        Stage(venue).play(scene)

    def test_attributes_of_a_run_are_replaced_and_merged(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = two_steps(app, gate, [])
            async with app:
                handle = await flow.options(attributes={"a": 1}).start()
                await gate.reached()
                run = handle.workflow_id
                await app.do("update_workflow_attributes", run, {"b": {"c": 2}}, merge=True)
                assert (await app.do("get_workflow", run)).attributes == {"a": 1, "b": {"c": 2}}
                await app.do("update_workflow_attributes", run, {"a": None}, merge=True)
                with pytest.raises(ConfigurationError, match="attributes are names and their values"):
                    await app.do("update_workflow_attributes", run, ["a"])
                gate.open()
                assert await handle.result() == "first second"
                assert (await app.do("get_workflow", run)).attributes == {"b": {"c": 2}}
                await app.do("update_workflow_attributes", run, None)
                assert (await app.do("get_workflow", run)).attributes is None

        Stage(venue).play(scene)

    def test_workflow_that_changes_another_run_does_so_once_however_often_it_is_replayed(self, venue: Venue) -> None:
        mark = secrets.token_hex(8)

        def build(app: App, life: Life) -> Flow:
            async def young() -> str:
                return "ended"

            child = app.workflow(young)

            async def rewinding() -> list[str]:
                other = child.options(workflow_id=f"{mark}-other")
                said = [await other()]
                await app.do("rewind_workflow", f"{mark}-other")
                await life()
                try:
                    await app.do("cancel_workflow", "nobody")
                except WorkflowNotFound as error:
                    said.append(type(error).__name__)
                return said

            return app.workflow(rewinding)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == ["ended", "WorkflowNotFound"]
            assert stage.run(f"{mark}-other")["generation"] == 1
            names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
            assert names[2:] == ["holdfast.rewind_workflow", "holdfast.cancel_workflow"]

        Stage(venue).play(scene)
