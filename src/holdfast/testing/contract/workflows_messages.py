"""The contract of messages: in order, received once, kept; from workflows, from steps and from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError, MisuseError
from holdfast.testing.contract.workflows_stage import Life, Stage
from holdfast.workflows.messaging import Message

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow

HOUR = 3600.0


@dataclass(frozen=True)
class Order:
    """Something to be sent."""

    name: str
    count: int


def collecting(app: App, count: int, topic: str | None = None, timeout: float | None = 60) -> Flow:
    """Return a workflow that receives *count* messages and returns them."""

    async def collect() -> list[Any]:
        return [await app.do("recv", topic, timeout) for _ in range(count)]

    return app.workflow(collect)


def messages_to(stage: Stage, workflow_id: str) -> list[dict[str, Any]]:
    """Return the rows of all messages to a run in their order."""
    table = stage.table("notifications")
    return stage.rows(f"SELECT * FROM {table} WHERE destination_uuid = ? ORDER BY sequence", workflow_id)


def names_of(stage: Stage, workflow_id: str) -> list[str]:
    """Return what a run has recorded."""
    return [row["function_name"] for row in stage.steps(workflow_id)]


class MessagesContract:
    """What ``recv`` gets: in order, by topic, as the type that is asked for, and the same on replay."""

    def test_messages_come_in_the_order_in_which_they_were_sent_and_are_kept(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 5)
            async with app:
                handle = await flow.start()
                for number in range(3):
                    await app.do("send", handle.workflow_id, number)
                await app.do("send_many", [Message(handle.workflow_id, each) for each in ("x", None)])
                assert await handle.result() == [0, 1, 2, "x", None]
                kept = await app.do("get_all_notifications", handle.workflow_id)
                assert [(each.topic, each.message, each.consumed) for each in kept] == [
                    (None, each, True) for each in (0, 1, 2, "x", None)
                ]
            rows = messages_to(stage, handle.workflow_id)
            assert {row["topic"] for row in rows} == {"__null__topic__"}
            assert [row["sequence"] for row in rows] == sorted({row["sequence"] for row in rows})
            positions = [row["function_id"] for row in stage.steps(handle.workflow_id)]
            assert {row["consumed_by_function_id"] for row in rows} <= set(positions)

        Stage(venue).play(scene)

    def test_topics_are_received_apart(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def two() -> list[Any]:
                return [await app.do("recv", "b"), await app.do("recv"), await app.do("recv", "a", 0)]

            flow = app.workflow(two)
            async with app:
                handle = await flow.start()
                await app.do("send", handle.workflow_id, "none")
                await app.do("send", handle.workflow_id, "second", "c")
                await app.do("send", handle.workflow_id, "first", "b")
                assert await handle.result() == ["first", "none", None]
                kept = await app.do("get_all_notifications", handle.workflow_id)
                assert [(each.topic, each.consumed) for each in kept] == [(None, True), ("c", False), ("b", True)]

        Stage(venue).play(scene)

    def test_message_comes_back_as_the_type_that_is_asked_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, seen = stage.app(), list[Any]()

            async def typed() -> None:
                seen.append(await app.do("recv", type=Order))
                seen.append(await app.do("recv"))
                seen.append(await app.do("recv", timeout=0, type=Order))

            flow = app.workflow(typed)
            async with app:
                handle = await flow.start()
                await app.do("send", handle.workflow_id, Order("nails", 100))
                await app.do("send", handle.workflow_id, Order("nails", 100))
                await handle.result()
            assert seen == [Order("nails", 100), {"name": "nails", "count": 100}, None]

        Stage(venue).play(scene)

    def test_recv_without_a_message_gives_none_when_its_time_is_over(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def patient() -> list[Any]:
                return [await app.do("recv", "x", 0.05), await app.do("recv", "x", 0), await app.do("recv", "x")]

            flow = app.workflow(patient)
            async with app:
                handle = await flow.start()
                await stage.until(lambda: len(stage.steps(handle.workflow_id)) == 4)  # the last one waits
                await app.do("send", handle.workflow_id, "late", "x")
                assert await handle.result() == [None, None, "late"]
            assert names_of(stage, handle.workflow_id) == [
                "holdfast.recv_timeout",
                "holdfast.recv",
                "holdfast.recv",
                "holdfast.recv_timeout",
                "holdfast.recv",
            ]

        Stage(venue).play(scene)

    def test_recv_without_a_timeout_waits_for_ever_and_records_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = collecting(app, 1, timeout=None)
            async with app:
                handle = await flow.start()
                await stage.pause(0.1)
                await app.do("send", handle.workflow_id, 1)
                assert await handle.result() == [1]
            assert names_of(stage, handle.workflow_id) == ["holdfast.recv"]

        Stage(venue).play(scene)

    def test_time_of_recv_goes_on_while_nobody_runs_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            first = stage.app()
            flow = collecting(first, 1, timeout=HOUR)
            await first.launch()
            handle = await flow.start()
            await stage.until(lambda: names_of(stage, handle.workflow_id) == ["holdfast.recv_timeout"])
            await stage.crash(first)
            stage.set_clock(2 * HOUR)
            second = stage.app()
            collecting(second, 1, timeout=HOUR)
            await second.launch()
            assert await second.retrieve(handle.workflow_id).result() == [None]

        Stage(venue).play(scene)

    def test_recv_that_was_interrupted_goes_on_to_wait(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            first = stage.app()
            flow = collecting(first, 2)
            await first.launch()
            handle = await flow.start()
            await first.do("send", handle.workflow_id, "early")
            await stage.until(
                lambda: names_of(stage, handle.workflow_id)[-2:] == ["holdfast.recv", "holdfast.recv_timeout"]
            )
            await stage.crash(first)
            second = stage.app()
            collecting(second, 2)
            await second.launch()
            await second.do("send", handle.workflow_id, "late")
            assert await second.retrieve(handle.workflow_id).result() == ["early", "late"]

        Stage(venue).play(scene)

    def test_replay_gets_the_same_messages_and_then_the_next(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            def build(app: App, life: Life) -> Flow:
                async def talk() -> list[Any]:
                    for number in range(4):
                        await app.do("send", app.raw.workflow_id, number)
                    got = [await app.do("recv") for _ in range(2)]
                    await life()
                    return got + [await app.do("recv") for _ in range(2)]

                return app.workflow(talk)

            handle = await stage.relive(build)
            assert await handle.result() == [0, 1, 2, 3]
            rows = messages_to(stage, handle.workflow_id)
            assert [row["message"] for row in rows] == ["0", "1", "2", "3"]
            assert [row["consumed_by_function_id"] for row in rows] == [5, 6, 7, 8]

        Stage(venue).play(scene)

    def test_branches_that_receive_at_once_get_different_messages_and_the_same_on_replay(self, venue: Venue) -> None:
        seen: dict[int, list[Any]] = {}

        async def scene(stage: Stage) -> None:
            def build(app: App, life: Life) -> Flow:
                async def part() -> list[Any]:
                    return [await app.do("recv") for _ in range(2)]

                async def both() -> None:
                    seen[life.number] = await app.gather(part, part, part)
                    await life()

                return app.workflow(both)

            gate = stage.gate()
            first = stage.app()
            flow = build(first, Life(1, gate))
            await first.launch()
            handle = await flow.start()
            for number in range(6):
                await first.do("send", handle.workflow_id, number)
            await gate.reached()
            await stage.crash(first)
            second = stage.app()
            build(second, Life(2))
            await second.launch()
            await second.retrieve(handle.workflow_id).result()
            assert seen[1] == seen[2]
            assert sorted(each for part in seen[1] for each in part) == list(range(6))
            assert all(part == sorted(part) for part in seen[1])

        Stage(venue).play(scene)

    def test_recv_belongs_in_a_workflow(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def receive() -> str:
                return str(await refused(app.do("recv")))

            step = app.step(receive)

            async def talk() -> str:
                found: str = await step()
                return found

            flow = app.workflow(talk)
            async with app:
                assert isinstance(await refused(app.do("recv")), MisuseError)
                assert "in a step" in await flow()

        Stage(venue).play(scene)

    def test_names_that_no_database_keeps_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                for topic in ("", "x" * 256, "a\0b", "__null__topic__"):
                    assert isinstance(await refused(app.do("send", "run", 1, topic)), ConfigurationError)
                assert isinstance(await refused(app.do("send", "run", 1, idempotency_key="")), ConfigurationError)
                await app.do("send_many", [])

        Stage(venue).play(scene)


async def refused(call: Any) -> BaseException:
    """Return the error that a call raises."""
    try:
        await call
    except Exception as error:  # noqa: BLE001 -- what a test looks at
        return error
    raise AssertionError("It was not refused.")
