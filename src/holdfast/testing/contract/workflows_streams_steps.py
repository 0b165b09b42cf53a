"""The contract of streams that steps write: one attempt, one voice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import AttemptOver, MisuseError, StreamClosed
from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.contract.workflows_streams_stage import aside, following, rows, values
from holdfast.workflows.streams import StreamReset

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class StreamsOfStepsContract:
    """Writing from steps: one attempt, one voice."""

    def test_step_that_is_tried_again_has_written_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[int]()

            async def attempt() -> str:
                tried.append(len(tried))
                await app.do("write_stream", "s", f"attempt {len(tried)}")
                await app.do("write_stream", "s", "more")
                if len(tried) < 3:
                    raise ValueError("again")
                await app.do("close_stream", "s")
                return "done"

            step = app.step(attempt, retry=Retry(attempts=5, interval=0))

            async def flow() -> str:
                found: str = await step()
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                assert await handle.result() == "done"
                found = rows(stage, handle.workflow_id, "s")
                assert [row["value"] for row in found] == ['"attempt 3"', '"more"', "__HOLDFAST_STREAM_CLOSED__"]
                assert {row["function_id"] for row in found} == {1}

        Stage(venue).play(scene)

    def test_step_that_fails_for_good_has_written_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def attempt() -> None:
                await app.do("write_stream", "s", "lost")
                await app.do("write_stream", "live", "seen", live=True)
                raise ValueError("for good")

            step = app.step(attempt)

            async def flow() -> None:
                await step()

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                assert str(await handle.error()) == "for good"
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {}
                reader = app.raw.read_stream(handle.workflow_id, "live", timeout=PATIENCE, resets=True)
                assert await values(app, reader) == [StreamReset(0)]

        Stage(venue).play(scene)

    def test_write_behind_the_end_fails_the_step(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def late() -> str:
                await app.do("write_stream", "other", 1)
                await app.do("write_stream", "s", 1)
                return "done"

            step = app.step(late)

            async def flow() -> str:
                await app.do("close_stream", "s")
                found: str = await step()
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                assert isinstance(await handle.error(), StreamClosed)
                assert "StreamClosed" in stage.steps(handle.workflow_id)[1]["error"]
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {}

        Stage(venue).play(scene)

    def test_live_values_are_seen_before_the_record_and_reset_when_the_step_is_tried_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gates, tried = stage.app(), [stage.gate(), stage.gate()], list[int]()

            async def attempt() -> str:
                tried.append(len(tried))
                number = len(tried)
                await app.do("write_stream", "s", f"{number} a", live=True)
                await gates[number - 1]()
                await app.do("write_stream", "s", f"{number} b", live=True)
                if number == 1:
                    raise ValueError("again")
                return "done"

            step = app.step(attempt, retry=Retry(attempts=2, interval=0))

            async def flow() -> str:
                found: str = await step()
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                reader = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE, resets=True)
                assert await following(app, reader) == "1 a"
                assert stage.steps(handle.workflow_id) == []
                gates[0].open()
                found = [await following(app, reader)]
                while found[-1] != "2 a":
                    found.append(await following(app, reader))
                assert found[-2:] == [StreamReset(0), "2 a"]  # "1 b" may have come and gone unseen
                gates[1].open()
                assert await values(app, reader) == ["2 b"]
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"s": ["2 a", "2 b"]}
                quiet = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE)
                assert await values(app, quiet) == ["2 a", "2 b"]
                left = f"SELECT * FROM {stage.table('stream_attempts')} WHERE workflow_uuid = ?"
                assert stage.rows(left, handle.workflow_id) == []

        Stage(venue).play(scene)

    def test_live_values_of_a_lost_execution_are_reset(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def speaks() -> str:
                if life.number == 1:
                    await app.do("write_stream", "s", "lost", live=True)
                    await life()
                await app.do("write_stream", "t", "kept")
                return "done"

            step = app.step(speaks)

            async def flow() -> str:
                await app.do("write_stream", "s", "before")
                found: str = await step()
                return found

            return app.workflow(flow)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == "done"
            app = stage.app()
            async with app:
                everything = await app.do("get_all_stream_entries", handle.workflow_id)
                assert everything == {"s": ["before"], "t": ["kept"]}
                reader = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE, resets=True)
                assert await values(app, reader) == ["before", StreamReset(1)]

        Stage(venue).play(scene)

    def test_code_that_its_attempt_left_behind_can_say_nothing(self, venue: Venue) -> None:
        """A sync step leaves a thread behind, an async one a task; both find that the attempt is over."""

        async def scene(stage: Stage) -> None:
            app = stage.app()
            refused: list[str] = []
            going_on: list[object] = []
            gate = stage.gate()

            async def outlives(**how: bool) -> None:
                await gate()
                try:
                    await app.do("write_stream", "s", "late", **how)
                except AttemptOver as error:
                    refused.append(str(error))

            async def speaks() -> str:
                await app.do("write_stream", "s", "in time")
                going_on.append(aside(app, outlives))
                going_on.append(aside(app, lambda: outlives(live=True)))
                return "done"

            step = app.step(speaks)

            async def flow() -> str:
                found: str = await step()
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                assert await handle.result() == "done"
                gate.open()
                await stage.until(lambda: len(refused) == 2)
                assert all(f"Attempt 1 of operation 0 of run {handle.workflow_id}" in each for each in refused)
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"s": ["in time"]}

        Stage(venue).play(scene)

    def test_attempt_that_timed_out_has_no_say(self, venue: Venue) -> None:
        """An async attempt is interrupted. A sync one goes on in its thread, and is refused while the next runs."""

        async def scene(stage: Stage) -> None:
            app, late = stage.app(), stage.gate()
            tried: list[int] = []
            refused: list[BaseException] = []

            async def speaks() -> str:
                tried.append(len(tried))
                if len(tried) > 1:
                    await app.do("write_stream", "s", "in time", live=True)
                    return "done"
                await app.do("write_stream", "s", "first", live=True)
                await late()
                try:
                    await app.do("write_stream", "s", "late", live=True)
                except AttemptOver as error:
                    refused.append(error)
                return "late"

            step = app.step(speaks, timeout=0.3, retry=Retry(attempts=100, interval=0))

            async def flow() -> str:
                found: str = await step()
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                await stage.until(lambda: len(tried) > 1)
                late.open()
                assert await handle.result() == "done"
                await stage.until(lambda: refused or app.colour is Colour.ASYNC)
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"s": ["in time"]}

        Stage(venue).play(scene)

    def test_step_writes_more_than_a_statement_takes_or_a_reader_holds(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def talks() -> None:
                for n in range(1250):
                    await app.do("write_stream", "s", n)

            step = app.step(talks)

            async def flow() -> None:
                await step()

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                await handle.result()
                reader = app.raw.read_stream(handle.workflow_id, "s", offset=5, timeout=PATIENCE)
                assert await values(app, reader) == list(range(5, 1250))
                assert reader.offset == 1250

        Stage(venue).play(scene)

    def test_transaction_writes_to_no_stream(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def says(tx: Any) -> str:
                await app.do("write_stream", "s", str(tx))
                return "said"

            transaction = app.raw.transaction(app.coloured(says))

            async def flow() -> str:
                found: str = await app.value(transaction())
                return found

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                assert isinstance(await handle.error(), MisuseError)
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {}

        Stage(venue).play(scene)
