"""The contract of claims that ride with an entry: a process at rest claims what it enqueues in the same commit."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_queue_stage import Line, results
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


class QueueRidesContract:
    """A ride is the claim that would have come next, and nothing else."""

    def test_what_a_process_at_rest_enqueues_is_claimed_in_the_same_commit(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register()
                rides = await _watched(line)
                before = _pipeline(line).commits
                while not rides:
                    await _at_rest(line)
                    before = _pipeline(line).commits
                    handles = await line.enqueue(1)
                row = stage.run(handles[-1].workflow_id)
                assert (row["status"], row["executions"]) == ("PENDING", 1)
                assert _pipeline(line).commits == before + 1
                gate.open()
                assert await results(handles) == [1]

        Stage(venue).play(scene)

    def test_queue_that_was_paused_or_limited_meanwhile_gives_nothing_to_a_ride(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            queues = stage.table("queues")
            async with line.app:
                await line.register()
                rides = await _watched(line)
                for change, back in (("paused = TRUE", "paused = FALSE"), ("concurrency = 0", "concurrency = NULL")):
                    rides.clear()
                    while not rides:
                        await _at_rest(line)
                        stage.execute(f"UPDATE {queues} SET {change} WHERE name = ?", line.name)
                        handles = await line.enqueue(1)
                        assert stage.run(handles[0].workflow_id)["status"] == "ENQUEUED"
                        stage.execute(f"UPDATE {queues} SET {back} WHERE name = ?", line.name)
                        assert await results(handles) == [1]

        Stage(venue).play(scene)

    def test_run_that_was_claimed_with_its_entry_begins_though_its_caller_was_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            if stage.colour is Colour.SYNC:
                return  # a thread cannot be cancelled
            line = Line(stage)
            async with line.app:
                await line.register()
                rides = await _watched(line)
                while not rides:
                    await _at_rest(line)
                    caller = asyncio.ensure_future(line.enqueue(1))
                    await asyncio.sleep(0)  # it has handed its entry over, and waits for the commit
                    caller.cancel()
                    await asyncio.wait([caller])
                await stage.until(lambda: line.rows() and not line.rows("ENQUEUED") and not line.rows("PENDING"))
                assert {row["executions"] for row in line.rows("SUCCESS")} == {1}

        Stage(venue).play(scene)

    def test_what_a_ride_may_claim_counts_for_the_limit_of_the_process(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(worker_concurrency=1)
                rides = await _watched(line)
                engine = line.app.raw._engine  # noqa: SLF001 -- as below
                while not rides:
                    await _at_rest(line)
                    engine.dispatch.ride(line.name)
                handles = await line.enqueue(1)
                await line.nothing_more_begins()
                assert (line.began, len(line.rows("ENQUEUED"))) == ([], 1)
                engine.on_loop(partial(rides[0].end, rides[0], []))
                assert await results(handles) == [1]

        Stage(venue).play(scene)

    def test_application_that_ends_sees_to_the_claim_that_rides(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register()
                rides = await _watched(line)
                handles = await line.enqueue(1)
                while not rides:
                    await results(handles)
                    await _at_rest(line)
                    handles = await line.enqueue(1)
            rows = line.rows()
            assert {row["status"] for row in rows} <= {"SUCCESS", "ENQUEUED"}
            assert all(row["owner_xid"] is None for row in rows if row["status"] == "ENQUEUED")

        Stage(venue).play(scene)


async def _watched(line: Line) -> list[Any]:
    """Return the list of the rides that are given from now on."""
    dispatch = line.app.raw._engine.dispatch  # noqa: SLF001 -- a ride is not part of anybody's interface
    rides: list[Any] = []
    real = dispatch.ride

    def ride(queue_name: str | None) -> Any:
        given = real(queue_name)
        if given is not None:
            rides.append(given)
        return given

    dispatch.ride = ride
    await line.stage.until(lambda: dispatch.queue(line.name) is not None)
    return rides


async def _at_rest(line: Line) -> None:
    """Wait until the dispatcher waits, with nothing to look at."""
    dispatch = line.app.raw._engine.dispatch  # noqa: SLF001 -- as above
    await line.stage.until(lambda: dispatch._waits)  # noqa: SLF001 -- as above


def _pipeline(line: Line) -> Any:
    return line.app.raw._engine.pipeline  # noqa: SLF001 -- as above
