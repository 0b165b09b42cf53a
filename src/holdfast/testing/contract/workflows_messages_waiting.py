"""The contract of waiting for messages and events: woken here at once, elsewhere by a hint or a poll; or put away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.db import DialectName, SyncConnectionManager
from holdfast.errors import WorkflowCancelled
from holdfast.testing.contract.workflows_events import watching
from holdfast.testing.contract.workflows_messages import HOUR, collecting, messages_to
from holdfast.testing.contract.workflows_parking import SOON, is_put_away, pass_time, waits_of
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate

ALONE: dict[str, Any] = {**SOON, "notify": False}


@contextmanager
def message_on_its_way(stage: Stage, workflow_id: str, text: str) -> Iterator[None]:
    """Send a message with plain SQL, as nobody tells of it; it is committed at the end of the block."""
    counters, messages = stage.table("message_counters"), stage.table("notifications")
    with SyncConnectionManager(stage.url, pool_size=1) as manager, manager.transaction() as transaction:
        transaction.execute(f"UPDATE {counters} SET last_sequence = 99 WHERE workflow_uuid = ?", workflow_id)
        transaction.execute(
            f"INSERT INTO {messages} (message_uuid, destination_uuid, topic, message, created_at_epoch_ms, "
            "serialization, sequence) VALUES (?, ?, '__null__topic__', ?, 1, 'portable_json', 99)",
            f"by-hand-{workflow_id}",
            workflow_id,
            text,
        )
        yield


def setting(app: App, gate: Gate) -> Flow:
    """Return a workflow that sets the event "status" when the gate is open."""

    async def set_status() -> None:
        await gate()
        await app.do("set_event", "status", "there")

    return app.workflow(set_status)


class WaitingContract:
    """Who waits, and how they are woken."""

    def test_run_that_waits_for_a_message_is_put_away_and_woken_by_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(**SOON)
            flow = collecting(app, 1, "x")
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                row, [wait] = stage.run(handle.workflow_id), waits_of(stage, handle.workflow_id)
                assert (row["wait_kind"], row["owner_xid"]) == ("message", None)
                assert row["delay_until_epoch_ms"] == int(stage.steps(handle.workflow_id)[0]["output"])
                assert (wait["awaited_uuid"], wait["awaited_key"]) == (handle.workflow_id, "x")
                await app.do("send", handle.workflow_id, "other", "y")
                await app.do("send", handle.workflow_id, "this", "x")
                assert await handle.result() == ["this"]
                await stage.until(lambda: not waits_of(stage, handle.workflow_id))

        Stage(venue).play(scene)

    def test_runs_that_wait_for_an_event_are_put_away_and_woken_by_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(**SOON), stage.gate()
            flow, watcher = setting(app, gate), watching(app, None)
            async with app:
                handle = await flow.start()
                waiting = [await watcher.start(handle.workflow_id) for _ in range(2)]
                for each in waiting:
                    await is_put_away(stage, app, each.workflow_id)
                    assert stage.run(each.workflow_id)["wait_kind"] == "event"
                gate.open()
                assert [await each.result() for each in waiting] == ["there", "there"]

        Stage(venue).play(scene)

    def test_run_whose_time_is_over_while_it_is_put_away_goes_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app = stage.app(**SOON)
            flow = collecting(app, 1, timeout=HOUR)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, HOUR)
                assert await handle.result() == [None]
            assert stage.run(handle.workflow_id)["executions"] >= 2

        Stage(venue).play(scene)

    def test_message_that_nobody_tells_of_costs_a_poll_and_no_more(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(**ALONE)
            flow = collecting(app, 2, timeout=None)
            async with app:
                handle = await flow.start()
                await app.do("send", handle.workflow_id, 1)
                await is_put_away(stage, app, handle.workflow_id)
                with message_on_its_way(stage, handle.workflow_id, "2"):
                    pass
                assert await handle.result() == [1, 2]

        Stage(venue).play(scene)

    def test_run_that_is_put_away_while_a_message_is_being_committed_gets_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(**ALONE)
            flow = collecting(app, 2, timeout=None)
            async with app:
                handle = await flow.start()
                await app.do("send", handle.workflow_id, 1)
                await stage.until(lambda: stage.steps(handle.workflow_id))
                with message_on_its_way(stage, handle.workflow_id, "2"):
                    if stage.dialect is DialectName.SQLITE:
                        await stage.pause(0.3)  # its one writer is the sender: the run waits to be put away
                    else:
                        await is_put_away(stage, app, handle.workflow_id)
                assert await handle.result() == [1, 2]

        Stage(venue).play(scene)

    def test_run_is_woken_by_what_comes_first_to_one_of_its_branches(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app = stage.app(**SOON)

            async def event() -> Any:
                return await app.do("get_event", "nobody", "status", HOUR)

            async def message() -> Any:
                return await app.do("recv")

            async def either() -> list[Any]:
                return await app.gather(event, message)

            flow = app.workflow(either)
            async with app:
                handle = await flow.start()
                await is_put_away(stage, app, handle.workflow_id)
                assert {wait["wait_kind"] for wait in waits_of(stage, handle.workflow_id)} == {"event", "message"}
                await app.do("send", handle.workflow_id, "here")
                await stage.until(lambda: messages_to(stage, handle.workflow_id)[0]["consumed"])
                await is_put_away(stage, app, handle.workflow_id)
                pass_time(stage, app, HOUR)
                assert await handle.result() == [None, "here"]

        Stage(venue).play(scene)

    def test_messages_and_events_reach_other_processes_with_hints_and_without(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            for notify in (True, False):
                here, there, gate = stage.app(notify=notify), stage.app(notify=notify), stage.gate()
                flow, watcher = setting(here, gate), collecting(here, 1)
                setting(there, gate)
                collecting(there, 1)
                async with here, there:
                    handle = await watcher.start()
                    await there.do("send", handle.workflow_id, "from there")
                    assert await handle.result() == ["from there"]
                    source = await flow.start()
                    await gate.reached()
                    gate.open()
                    assert await there.do("get_event", source.workflow_id, "status") == "there"

        Stage(venue).play(scene)

    def test_application_that_is_closed_hands_over_who_waits(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            first, second = stage.app(), stage.app()
            flow = collecting(first, 1)
            collecting(second, 1)
            await first.launch()
            handle = await flow.start()
            await stage.until(lambda: stage.steps(handle.workflow_id))
            await first.close()
            async with second:
                await second.do("send", handle.workflow_id, 1)
                assert await second.retrieve(handle.workflow_id).result() == [1]

        Stage(venue).play(scene)

    def test_run_that_waits_for_a_message_can_be_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 1)
            async with app:
                handle = await flow.start()
                await stage.until(lambda: stage.steps(handle.workflow_id))
                await app.do("cancel_workflow", handle.workflow_id)
                assert isinstance(await handle.error(), WorkflowCancelled)
                await stage.until(lambda: not app.raw._engine.communication.bells.waiting)  # noqa: SLF001 -- who waits
                await app.do("send", handle.workflow_id, 1)
            [message] = messages_to(stage, handle.workflow_id)
            assert not message["consumed"]

        Stage(venue).play(scene)

    def test_recv_whose_part_of_the_workflow_is_over_takes_no_message(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def receive() -> Any:
                return await app.do("recv", None, None)

            async def impatient() -> list[Any]:
                try:
                    got = await app.timeout(0.05, receive)
                except TimeoutError:
                    got = "nothing"
                await app.do("set_event", "over", True)
                return [got, await app.do("recv")]

            flow = app.workflow(impatient)
            async with app:
                handle = await flow.start()
                assert await app.do("get_event", handle.workflow_id, "over")
                await app.do("send", handle.workflow_id, "late")
                assert await handle.result() == ["nothing", "late"]

        Stage(venue).play(scene)
