"""The contract of messages and events of runs that go back, are copied, moved and deleted; and of clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.client import AsyncClient, Client
from holdfast.errors import WorkflowNotFound
from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_events import history_of
from holdfast.testing.contract.workflows_messages import HOUR, Order, collecting, messages_to, refused
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.workflows.messaging import Message

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate


def conversing(app: App, gate: Gate) -> Flow:
    """Return a workflow of six operations: when the gate is open it sets, receives, and sets again, twice."""

    async def converse() -> list[Any]:
        await gate()
        await app.do("set_event", "status", "begun")
        first = await app.do("recv", None, 0)
        await app.do("set_event", "status", f"got {first}")
        await app.do("set_event", "late", True)
        second = await app.do("recv", None, 0)
        await app.do("set_event", "status", f"got {second}")
        return [first, second]

    return app.workflow(converse)


async def conversed(stage: Stage, app: App) -> str:
    """Run the conversation, with three messages that are there before it begins; return the id of its run."""
    gate = stage.gate()
    flow = conversing(app, gate)
    await app.launch()
    handle = await flow.start()
    await app.do("send_many", [Message(handle.workflow_id, each) for each in ("a", "b", "c")])
    gate.open()
    assert await handle.result() == ["a", "b"]
    return handle.workflow_id


class GoingBackContract:
    """Rewind, retry, fork, delete, export and import; and what clients can do."""

    def test_run_that_has_the_id_of_a_deleted_one_sends_messages_of_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            receive = collecting(app, 2)

            async def say(to: str, word: str) -> None:
                await app.do("send", to, word)

            flow = app.workflow(say)
            async with app:
                receiver = await receive.start()
                sender = f"{stage.version}-sender"
                for word in ("first", "second"):
                    await (await flow.options(workflow_id=sender).start(receiver.workflow_id, word)).result()
                    await app.do("delete_workflow", sender)
                assert await receiver.result() == ["first", "second"]

        Stage(venue).play(scene)

    def test_rewound_run_receives_again_what_it_had_received_and_forgets_what_it_had_set(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            run_id = await conversed(stage, app)
            assert await app.do("get_all_events", run_id) == {"status": "got b", "late": True}
            async with app:
                await app.do("rewind_workflow", run_id, 4)
                assert await app.retrieve(run_id).result() == ["a", "b"]
                assert [each["consumed_by_function_id"] for each in messages_to(stage, run_id)] == [2, 5, None]
            history = history_of(stage, run_id)
            assert [each[:2] for each in history] == [(1, "status"), (3, "status"), (4, "late"), (6, "status")]

        Stage(venue).play(scene)

    def test_events_of_a_rewound_run_are_those_before_the_step(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            run_id = await conversed(stage, app)
            await app.close()
            other = stage.app(application_version="nobody's")
            async with other:
                await other.do("rewind_workflow", run_id, 4)
                assert await other.do("get_all_events", run_id) == {"status": "got a"}
                kept = await other.do("get_all_notifications", run_id)
                assert [each.consumed for each in kept] == [True, False, False]

        Stage(venue).play(scene)

    def test_workflow_that_is_tried_again_receives_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tries = stage.app(), list[int]()

            async def fail_once() -> None:
                tries.append(1)
                if len(tries) == 1:
                    raise OSError("not yet")

            step = app.step(fail_once)

            async def part() -> None:
                await app.do("set_event", "status", "got")
                await step()

            async def work() -> list[Any]:
                first = await app.do("recv")
                await part()
                return [first, await app.do("recv", timeout=0)]

            flow = app.workflow(work, retry=Retry(attempts=2, interval=0))
            async with app:
                handle = await flow.start()
                await app.do("send_many", [Message(handle.workflow_id, each) for each in (1, 2)])
                assert await handle.result() == [1, 2]
            assert len(tries) == 2
            assert all(row["consumed"] for row in messages_to(stage, handle.workflow_id))

        Stage(venue).play(scene)

    def test_wait_with_a_time_limit_that_is_gone_back_to_has_its_time_anew(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app = stage.app(put_away_after=0.05)

            async def wait() -> list[Any]:
                return [await app.do("recv", "t", timeout=HOUR), await app.do("get_event", "nobody", "k", timeout=HOUR)]

            def ends(workflow_id: str) -> list[str]:
                found = [row for row in stage.steps(workflow_id) if row["function_name"].endswith("_timeout")]
                return [row["output"] for row in found]

            async def passes(workflow_id: str, hours: int, known: int) -> None:
                await stage.until(lambda: len(ends(workflow_id)) > known)
                stage.set_clock(hours * (HOUR + 1))
                app.raw._engine.work_released()  # noqa: SLF001 -- a look is not part of anybody's interface

            flow = app.workflow(wait, name="wait")
            async with app:
                handle = await flow.start()
                await passes(handle.workflow_id, 1, 0)
                await passes(handle.workflow_id, 2, 1)
                assert await handle.result() == [None, None]
                before = ends(handle.workflow_id)
                positions = {row["function_name"]: row["function_id"] for row in stage.steps(handle.workflow_id)}
                fork = await app.do("fork_workflow", handle.workflow_id, positions["holdfast.get_event"])
                await passes(fork.workflow_id, 3, 1)
                assert await app.retrieve(fork.workflow_id).result() == [None, None]
                first, second = ends(fork.workflow_id)
                assert first == before[0]
                assert second > before[1]
                await app.do("rewind_workflow", handle.workflow_id, positions["holdfast.recv"])
                await stage.until(lambda: ends(handle.workflow_id) > before)
                await app.do("send", handle.workflow_id, "at last", "t")
                await passes(handle.workflow_id, 4, 1)
                assert await handle.result() == ["at last", None]

        Stage(venue).play(scene)

    def test_fork_has_the_events_before_its_step_and_no_messages(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            run_id = await conversed(stage, app)
            async with app:
                fork = await app.do("fork_workflow", run_id, 5)
                assert await app.value(fork.result(timeout=60)) == ["a", None]
                events = await app.do("get_all_events", fork.workflow_id)
                assert events == {"status": "got None", "late": True}
                assert await app.do("get_all_notifications", fork.workflow_id) == []
                assert await app.do("get_all_events", run_id) == {"status": "got b", "late": True}
            copied = [each[:2] for each in history_of(stage, fork.workflow_id)]
            assert copied == [(1, "status"), (3, "status"), (4, "late"), (6, "status")]

        Stage(venue).play(scene)

    def test_deleted_run_leaves_no_message_and_no_event(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            run_id = await conversed(stage, app)
            async with app:
                await app.do("delete_workflow", run_id)
                assert isinstance(await refused(app.do("get_all_events", run_id)), WorkflowNotFound)
                assert isinstance(await refused(app.do("get_all_notifications", run_id)), WorkflowNotFound)
                assert isinstance(await refused(app.do("send", run_id, 1)), WorkflowNotFound)
            assert (messages_to(stage, run_id), history_of(stage, run_id)) == ([], [])
            for table in ("workflow_events", "message_counters"):
                assert stage.rows(f"SELECT * FROM {stage.table(table)} WHERE workflow_uuid = ?", run_id) == []

        Stage(venue).play(scene)

    def test_run_is_moved_with_its_messages_and_events(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            run_id = await conversed(stage, app)
            async with app:
                document = await app.do("export_workflow", run_id)
                moved = (await app.do("import_workflow", document, workflow_id=f"{run_id}-moved")).workflow_id
                for verb in ("get_all_events", "get_all_notifications"):
                    assert await app.do(verb, moved) == await app.do(verb, run_id)
                assert history_of(stage, moved) == history_of(stage, run_id)
                await app.do("send", moved, "next")
                assert [each["sequence"] for each in messages_to(stage, moved)] == [1, 2, 3, 4]

        Stage(venue).play(scene)

    def test_event_that_branches_have_set_in_another_order_than_they_began_is_restored_as_it_was(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def late() -> None:
                await gate()
                await app.do("set_event", "status", "set last")

            async def soon() -> None:
                await gate.reached()
                await app.do("set_event", "status", "set first")

            steps = [app.step(late), app.step(soon)]

            async def second() -> None:
                await steps[1]()
                gate.open()

            async def both() -> None:
                await app.gather(steps[0], second)
                await app.do("set_event", "other", 1)

            flow = app.workflow(both)
            async with app:
                handle = await flow.start()
                await handle.result()
                run_id = handle.workflow_id
                assert [each[:2] for each in history_of(stage, run_id)] == [(1, "status"), (2, "status"), (3, "other")]
                was = {"status": "set last", "other": 1}
                assert await app.do("get_all_events", run_id) == was
                document = await app.do("export_workflow", run_id)
                moved = (await app.do("import_workflow", document, workflow_id=f"{run_id}-moved")).workflow_id
                assert await app.do("get_all_events", moved) == was
                fork = await app.do("fork_workflow", run_id, 3)
                await app.value(fork.result(timeout=60))
                assert await app.do("get_all_events", fork.workflow_id) == was
                rewound = await app.do("rewind_workflow", run_id, 3)
                await app.value(rewound.result(timeout=60))
                assert await app.do("get_all_events", run_id) == was

        Stage(venue).play(scene)

    def test_client_sends_and_waits_for_events(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def answer() -> None:
                order = await app.do("recv", type=Order)
                await gate()
                await app.do("set_event", "order", order)

            flow, idle = app.workflow(answer), collecting(app, 0)
            async with app:
                handle, ended = await flow.start(), await idle.start()
                await ended.result()
                client: Any = (AsyncClient if stage.colour is Colour.ASYNC else Client)(stage.url)
                await app.value(client.open())
                try:
                    await app.value(client.send(handle.workflow_id, Order("nails", 3), idempotency_key=stage.version))
                    await app.value(client.send(handle.workflow_id, Order("nails", 4), idempotency_key=stage.version))
                    error = await refused(_awaited(stage, client, "nobody"))
                    assert isinstance(error, WorkflowNotFound)
                    await gate.reached()
                    assert await app.value(client.get_event(handle.workflow_id, "order", 0)) is None
                    gate.open()
                    found = await app.value(client.get_event(handle.workflow_id, "order", type=Order))
                    assert found == Order("nails", 3)
                    both = [Message(ended.workflow_id, each) for each in (1, 2)]
                    await app.value(client.send_many(both))
                    kept = await app.value(client.get_all_notifications(ended.workflow_id))
                    assert [each.message for each in kept] == [1, 2]
                    events = await app.value(client.get_all_events(handle.workflow_id))
                    assert events == {"order": {"name": "nails", "count": 3}}
                finally:
                    await app.value(client.close())

        Stage(venue).play(scene)


async def _awaited(stage: Stage, client: Any, workflow_id: str) -> None:
    made = client.send(workflow_id, 1)
    if stage.colour is Colour.ASYNC:
        await made
    else:
        assert not asyncio.iscoroutine(made)
