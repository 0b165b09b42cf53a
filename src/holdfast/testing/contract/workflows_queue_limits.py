"""The contract of limits: how many runs leave a queue, and each of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import faults
from holdfast.errors import Retryable
from holdfast.testing.contract.workflows_queue_stage import LONG, Line, results
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


class QueueLimitsContract:
    """I8: no claim takes a queue above a limit."""

    def test_concurrency_holds_over_all_processes(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            other = Line(stage, gate, line.name)
            async with line.app, other.app:
                await line.register(concurrency=3)
                handles = await line.enqueue_together(*range(8))
                await line.until("PENDING", 3)
                await line.nothing_more_begins()
                await other.nothing_more_begins()
                assert (len(line.rows("PENDING")), len(line.rows("ENQUEUED"))) == (3, 5)
                gate.open()
                assert await results(handles) == list(range(8))

        Stage(venue).play(scene)

    def test_worker_concurrency_holds_in_each_process(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            other = Line(stage, gate, line.name)
            async with line.app, other.app:
                await line.register(worker_concurrency=2)
                handles = await line.enqueue_together(*range(9))
                await line.until("PENDING", 4)
                await line.nothing_more_begins()
                await other.nothing_more_begins()
                owners = [row["incarnation"] for row in line.rows("PENDING")]
                assert sorted(owners.count(each) for each in set(owners)) == [2, 2]
                gate.open()
                assert await results(handles) == list(range(9))

        Stage(venue).play(scene)

    def test_run_has_its_place_in_a_process_until_it_is_written_that_it_is_put_away(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate, line = stage.gate(), Line(stage, put_away_after=0.2)
            refused: list[int] = []
            pending: list[int] = []

            async def child(number: int) -> int:
                await gate()
                return number

            started = line.app.workflow(child, name=f"child-{stage.version}")

            async def patient(number: int) -> int:
                pending.append(len(line.rows("PENDING")))
                return number or await (await started.start(number)).result()

            def refuse() -> None:
                refused.append(1)
                if len(refused) < 6:
                    faults.arm("pipeline.before_commit", refuse)
                raise Retryable("the database is busy")

            line.flow = line.app.workflow(patient, name=f"patient-{stage.version}")
            async with line.app:
                await line.register(worker_concurrency=1)
                [first] = await line.enqueue(0)
                await gate.reached()
                [second] = await line.enqueue(1)
                faults.arm("pipeline.before_commit", refuse)
                try:
                    assert await second.result() == 1
                finally:
                    faults.disarm()
                gate.open()
                assert await first.result() == 0
            assert refused
            assert set(pending) == {1}

        Stage(venue).play(scene)

    def test_limit_that_is_raised_lets_more_begin_without_a_restart(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register(concurrency=1)
                await line.enqueue_together(*range(4))
                await line.until("PENDING", 1)
                await line.app.do("update_queue", line.name, concurrency=3)
                await line.until("PENDING", 3)
                await line.nothing_more_begins()
                assert len(line.rows("PENDING")) == 3

        Stage(venue).play(scene)

    def test_rate_limit_holds_within_every_period(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(rate_limit_max=3, rate_limit_period_sec=0.4)
                await results(await line.enqueue_together(*range(9)))
            began = sorted(row["started_at_epoch_ms"] for row in line.rows())
            # A claim notes its starts a moment after it has made them, so a period is at least as long as it is said.
            assert all(later - first >= 400 for first, later in zip(began, began[3:], strict=False))

        Stage(venue).play(scene)

    def test_starts_before_the_clock_was_set_back_do_not_hold_the_queue_up(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(3600)
            line = Line(stage)
            async with line.app:
                await line.register(rate_limit_max=2, rate_limit_period_sec=0.4)
                await results(await line.enqueue_together(1, 2))
                stage.set_clock(0)
                assert await results(await line.enqueue_together(3, 4, 5)) == [3, 4, 5]

        Stage(venue).play(scene)

    def test_cancelled_run_gives_its_start_back_to_nobody(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register(rate_limit_max=2, rate_limit_period_sec=LONG)
                handles = await line.enqueue_together(*range(3))
                await line.until("PENDING", 2)
                running = [row["workflow_uuid"] for row in line.rows("PENDING")]
                await line.app.do("cancel_workflows", running)
                await line.nothing_more_begins()
                left = next(each for each in handles if each.workflow_id not in running)
                assert (await left.status()).status == "ENQUEUED"
                assert {row["workflow_uuid"] for row in line.starts()} == set(running)

        Stage(venue).play(scene)

    def test_run_that_was_put_away_and_goes_on_is_no_second_start(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate, line = stage.gate(), Line(stage, put_away_after=0.05)

            async def slow(number: int) -> int:
                await gate()
                return number

            child = line.app.workflow(slow, name=f"slow-{stage.version}")

            async def patient(number: int) -> int:
                found: int = await (await child.start(number)).result()
                return found

            line.flow = line.app.workflow(patient, name=f"patient-{stage.version}")
            async with line.app:
                await line.register(rate_limit_max=3, rate_limit_period_sec=LONG)
                handles = await line.enqueue(1, 2)
                await line.until("DELAYED", 2)
                gate.open()
                assert await results(handles) == [1, 2]
                started = sorted(row["workflow_uuid"] for row in line.starts())
                assert started == sorted(each.workflow_id for each in handles)

        Stage(venue).play(scene)

    def test_run_that_was_put_away_once_and_is_handed_over_later_is_a_second_start(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate, first = stage.gate(), Line(stage, put_away_after=0.05)

            def build(line: Line) -> None:
                async def patient(number: int) -> int:
                    await line.app.do("sleep", 0.3)
                    await gate()
                    return number

                line.flow = line.app.workflow(patient, name=f"patient-{stage.version}")

            build(first)
            async with first.app:
                await first.register(rate_limit_max=2, rate_limit_period_sec=LONG)
                [handle] = await first.enqueue(1)
                await gate.reached()
                assert (stage.run(handle.workflow_id)["executions"], len(first.starts())) == (2, 1)
            second = Line(stage, name=first.name)
            build(second)
            async with second.app:
                gate.open()
                await second.app.retrieve(handle.workflow_id).result()
                assert [row["workflow_uuid"] for row in second.starts()] == [handle.workflow_id] * 2

        Stage(venue).play(scene)

    def test_run_that_goes_back_because_it_does_not_fit_is_no_start(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage, max_run_bytes=10_000)

            async def measure(text: str) -> int:
                return len(text)

            line.flow = line.app.workflow(measure, name=f"measure-{stage.version}")
            async with line.app:
                await line.register(rate_limit_max=6, rate_limit_period_sec=LONG)
                flow = line.flow.raw.options(queue_name=line.name)
                made = await line.app.value(flow.enqueue_many([flow.call("x" * 6_000) for _ in range(6)]))
                handles = [Handle(line.app, each) for each in made]
                assert await results(handles) == [6_000] * 6
                assert sorted(row["workflow_uuid"] for row in line.starts()) == sorted(h.workflow_id for h in handles)

        Stage(venue).play(scene)

    def test_ledger_keeps_no_more_than_a_period(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(rate_limit_max=100, rate_limit_period_sec=0.05)
                await results(await line.enqueue_together(*range(20)))
                await stage.pause(0.1)
                [last] = await line.enqueue(99)
                await last.result()
                assert [row["workflow_uuid"] for row in line.starts()] == [last.workflow_id]

        Stage(venue).play(scene)

    def test_slots_of_the_gone_come_back(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            first = Line(stage, gate)
            await first.app.launch()
            await first.register(concurrency=2)
            handles = await first.enqueue_together(*range(4))
            await first.until("PENDING", 2)
            await stage.crash(first.app)
            second = Line(stage, name=first.name)
            async with second.app:
                found = [second.app.retrieve(each.workflow_id) for each in handles]
                assert sorted(await results(found)) == [0, 1, 2, 3]

        Stage(venue).play(scene)


class PartitionsContract:
    """Partitions take turns, within limits of their own."""

    def test_partitions_take_turns(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                handles = await line.enqueue_together(*range(100, 120), queue_partition_key="large")
                for key, start in (("a", 200), ("b", 300), ("z", 400)):
                    handles += await line.enqueue_together(start, start + 1, queue_partition_key=key)
                await line.register(partition_queue=True, worker_concurrency=1)
                await results(handles)
            assert len(line.began) == len(handles)
            small = [place for place, number in enumerate(line.began) if number >= 200]
            assert max(small) < 10, line.began

        Stage(venue).play(scene)

    def test_limit_of_a_partition_holds_for_each(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register(partition_queue=True, partition_concurrency=2, concurrency=5)
                handles: list[Handle] = []
                for key in "abc":
                    handles += await line.enqueue_together(*range(4), queue_partition_key=key)
                await line.until("PENDING", 5)
                await line.nothing_more_begins()
                keys = [row["queue_partition_key"] for row in line.rows("PENDING")]
                assert sorted(keys.count(key) for key in "abc") == [1, 2, 2]
                gate.open()
                assert len(await results(handles)) == len(line.began) == 12

        Stage(venue).play(scene)

    def test_rate_of_a_partition_holds_for_each(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(
                    partition_queue=True, partition_rate_limit_max=1, partition_rate_limit_period_sec=LONG
                )
                for key in "abc":
                    await line.enqueue_together(1, 2, queue_partition_key=key)
                await line.until("SUCCESS", 3)
                await line.nothing_more_begins()
                assert sorted(row["partition_key"] for row in line.starts()) == ["a", "b", "c"]
                assert len(line.rows("ENQUEUED")) == 3

        Stage(venue).play(scene)

    def test_many_partitions_are_all_served(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.app.do("register_queue", line.name, partition_queue=True, partition_concurrency=1)
                await line.app.do("pause_queue", line.name)
                handles: list[Handle] = []
                for number in range(45):
                    handles += await line.enqueue(number, queue_partition_key=f"tenant {number}")
                await line.app.do("resume_queue", line.name)
                assert sorted(await results(handles)) == list(range(45))
            assert sorted(line.began) == list(range(45))

        Stage(venue).play(scene)

    def test_end_of_a_run_is_waited_for_where_its_partition_is_full(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register(partition_queue=True, partition_concurrency=1)
                handles = await line.enqueue_together(1, queue_partition_key="a")
                await gate.reached()
                waited_for = line.app.raw._engine.dispatch._hunger.names  # noqa: SLF001 -- by what it is woken
                await stage.until(lambda: line.name in waited_for)
                gate.open()
                assert await results(handles) == [1]

        Stage(venue).play(scene)

    def test_runs_without_a_key_are_a_partition_of_their_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                handles = await line.enqueue_together(*range(3))
                handles += await line.enqueue_together(*range(3, 6), queue_partition_key="a")
                await line.register(partition_queue=True, partition_concurrency=1)
                assert await results(handles) == list(range(6))
            assert sorted(line.began) == list(range(6))

        Stage(venue).play(scene)
