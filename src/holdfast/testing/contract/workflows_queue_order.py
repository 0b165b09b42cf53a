"""The contract of which runs leave a queue, and in which order."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.errors import SerializationError
from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.testing.contract.workflows_queue_stage import LONG, Line, results
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


class QueueOrderContract:
    """What leaves a queue, and in which order."""

    def test_runs_wait_until_their_queue_is_registered(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                handles = await line.enqueue(1)
                await line.nothing_more_begins()
                assert (await handles[0].status()).status == "ENQUEUED"
                await line.register()
                assert await results(handles) == [1]

        Stage(venue).play(scene)

    def test_runs_leave_a_queue_in_the_order_in_which_they_came(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                handles = [
                    *await line.enqueue(0, 1, priority=9),
                    *await line.enqueue_together(*range(2, 30)),
                    *await line.enqueue(30, priority=1),
                ]
                line.one_after_the_other(handles)
                await line.register(worker_concurrency=1)
                assert await results(handles) == list(range(31))
            assert line.began == list(range(31))

        Stage(venue).play(scene)

    def test_timeout_that_no_clock_can_count_holds_nobody_up(self, venue: Venue) -> None:
        """Only other programs write one: it is none."""

        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                first, second = await line.enqueue(1, 2)
                stage.execute(
                    f"UPDATE {stage.table('workflow_status')} SET workflow_timeout_ms = ? WHERE workflow_uuid = ?",
                    2**63 - 1,
                    first.workflow_id,
                )
                await line.register()
                assert await results([first, second]) == [1, 2]
            assert stage.run(first.workflow_id)["workflow_deadline_epoch_ms"] is None

        Stage(venue).play(scene)

    def test_runs_leave_by_priority_where_it_is_enabled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                handles: list[Handle] = []
                for number, priority in ((1, 5), (2, 0), (3, 2), (4, 5), (5, 0)):
                    handles += await line.enqueue(number, priority=priority)
                line.one_after_the_other(handles)
                await line.register(worker_concurrency=1, priority_enabled=True)
                await results(handles)
            assert line.began == [2, 5, 3, 1, 4]

        Stage(venue).play(scene)

    def test_paused_queue_stands_still_and_what_runs_goes_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            line = Line(stage, gate)
            async with line.app:
                await line.register()
                running = await line.enqueue(1)
                await gate.reached()
                await line.app.do("pause_queue", line.name)
                waiting = await line.enqueue(2)
                await line.nothing_more_begins()
                gate.open()
                assert await results(running) == [1]
                assert line.began == [1]
                await line.app.do("resume_queue", line.name)
                assert await results(waiting) == [2]

        Stage(venue).play(scene)

    def test_run_that_is_older_than_what_was_claimed_before_is_claimed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register()
                assert await results(await line.enqueue_together(1, 2, 3)) == [1, 2, 3]
                await line.app.do("pause_queue", line.name)
                late = await line.enqueue(4, 5)
                line.one_after_the_other(late)
                await line.app.do("resume_queue", line.name)
                assert await results([*late, *await line.enqueue(6)]) == [4, 5, 6]

        Stage(venue).play(scene)

    def test_process_claims_no_more_than_it_may_hold_in_bytes(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, queue = stage.app(max_run_bytes=10_000), stage.gate(), f"bytes-{secrets.token_hex(8)}"

            async def measure(text: str) -> int:
                await gate()
                return len(text)

            flow = app.workflow(measure, name=f"measure-{stage.version}").raw.options(queue_name=queue)
            async with app:
                sizes = [6_000, 6_000, 100_000, 10]
                calls = [flow.call("x" * size) for size in sizes]
                handles = [Handle(app, each) for each in await app.value(flow.enqueue_many(calls))]
                await app.do("register_queue", queue)
                await gate.reached()
                held = app.raw._engine.runner.running  # noqa: SLF001 -- what it holds
                await stage.until(lambda: len(held) == 1)
                app.raw._engine.work_released()  # noqa: SLF001 -- a look is not part of anybody's interface
                await stage.pause(0.15)
                assert len(held) == 1
                gate.open()
                assert await results(handles) == sizes

        Stage(venue).play(scene)

    def test_process_claims_from_the_queues_it_listens_to(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            other = Line(stage)
            line.app.raw.listen_queues([line.name])
            async with line.app:
                await line.register()
                await line.app.do("register_queue", other.name)
                mine = await line.enqueue(1)
                line.name = other.name
                others = await line.enqueue(2)
                assert await results(mine) == [1]
                await line.nothing_more_begins()
                assert (await others[0].status()).status == "ENQUEUED"
                other.app.raw.listen_queues([other.name])
                async with other.app:
                    assert await results(others) == [2]

        Stage(venue).play(scene)

    def test_delayed_run_leaves_its_queue_when_it_is_due(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(polling_interval_sec=LONG)
                [far] = await line.enqueue(1, delay=LONG)
                [near] = await line.enqueue(2, delay=0.3)
                assert await near.result() == 2
                row = stage.run(near.workflow_id)
                assert row["started_at_epoch_ms"] - row["created_at"] >= 300
                assert (await far.status()).status == "DELAYED"

        Stage(venue).play(scene)

    def test_row_that_nobody_here_can_run_is_in_nobodys_way(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(concurrency=2)
                await line.app.do("pause_queue", line.name)
                [stranger, older, broken] = await line.enqueue(1, 2, 3)
                good = await line.enqueue(4)
                runs = stage.table("workflow_status")
                stage.execute(f"UPDATE {runs} SET name = 'unknown' WHERE workflow_uuid = ?", stranger.workflow_id)
                stage.execute(
                    f"UPDATE {runs} SET application_version = 'old' WHERE workflow_uuid = ?", older.workflow_id
                )
                stage.execute(f"UPDATE {runs} SET inputs = '{{' WHERE workflow_uuid = ?", broken.workflow_id)
                await line.app.do("resume_queue", line.name)
                assert await results(good) == [4]
                assert isinstance(await broken.error(), SerializationError)
                states = [(await each.status()).status for each in (stranger, older, broken)]
                assert states == ["ENQUEUED", "ENQUEUED", "ERROR"]

        Stage(venue).play(scene)

    def test_row_whose_name_no_function_can_have_is_in_nobodys_way(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                names = ['a"b', "a\\b", '"', f'pass_by-{stage.version}"x']
                odd = await line.enqueue(*range(8))
                good = await line.enqueue(8)
                runs = stage.table("workflow_status")
                for handle, name in zip(odd, names * 2, strict=True):
                    columns = "name = ?" if handle in odd[:4] else "class_name = 'C', config_name = ?"
                    stage.execute(f"UPDATE {runs} SET {columns} WHERE workflow_uuid = ?", name, handle.workflow_id)
                await line.register()
                assert await results(good) == [8]
                # The library's own queue has what was resumed, forked and recovered.
                stage.execute(f"UPDATE {runs} SET queue_name = ? WHERE queue_name = ?", INTERNAL_QUEUE, line.name)
                assert await Handle(line.app, await line.app.do("fork_workflow", good[0].workflow_id)).result() == 8
                assert {(await each.status()).status for each in odd} == {"ENQUEUED"}
                await line.app.do("cancel_workflows", [each.workflow_id for each in odd])

        Stage(venue).play(scene)
