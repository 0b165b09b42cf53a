"""The contract of a single step: how it is tried again, how long it may take, and what is left of a late attempt."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import RecordedError, StepTimeout
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.workflows.operations.place import StepPlace, here

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


class Busy(Exception):
    """Worth another try."""


class Broken(Exception):
    """Not worth another try."""


def failing(app: App, errors: list[BaseException], tried: list[Any], **options: Any) -> Flow:
    """Return a workflow of one step that raises *errors* one after the other, and then succeeds."""

    async def attempt() -> str:
        tried.append(app.raw.step_id)
        if errors:
            raise errors.pop(0)
        return "done"

    step = app.step(attempt, **options)

    async def stepping() -> str:
        found: str = await step()
        return found

    return app.workflow(stepping)


class Final(BaseException):
    """No ``Exception``."""


class StepsContract:
    """Retries and timeouts."""

    def test_step_without_a_policy_is_tried_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[Any]()
            flow = failing(app, [Busy("first")], tried)
            async with app:
                with pytest.raises(Busy, match=r"^first$"):
                    await flow()
                assert tried == [1]

        Stage(venue).play(scene)

    def test_attempts_go_on_until_one_succeeds_and_only_that_is_recorded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[Any]()
            flow = failing(app, [Busy("1"), Busy("2")], tried, retry=Retry(attempts=5, interval=0))
            async with app:
                handle = await flow.start()
                assert await handle.result() == "done"
                assert tried == [1, 1, 1]
                (row,) = stage.steps(handle.workflow_id)
                assert (row["output"], row["error"], row["function_id"]) == ('"done"', None, 1)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("kind", [Final, SystemExit, asyncio.CancelledError])
    def test_what_is_no_exception_is_tried_again_recorded_and_raised_as_a_stand_in(
        self, venue: Venue, kind: type[BaseException]
    ) -> None:
        """Also a ``CancelledError`` that nobody's cancelling has caused, as of a task that the step has cancelled."""

        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[int]()

            async def attempt() -> None:
                tried.append(1)
                raise kind("no")

            step = app.step(attempt, retry=Retry(attempts=2, interval=0))

            async def stepping() -> str:
                try:
                    await step()
                except RecordedError as error:
                    return error.message
                return "did not fail"

            flow = app.workflow(stepping)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "no"
                assert len(tried) == 2
                (row,) = stage.steps(handle.workflow_id)
                assert kind.__name__ in row["error"]

        Stage(venue).play(scene)

    def test_error_of_the_last_attempt_is_recorded_and_raised(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[Any]()
            flow = failing(app, [Busy(str(n)) for n in range(9)], tried, retry=Retry(attempts=3, interval=0))
            async with app:
                handle = await flow.start()
                assert str(await handle.error()) == "2"
                assert len(tried) == 3
                (row,) = stage.steps(handle.workflow_id)
                assert '"message":"2"' in row["error"]

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        "policy",
        [
            Retry(attempts=9, interval=0, never=(Broken,)),
            Retry(attempts=9, interval=0, when=lambda error: isinstance(error, Busy)),
        ],
        ids=["never", "when"],
    )
    def test_error_that_is_final_is_not_tried_again(self, venue: Venue, policy: Retry) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[Any]()
            flow = failing(app, [Busy("again"), Broken("final"), Busy("never seen")], tried, retry=policy)
            async with app:
                with pytest.raises(Broken, match=r"^final$"):
                    await flow()
                assert len(tried) == 2

        Stage(venue).play(scene)

    def test_waits_grow_by_the_policy(self, venue: Venue) -> None:
        """The rows say how long the step took in all: at least its waits."""

        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[Any]()
            policy = Retry(attempts=4, interval=0.01, backoff=3, cap=0.04, jitter=0)
            flow = failing(app, [Busy("1"), Busy("2"), Busy("3")], tried, retry=policy)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "done"
                (row,) = stage.steps(handle.workflow_id)
                assert row["completed_at_epoch_ms"] - row["started_at_epoch_ms"] >= 79  # 10 + 30 + 40, and not 90

        Stage(venue).play(scene)

    def test_step_that_takes_too_long_fails_and_its_late_attempt_is_closed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            places: list[Any] = []

            async def slow() -> str:
                places.append(here.get())
                await gate()
                return "late"

            step = app.step(slow, timeout=0.03, name="slow")

            async def stepping() -> str:
                try:
                    found: str = await step()
                except StepTimeout as error:
                    return str(error)
                return found

            flow = app.workflow(stepping)
            async with app:
                handle = await flow.start()
                text = await handle.result()
                assert "'slow'" in text
                assert "0.03 s" in text
                await stage.until(lambda: places)  # a thread may begin when its time is over already
                (place,) = places
                assert isinstance(place, StepPlace)
                assert place.closed
                assert (place.position, place.attempt) == (1, 1)
                gate.open()
                (row,) = stage.steps(handle.workflow_id)
                assert row["output"] is None
                assert "StepTimeout" in row["error"]

        Stage(venue).play(scene)

    def test_each_attempt_has_its_own_time_and_its_own_place(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            places: list[Any] = []

            async def slow_at_first() -> str:
                places.append(here.get())
                if len(places) == 1:
                    await gate()
                return "in time"

            # A busy machine may take too long for the second attempt as well.
            step = app.step(slow_at_first, timeout=0.25, retry=Retry(attempts=100, interval=0))

            async def stepping() -> str:
                found: str = await step()
                return found

            flow = app.workflow(stepping)
            async with app:
                assert await flow() == "in time"
                assert len(places) > 1
                assert {(place.position, place.closed) for place in places} == {(1, True)}
                assert len({place.attempt for place in places}) == len(places)

        Stage(venue).play(scene)

    def test_timeout_error_of_the_step_itself_is_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def raises() -> None:
                raise TimeoutError("the dependency's")

            step = app.step(raises, timeout=30)

            async def stepping() -> None:
                await step()

            flow = app.workflow(stepping)
            async with app:
                error = await (await flow.start()).error()
                assert type(error) is TimeoutError
                assert str(error) == "the dependency's"

        Stage(venue).play(scene)

    def test_context_of_the_caller_reaches_the_step(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")

            async def whose() -> str:
                return tenant.get()

            steps = [app.step(whose, name="plain"), app.step(whose, name="timed", timeout=30)]

            async def stepping() -> list[str]:
                tenant.set("ann")
                return [await step() for step in steps]

            flow = app.workflow(stepping)
            async with app:
                assert await flow() == ["ann", "ann"]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("end", ["cancel_workflow", "close"])
    def test_wait_for_the_next_attempt_leaves_room_for_others_and_ends_with_the_run(
        self, venue: Venue, end: str
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, tried, left = stage.app(max_workflow_threads=1), list[Any](), list[str]()

            async def attempt() -> None:
                tried.append(app.raw.step_id)
                raise Busy("away")

            step = app.step(attempt, retry=Retry(attempts=2, interval=3600, jitter=0))

            async def stepping() -> None:
                try:
                    await step()
                finally:
                    left.append("left")

            async def quick() -> str:
                return "quick"

            flow, other = app.workflow(stepping), app.workflow(quick)
            await app.launch()
            handle = await flow.start()
            await stage.until(lambda: tried)
            assert await (await other.start()).result() == "quick"
            if end == "close":
                await app.close()
            else:
                await app.do(end, handle.workflow_id)
            await stage.until(lambda: left)
            assert tried == [1]

        Stage(venue).play(scene)
