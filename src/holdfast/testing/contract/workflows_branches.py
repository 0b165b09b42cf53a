"""The contract of parts that run side by side, and of time limits: the same on every replay, whatever the latencies."""

from __future__ import annotations

import asyncio
import itertools
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.errors import MisuseError
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


async def double(number: int) -> int:
    return number * 2


def void(_: object) -> None:
    """Forget what a call gave."""


def _compare_lives(delivered: dict[tuple[int, str], list[int]], recorded: set[int]) -> None:
    """See that each chain of the second life began with what the same chain had recorded in the first."""
    for (life, name), live in delivered.items():
        if life == 1:
            kept = [number for number in live if number in recorded]
            assert kept
            assert delivered[2, name][: len(kept)] == kept
    again = [numbers for (life, _), numbers in delivered.items() if life == 2]
    assert sorted(itertools.chain(*again)) == sorted(recorded)


class BranchesContract:
    """``gather``, ``timeout``, ``wait_first`` and ``wait_all`` inside a workflow."""

    @pytest.mark.parametrize("verb", ["gather", "at_once"])
    def test_parts_have_their_own_places_and_results_come_in_order(self, venue: Venue, verb: str) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step = app.step(double)

            async def chain(number: int) -> list[int]:
                return [await step(number), await step(number + 10)]

            async def both() -> list[Any]:
                return [await getattr(app, verb)(partial(chain, 1), partial(chain, 2)), await step(3)]

            flow = app.workflow(both)
            async with app:
                handle = await flow.start()
                assert await handle.result() == [[[2, 22], [4, 24]], 6]
                identities = {row["identity"]: row["output"] for row in stage.steps(handle.workflow_id)}
                assert identities == {"~0.0": "2", "~0.1": "22", "~1.0": "4", "~1.1": "24", "0": "6"}
                assert [row["function_id"] for row in stage.steps(handle.workflow_id)] == [1, 2, 3, 4, 5]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("verb", ["gather", "at_once"])
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_chains_replay_as_they_ran_whatever_the_latencies(self, venue: Venue, verb: str, seed: int) -> None:
        """Each step draws the next number of one sequence, so that a record given to another chain would show."""
        numbers = itertools.count()
        delivered: dict[tuple[int, str], list[int]] = {}
        stage = Stage(venue)

        async def draw() -> int:
            return next(numbers)

        def build(app: App, life: Life) -> Flow:
            step = app.step(draw)
            latency = random.Random(seed * 10 + life.number)  # noqa: S311 -- to be repeatable is the point

            async def chain(name: str, *, inner: bool) -> list[Any]:
                mine = delivered.setdefault((life.number, name), [])
                for turn in range(4):
                    mine.append(await step())
                    await stage.pause(latency.random() * 0.004)
                    if turn == 1 and inner:
                        await getattr(app, verb)(*(partial(chain, f"{name}/{n}", inner=False) for n in range(2)))
                    if turn == 2 and name == "1":
                        await life()
                return mine

            async def weave() -> list[Any]:
                found: list[Any] = await getattr(app, verb)(*(partial(chain, str(n), inner=n == 0) for n in range(4)))
                return found

            return app.workflow(weave)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == [delivered[2, str(n)] for n in range(4)]
            recorded = {int(row["output"]) for row in stage.steps(handle.workflow_id)}
            _compare_lives(delivered, recorded)

        stage.play(scene)

    def test_all_parts_end_and_the_error_of_the_first_is_raised(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, ended = stage.app(), list[str]()

            async def part(name: str, seconds: float) -> str:
                await stage.pause(seconds)
                ended.append(name)
                if name != "fine":
                    raise ValueError(name)
                return name

            step = app.step(part)

            async def parts() -> list[Any]:
                return await app.gather(partial(step, "a", 0.03), partial(step, "b", 0.0), partial(step, "fine", 0.02))

            flow = app.workflow(parts)
            async with app:
                with pytest.raises(ValueError, match=r"^a$"):
                    await flow()
                assert sorted(ended) == ["a", "b", "fine"]

        Stage(venue).play(scene)

    def test_parts_may_return_what_cannot_be_compared(self, venue: Venue) -> None:
        class Array:
            """Answers ``==`` with what is neither true nor false, as arrays and expressions do."""

            __hash__ = None  # type: ignore[assignment]

            def __eq__(self, _: object) -> Any:
                return self

            def __bool__(self) -> bool:
                raise ValueError("The truth value of an array is ambiguous.")

        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def measure() -> Array:
                return Array()

            async def measuring() -> list[str]:
                found = [*await app.gather(measure, measure), await app.timeout(60, measure)]
                return [type(each).__name__ for each in found]

            flow = app.workflow(measuring)
            async with app:
                assert await flow() == ["Array"] * 3

        Stage(venue).play(scene)

    def test_gather_outside_a_workflow_just_runs_side_by_side(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            assert await app.gather(partial(double, 1), partial(double, 2)) == [2, 4]
            assert await app.gather() == []

        Stage(venue).play(scene)

    def test_wait_first_and_wait_all(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def runner(number: int) -> int:
                if number == 0:
                    await gate()
                return number

            flow = app.workflow(runner)
            async with app:
                handles = [await flow.start(number) for number in range(2)]
                assert await app.wait_first(handles) == 1
                gate.open()
                assert await app.wait_all(handles) == [0, 1]
                assert await app.wait_all([]) == []
                with pytest.raises(MisuseError, match="wait_first"):
                    await app.wait_first([])

        Stage(venue).play(scene)

    def test_steps_that_wait_for_runs_leave_room_for_these(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(max_workflow_threads=1)
            child = app.workflow(double)

            async def ask(number: int) -> Any:
                return await app.wait_all([await child.start(number)])

            step = app.step(ask)

            async def parent(number: int) -> Any:
                return await step(number)

            flow = app.workflow(parent)
            async with app:
                handles = [await flow.start(number) for number in range(2)]
                assert await app.wait_all(handles) == [[0], [2]]

        Stage(venue).play(scene)

    def test_wait_first_is_the_same_on_replay(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def runner(number: int) -> int:
                if number == 0:
                    await gate()
                return number

            child = app.workflow(runner)

            async def racing() -> list[Any]:
                handles = [await child.start(number) for number in range(2)]
                first = await app.wait_first(handles)
                gate.open()
                all_ = await app.wait_all(handles)
                await life()
                return [first, all_]

            return app.workflow(racing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == [1, [0, 1]]

        stage = Stage(venue)
        gate = stage.gate()
        stage.play(scene)

    def test_cancelling_an_awaiter_waits_for_the_record_and_delivers_it(self, venue: Venue) -> None:
        """The time is over while the record is being committed: the workflow gets what the record says."""

        async def scene(stage: Stage) -> None:
            app, scopes = stage.app(), list[asyncio.Timeout]()
            loop = asyncio.get_running_loop()

            async def last_moment() -> str:
                faults.arm("pipeline.before_commit", lambda: void(loop.call_soon_threadsafe(expire)))
                return "recorded"

            def expire() -> None:
                scopes[0].reschedule(loop.time() - 1)

            step, other = app.step(last_moment), app.step(double)

            async def limited() -> list[Any]:
                async with asyncio.timeout(None) as scope:
                    scopes.append(scope)
                    found = await step()
                return [found, scope.expired(), await other(2)]

            flow = app.workflow(limited)
            async with app:
                handle = await flow.start()
                assert await handle.result() == ["recorded", True, 4]
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ['"recorded"', "4"]

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            try:
                Stage(venue).play(scene)
            finally:
                faults.disarm()

    @pytest.mark.parametrize("limited", [False, True])
    def test_cancelled_task_stops_at_its_next_operation(self, venue: Venue, limited: bool) -> None:
        """Also if what is being recorded is that a part with a time limit came in time."""

        async def scene(stage: Stage) -> None:
            app, tasks, ran = stage.app(), list[asyncio.Task[Any]](), list[str]()
            loop = asyncio.get_running_loop()

            async def last_moment() -> str:
                faults.arm("pipeline.before_commit", lambda: void(loop.call_soon_threadsafe(tasks[0].cancel)))
                return "recorded"

            async def never() -> None:
                ran.append("never")

            step, second = app.step(last_moment), app.step(never)

            async def chain() -> None:
                ran.append(await app.timeout(3600, last_moment) if limited else await step())
                await second()

            async def cancelling() -> bool:
                tasks.append(asyncio.create_task(chain()))
                await asyncio.wait(tasks)
                return tasks[0].cancelled()

            flow = app.workflow(cancelling)
            async with app:
                assert await flow() is True
                assert ran == ["recorded"]

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            try:
                Stage(venue).play(scene)
            finally:
                faults.disarm()

    def test_task_that_is_cancelled_before_it_waits_for_a_record_stops_at_its_next_operation(
        self, venue: Venue
    ) -> None:
        """What is asked of a task while it runs is raised when it waits next: for the record of its step."""

        async def scene(stage: Stage) -> None:
            app, tasks, ran = stage.app(), list[asyncio.Task[Any]](), list[int]()
            step = app.step(double)

            async def chain() -> None:
                tasks[0].cancel()
                ran.append(await step(1))
                ran.append(await step(2))

            async def cancelling() -> bool:
                tasks.append(asyncio.create_task(chain()))
                await asyncio.wait(tasks)
                return tasks[0].cancelled()

            flow = app.workflow(cancelling)
            async with app:
                handle = await flow.start()
                assert await handle.result() is True
                assert ran == [2]
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ["2"]

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            Stage(venue).play(scene)

    @pytest.mark.parametrize("verb", ["sleep", "recv", "timeout", "gather"])
    def test_task_that_is_cancelled_while_it_records_does_not_begin_to_wait(self, venue: Venue, verb: str) -> None:
        """A part of a TaskGroup that fails ends the others, also one that is about to wait for an hour."""

        async def scene(stage: Stage) -> None:
            app, tasks = stage.app(), list[asyncio.Task[Any]]()

            async def wait() -> None:
                tasks[0].cancel()
                if verb == "sleep":
                    await app.raw.sleep(3600)
                elif verb == "recv":
                    await app.raw.recv(timeout=3600)
                elif verb == "timeout":
                    await app.raw.timeout(3600, asyncio.sleep(3600))
                else:
                    await app.raw.uuid()
                    await app.raw.gather(asyncio.sleep(3600), asyncio.sleep(3600))

            async def cancelling() -> bool:
                tasks.append(asyncio.create_task(wait()))
                await asyncio.wait(tasks)
                return tasks[0].cancelled()

            flow = app.workflow(cancelling)
            async with app:
                handle = await flow.start()
                assert await handle.result() is True

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            Stage(venue).play(scene)
