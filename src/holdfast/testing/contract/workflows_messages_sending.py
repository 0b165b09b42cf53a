"""Sending messages to runs, on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import MessageConflict, WorkflowNotFound
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_messages import collecting, messages_to, names_of, refused
from holdfast.testing.contract.workflows_stage import Life, Stage
from holdfast.workflows.messaging import Message

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


class SendingContract:
    """A message is sent once, to a run that is there, by whoever sends it."""

    def test_same_key_sends_once_whoever_uses_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app()
            flow = collecting(app, 2)
            key = f"key-{stage.version}"
            async with app, other:
                handle = await flow.start()
                await app.do("send", handle.workflow_id, 1, idempotency_key=key)
                await app.do("send", handle.workflow_id, 2, idempotency_key=key)
                await other.do("send", handle.workflow_id, 3, idempotency_key=key)
                await other.do("send_many", [Message(handle.workflow_id, each, None, f"{key}-2") for each in (4, 5)])
                assert await handle.result() == [1, 4]
            assert [row["message_uuid"] for row in messages_to(stage, handle.workflow_id)] == [key, f"{key}-2"]

        Stage(venue).play(scene)

    def test_key_of_a_message_to_another_run_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 1)
            async with app:
                one, two = await flow.start(), await flow.start()
                await app.do("send", one.workflow_id, 1, idempotency_key=f"key-{stage.version}")
                wanted = [Message(two.workflow_id, 2), Message(two.workflow_id, 3, None, f"key-{stage.version}")]
                error = await refused(app.do("send_many", wanted))
                assert isinstance(error, MessageConflict)
                assert one.workflow_id in str(error)
                assert messages_to(stage, two.workflow_id) == []
                await app.do("send", two.workflow_id, 4)
                assert [await one.result(), await two.result()] == [[1], [4]]

        Stage(venue).play(scene)

    def test_message_to_a_run_that_is_not_there_is_refused_and_so_are_all_sent_with_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 1, timeout=0)

            async def careless(destination: str) -> str:
                try:
                    await app.do("send", "nobody", 1)
                except WorkflowNotFound as error:
                    await app.do("send", destination, 2)
                    return str(error)
                return "sent"

            sender = app.workflow(careless)
            async with app:
                handle = await flow.start()
                await handle.result()
                error = await refused(app.do("send", "nobody", 1))
                assert isinstance(error, WorkflowNotFound)
                assert "'nobody'" in str(error)
                both = [Message(handle.workflow_id, 1), Message("nobody", 2)]
                assert isinstance(await refused(app.do("send_many", both)), WorkflowNotFound)
                assert messages_to(stage, handle.workflow_id) == []
                assert "'nobody'" in await sender(handle.workflow_id)
                assert len(messages_to(stage, handle.workflow_id)) == 1

        Stage(venue).play(scene)

    def test_message_to_a_run_that_has_ended_is_kept(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 0)
            async with app:
                handle = await flow.start()
                await handle.result()
                await app.do("send", handle.workflow_id, "too late")
                [kept] = await app.do("get_all_notifications", handle.workflow_id)
                assert (kept.message, kept.consumed) == ("too late", False)
                assert kept.created_at_epoch_ms > 0

        Stage(venue).play(scene)

    def test_workflow_sends_once_however_often_it_is_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            target = stage.app()
            flow = collecting(target, 0)
            async with target:
                handle = await flow.start()
                await handle.result()
            destination = handle.workflow_id

            def build(app: App, life: Life) -> Flow:
                collecting(app, 0)

                async def talk() -> None:
                    await app.do("send", destination, 1)
                    await app.do("send_many", [Message(destination, 2), Message(destination, 3)])
                    await life()
                    await app.do("send", destination, 4)

                return app.workflow(talk)

            await (await stage.relive(build)).result()
            rows = messages_to(stage, destination)
            assert [row["message"] for row in rows] == ["1", "2", "3", "4"]

        Stage(venue).play(scene)

    def test_step_that_is_tried_again_has_sent_once_when_it_succeeds(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tries = stage.app(), list[int]()
            flow = collecting(app, 2)

            async def shaky(destination: str) -> None:
                tries.append(1)
                await app.do("send", destination, f"try {len(tries)}")
                assert messages_to(stage, destination) == []  # nothing before the record
                if len(tries) < 3:
                    raise OSError("not yet")
                await app.do("send", destination, "and more")

            step = app.step(shaky, retry=Retry(attempts=3, interval=0))

            async def talk(destination: str) -> None:
                await step(destination)

            sender = app.workflow(talk)
            async with app:
                handle = await flow.start()
                await sender(handle.workflow_id)
                assert await handle.result() == ["try 3", "and more"]

        Stage(venue).play(scene)

    def test_step_that_sends_to_nobody_fails_for_good(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def careless() -> None:
                await app.do("send", "nobody", 1)

            step = app.step(careless)

            async def talk() -> None:
                await step()

            flow = app.workflow(talk)
            async with app:
                handle = await flow.start()
                assert isinstance(await handle.error(), WorkflowNotFound)
                assert names_of(stage, handle.workflow_id) == [step.raw.definition.name]

        Stage(venue).play(scene)
