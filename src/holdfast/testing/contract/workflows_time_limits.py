"""The contract of parts of a workflow that may take only so long: the same on every replay, and over when they are."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from holdfast import Retry, faults
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.contract.workflows_streams_stage import values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Handle, Life

HOUR = 3600.0


async def double(number: int) -> int:
    return number * 2


async def _fail() -> None:
    raise ConnectionError("away")


class TimeLimitsContract:
    """``timeout`` inside a workflow."""

    def test_part_in_time_is_in_time_on_replay_however_late(self, venue: Venue) -> None:
        """The clock passes the end of the time between two lives: that the part was in time is in the record."""

        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def part() -> int:
                found: int = await step(4)
                return found

            async def limited() -> int:
                found: int = await app.timeout(3600, part)
                await life()
                return found

            return app.workflow(limited)

        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            handle = await stage.relive(build, between=lambda: stage.set_clock(7200))
            assert await handle.result() == 8

        Stage(venue).play(scene)

    def test_part_too_late_is_too_late_on_replay_however_fast(self, venue: Venue) -> None:
        texts: list[str] = []
        began: list[int] = []

        def build(app: App, life: Life) -> Flow:
            gate = stage.gate()

            async def part() -> str:
                began.append(life.number)
                if life.number == 1:
                    await gate()
                return "fast"

            async def limited() -> str:
                try:
                    found: str = await app.timeout(0.02, part)
                except TimeoutError as error:
                    texts.append(str(error))
                    found = "late"
                await life()
                return found

            return app.workflow(limited)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == "late"
            assert began == [1]
            assert len(texts) == 2
            assert texts[0] == texts[1]

        stage = Stage(venue)
        stage.play(scene)

    def test_time_that_is_over_waits_for_no_longer_limit_within(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def part() -> str:
                found: str = await app.timeout(3600, gate)
                return found

            async def limited() -> str:
                try:
                    found: str = await app.timeout(0.02, part)
                except TimeoutError:
                    found = "late"
                return found

            flow = app.workflow(limited)
            async with app:
                handle = await flow.start()
                try:
                    await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "SUCCESS")
                finally:
                    gate.open()
                assert await handle.result() == "late"

        Stage(venue).play(scene)

    def test_part_whose_time_is_over_records_nothing_more(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, after = stage.app(), stage.gate(), list[str]()

            async def slow() -> str:
                await gate()
                return "late"

            step, other = app.step(slow, name="slow"), app.step(double)

            async def part() -> None:
                try:
                    await step()
                    await other(1)
                except BaseException as error:  # seen and passed on
                    after.append(type(error).__name__)
                    raise

            async def limited() -> str:
                with pytest.raises(TimeoutError):
                    await app.timeout(0.02, part)
                gate.open()
                await stage.until(lambda: after)
                return "on time"

            flow = app.workflow(limited)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "on time"
                names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
                assert names == ["holdfast.timeout", "holdfast.timed_out"]
                assert after == ["CancelledError" if venue.colour is Colour.ASYNC else "PartOver"]

        Stage(venue).play(scene)

    def test_step_that_ends_well_after_the_end_of_its_time_records_and_says_nothing(self, venue: Venue) -> None:
        """It takes no notice of its cancellation, or is in a thread that cannot be cancelled."""

        async def scene(stage: Stage) -> None:
            app, gate, after = stage.app(), stage.gate(), list[str]()

            async def stubborn(workflow_id: str) -> str:
                await app.do("send", workflow_id, "too late")
                with suppress(asyncio.CancelledError):
                    await gate()
                return "done"

            step = app.step(stubborn)

            async def part() -> None:
                try:
                    await step(app.raw.workflow_id)
                except BaseException as error:  # seen and passed on
                    after.append(type(error).__name__)
                    raise

            async def limited() -> str | None:
                with pytest.raises(TimeoutError):
                    await app.timeout(0.02, part)
                gate.open()
                await stage.until(lambda: after)
                found: str | None = await app.do("recv", timeout=0)
                return found

            flow = app.workflow(limited)
            async with app:
                handle = await flow.start()
                assert await handle.result() is None
                assert "stubborn" not in {row["function_name"] for row in stage.steps(handle.workflow_id)}
                assert after == ["PartOver"]

        Stage(venue).play(scene)

    def test_message_that_a_part_takes_as_its_time_ends_is_not_lost(self, venue: Venue) -> None:
        """The commit by which it is received takes until after the end: it comes in time, or it is not received."""

        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def limited() -> str | None:
                await app.do("send", app.raw.workflow_id, "hello")
                # The next record is the end of the time; the commit after it is that of the message.
                faults.arm("step.recorded", lambda: faults.arm("pipeline.before_commit", partial(time.sleep, 0.2)))
                try:
                    found: str | None = await app.timeout(0.1, partial(app.do, "recv"))
                except TimeoutError:
                    found = await app.do("recv", timeout=0)
                return found

            flow = app.workflow(limited)
            try:
                async with app:
                    handle = await flow.start()
                    assert await handle.result() == "hello"
                    forked = await app.do("fork_workflow", handle.workflow_id, 10)
                    assert await app.value(forked.result()) == "hello"
            finally:
                faults.disarm()

        Stage(venue).play(scene)

    def test_part_that_gives_back_what_it_holds_as_its_time_ends_is_not_cut_off(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, told = stage.app(), asyncio.Queue[str]()
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def part() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    begun.set()
                    await go_on.wait()  # as the end of a connection is waited for
                    told.put_nowait("has given back")

            async def limited() -> None:
                await app.timeout(0.01, part)

            flow = app.workflow(limited)
            await app.launch()
            await flow.start()
            await begun.wait()
            await app.close()
            go_on.set()
            async with asyncio.timeout(PATIENCE):
                assert await told.get() == "has given back"

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            Stage(venue).play(scene)

    def test_time_limit_outside_a_workflow_is_a_plain_one(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            async with app:
                assert await app.timeout(30, partial(double, 2)) == 4
                with pytest.raises(TimeoutError):
                    await app.timeout(0.01, gate)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("wait", ["sleep", "recv", "get_event", "result", "wait_first", "read_stream", "retry"])
    def test_part_whose_time_is_over_waits_no_longer(self, venue: Venue, wait: str) -> None:
        """Nor does a step in it begin another attempt; no thread is left behind for as long as it would have waited."""

        async def scene(stage: Stage) -> None:
            app, gate, after = stage.app(), stage.gate(), list[str]()
            child = app.workflow(gate.__call__, name="lasting")
            step = app.step(_fail, retry=Retry(attempts=100, interval=HOUR))
            waits: dict[str, Callable[[Handle], Awaitable[object]]] = {
                "sleep": lambda _: app.do("sleep", HOUR),
                "recv": lambda _: app.do("recv", "topic", HOUR),
                "get_event": lambda other: app.do("get_event", other.workflow_id, "key", HOUR),
                "result": lambda other: other.result(),
                "wait_first": lambda other: app.wait_first([other]),
                "read_stream": lambda other: values(app, app.raw.read_stream(other.workflow_id, "nothing")),
                "retry": lambda _: step(),
            }

            async def part(other: Handle) -> None:
                try:
                    await waits[wait](other)
                except BaseException as error:  # seen and passed on
                    after.append(type(error).__name__)
                    raise

            async def limited() -> None:
                other = await child.start()
                with pytest.raises(TimeoutError):
                    await app.timeout(0.3, partial(part, other))
                await stage.until(lambda: after)

            flow = app.workflow(limited)
            async with app:
                await flow()
                gate.open()
            assert after == ["CancelledError" if venue.colour is Colour.ASYNC else "PartOver"]

        Stage(venue).play(scene)
