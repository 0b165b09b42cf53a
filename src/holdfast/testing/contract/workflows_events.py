"""The contract of events: set once by workflows and steps, seen by everybody, with a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError, MisuseError
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_messages import HOUR, Order, names_of, refused
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


def history_of(stage: Stage, workflow_id: str) -> list[tuple[int, str, str]]:
    """Return position, key and value of all that a run has set."""
    rows = stage.rows(f"SELECT * FROM {stage.table('workflow_events_history')} WHERE workflow_uuid = ?", workflow_id)
    return sorted((row["function_id"], row["key"], row["value"]) for row in rows)


def watching(app: App, timeout: float | None = 60) -> Flow:
    """Return a workflow that waits for the event "status" of another run."""

    async def watch(workflow_id: str) -> Any:
        return await app.do("get_event", workflow_id, "status", timeout)

    return app.workflow(watch)


class EventsContract:
    """``set_event``, ``get_event`` and ``get_all_events``."""

    def test_event_has_the_value_that_was_set_last_and_all_are_in_its_history(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def progress() -> None:
                for part in ("begun", "half", "done"):
                    await app.do("set_event", "status", part)
                await app.do("set_event", "order", Order("nails", 3))

            flow = app.workflow(progress)
            async with app:
                handle = await flow.start()
                await handle.result()
                get = handle.workflow_id, "status"
                assert await app.do("get_event", *get) == "done"
                assert await app.do("get_event", handle.workflow_id, "order", type=Order) == Order("nails", 3)
                assert await app.do("get_event", handle.workflow_id, "order") == {"name": "nails", "count": 3}
                assert await app.do("get_all_events", handle.workflow_id) == {
                    "status": "done",
                    "order": {"name": "nails", "count": 3},
                }
            assert [each[:2] for each in history_of(stage, handle.workflow_id)] == [
                (1, "status"),
                (2, "status"),
                (3, "status"),
                (4, "order"),
            ]
            assert names_of(stage, handle.workflow_id) == ["holdfast.set_event"] * 4

        Stage(venue).play(scene)

    def test_event_that_is_not_set_is_none_when_the_time_is_over(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = watching(app, 0.05)
            async with app:
                assert await app.do("get_event", "nobody", "status", 0) is None
                assert await app.do("get_event", "nobody", "status", 0.02, type=Order) is None
                handle = await flow.start("nobody")
                assert await handle.result() is None
            assert names_of(stage, handle.workflow_id) == ["holdfast.get_event_timeout", "holdfast.get_event"]

        Stage(venue).play(scene)

    def test_whoever_waits_gets_an_event_when_it_is_set(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def setting() -> None:
                await gate()
                await app.do("set_event", "status", None)

            async def watch(workflow_id: str) -> Any:
                return [
                    await app.do("get_event", workflow_id, "status"),
                    await app.do("get_event", workflow_id, "x", 0),
                ]

            flow, watcher = app.workflow(setting), app.workflow(watch)
            async with app:
                handle = await flow.start()
                waiting = await watcher.start(handle.workflow_id)
                await stage.until(lambda: len(stage.steps(waiting.workflow_id)) == 1)
                gate.open()
                assert await waiting.result() == [None, None]
                names = names_of(stage, waiting.workflow_id)
                assert names == ["holdfast.get_event_timeout", "holdfast.get_event", "holdfast.get_event"]
                assert await app.do("get_all_events", handle.workflow_id) == {"status": None}

        Stage(venue).play(scene)

    def test_replay_gets_the_event_as_it_was(self, venue: Venue) -> None:
        seen: dict[int, list[Any]] = {}

        async def scene(stage: Stage) -> None:
            def build(app: App, life: Life) -> Flow:
                async def self_seen() -> None:
                    own = app.raw.workflow_id
                    await app.do("set_event", "status", 1)
                    first = await app.do("get_event", own, "status")
                    await app.do("set_event", "status", 2)
                    seen[life.number] = [first, await app.do("get_event", own, "none", 0.01)]
                    await life()
                    seen[3] = [await app.do("get_event", own, "status")]

                return app.workflow(self_seen)

            handle = await stage.relive(build)
            await handle.result()
            assert seen == {1: [1, None], 2: [1, None], 3: [2]}
            assert len(history_of(stage, handle.workflow_id)) == 2

        Stage(venue).play(scene)

    def test_time_of_get_event_goes_on_while_nobody_runs_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            first = stage.app()
            flow = watching(first, HOUR)
            await first.launch()
            handle = await flow.start("nobody")
            await stage.until(lambda: names_of(stage, handle.workflow_id) == ["holdfast.get_event_timeout"])
            await stage.crash(first)
            stage.set_clock(2 * HOUR)
            second = stage.app()
            watching(second, HOUR)
            await second.launch()
            assert await second.retrieve(handle.workflow_id).result() is None

        Stage(venue).play(scene)

    def test_step_sets_events_with_its_record_and_only_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tries = stage.app(), list[int]()

            async def shaky() -> None:
                tries.append(1)
                await app.do("set_event", "status", "begun")
                await app.do("set_event", "status", f"try {len(tries)}")
                assert await app.do("get_event", app.raw.workflow_id, "status", 0) is None
                if len(tries) < 3:
                    await app.do("set_event", "failed", True)
                    raise OSError("not yet")

            step = app.step(shaky, retry=Retry(attempts=3, interval=0))

            async def work() -> None:
                await step()

            flow = app.workflow(work)
            async with app:
                handle = await flow.start()
                await handle.result()
                assert await app.do("get_all_events", handle.workflow_id) == {"status": "try 3"}
            assert history_of(stage, handle.workflow_id) == [(1, "status", '"try 3"')]

        Stage(venue).play(scene)

    def test_branches_set_events_at_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def part() -> None:
                for number in range(5):
                    await app.do("set_event", "shared", number)

            async def several() -> None:
                await app.gather(part, part, part)

            flow = app.workflow(several)
            async with app:
                handle = await flow.start()
                await handle.result()
                assert await app.do("get_event", handle.workflow_id, "shared") == 4
            assert len(history_of(stage, handle.workflow_id)) == 15

        Stage(venue).play(scene)

    def test_set_event_belongs_in_a_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                assert isinstance(await refused(app.do("set_event", "status", 1)), MisuseError)
                assert isinstance(await refused(app.do("get_event", "run", "")), ConfigurationError)

        Stage(venue).play(scene)
