"""The contract of queues: how they are set, in which order and within which limits runs leave them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Client
from holdfast.errors import ConfigurationError, MisuseError, QueueConflict, QueueNotFound, SerializationError
from holdfast.testing.contract.workflows_stage import App, Flow, Handle, Stage

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.model.queue import Queue
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import Gate

LONG = 3600.0


class Line:
    """An application with one queue, and a workflow whose runs wait before a gate if there is one."""

    def __init__(self, stage: Stage, gate: Gate | None = None, name: str | None = None, **settings: Any) -> None:
        self.stage = stage
        self.app: App = stage.app(**settings)
        self.name = name or f"queue-{secrets.token_hex(8)}"
        self.began: list[int] = []

        async def pass_by(number: int) -> int:
            self.began.append(number)
            if gate is not None:
                await gate()
            return number

        self.flow: Flow = self.app.workflow(pass_by, name=f"pass_by-{stage.version}")

    async def register(self, **settings: Any) -> Queue:
        queue: Queue = await self.app.do("register_queue", self.name, **settings)
        return queue

    async def enqueue(self, *numbers: int, **options: Any) -> list[Handle]:
        """Enqueue a run for each number, one after the other."""
        flow = self.flow.raw.options(queue_name=self.name, **options)
        return [Handle(self.app, await self.app.value(flow.enqueue(number))) for number in numbers]

    async def enqueue_together(self, *numbers: int, **options: Any) -> list[Handle]:
        """Enqueue a run for each number in one commit."""
        flow = self.flow.raw.options(queue_name=self.name, **options)
        made = await self.app.value(flow.enqueue_many([flow.call(number) for number in numbers]))
        return [Handle(self.app, each) for each in made]

    def one_after_the_other(self, handles: list[Handle]) -> None:
        """Have these runs come at times of their own: those of one millisecond have no order among them."""
        runs = self.stage.table("workflow_status")
        for place, handle in enumerate(handles):
            self.stage.execute(
                f"UPDATE {runs} SET created_at = ? WHERE workflow_uuid = ?", 1_000_000 + place, handle.workflow_id
            )

    def rows(self, status: str | None = None) -> list[Row]:
        """Return the runs of the queue, those of one status if that is said."""
        found = self.stage.rows(
            f"SELECT * FROM {self.stage.table('workflow_status')} WHERE queue_name = ? ORDER BY started_at_epoch_ms",
            self.name,
        )
        return [row for row in found if status in (None, row["status"])]

    def starts(self) -> list[Row]:
        """Return the ledger of starts, oldest first."""
        table = self.stage.table("queue_starts")
        return self.stage.rows(f"SELECT * FROM {table} WHERE queue_name = ? ORDER BY started_at", self.name)

    async def until(self, status: str, count: int) -> None:
        """Wait until so many runs of the queue are in a status."""
        await self.stage.until(lambda: len(self.rows(status)) == count)

    async def nothing_more_begins(self) -> None:
        """Have the dispatcher look twice more than it would have to."""
        engine = self.app.raw._engine  # noqa: SLF001 -- a look is not part of anybody's interface
        for _ in range(2):
            engine.work_released()
            await self.stage.pause(0.15)


async def results(handles: list[Handle]) -> list[Any]:
    """Wait for all, in order."""
    return [await handle.result() for handle in handles]


class QueueSettingsContract:
    """Registering, changing and deleting queues."""

    def test_registered_queue_is_stored_with_its_settings(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                made = await line.register(
                    concurrency=5,
                    worker_concurrency=2,
                    rate_limit_max=10,
                    rate_limit_period_sec=0.5,
                    priority_enabled=True,
                    partition_queue=True,
                    partition_concurrency=1,
                    partition_rate_limit_max=3,
                    partition_rate_limit_period_sec=2.5,
                    polling_interval_sec=0.25,
                )
                assert await line.app.do("retrieve_queue", line.name) == made
                assert made in await line.app.do("list_queues")
                [row] = stage.rows(f"SELECT * FROM {stage.table('queues')} WHERE name = ?", line.name)
            assert (row["concurrency"], row["rate_limit_period_sec"], bool(row["priority_enabled"])) == (5, 0.5, True)
            assert row["queue_id"] == made.queue_id
            assert made.created_at == made.updated_at == row["created_at"]
            assert not made.paused

        Stage(venue).play(scene)

    def test_queue_that_is_there_is_set_anew_kept_or_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                first = await line.register(concurrency=5, worker_concurrency=2)
                await line.app.do("pause_queue", line.name)
                kept = await line.register(concurrency=7, on_conflict="keep")
                assert (kept.concurrency, kept.queue_id) == (5, first.queue_id)
                with pytest.raises(QueueConflict, match=line.name):
                    await line.register(concurrency=7, on_conflict="reject")
                anew = await line.register(concurrency=7)
                assert (anew.queue_id, anew.concurrency, anew.worker_concurrency) == (first.queue_id, 7, None)
                assert anew.paused
                assert anew.created_at == first.created_at

        Stage(venue).play(scene)

    def test_update_changes_what_is_said_and_nothing_else(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(concurrency=5, worker_concurrency=2)
                changed = await line.app.do("update_queue", line.name, concurrency=None, polling_interval_sec=3)
                assert (changed.concurrency, changed.worker_concurrency) == (None, 2)
                assert changed.polling_interval_sec == 3.0
                with pytest.raises(ConfigurationError, match="partition_queue"):
                    await line.app.do("update_queue", line.name, worker_concurrency=9, partition_concurrency=1)
                assert await line.app.do("retrieve_queue", line.name) == changed

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        "settings",
        [
            {"concurrency": 0},
            {"concurrency": 1.5},
            {"worker_concurrency": -1},
            {"rate_limit_max": 5},
            {"rate_limit_period_sec": 5},
            {"rate_limit_max": 5, "rate_limit_period_sec": 0},
            {"partition_concurrency": 1},
            {"polling_interval_sec": 0},
            {"priority_enabled": "yes"},
            {"colour": "blue"},
            {"on_conflict": "perhaps"},
        ],
    )
    def test_setting_that_cannot_be_is_refused_and_nothing_is_stored(
        self, venue: Venue, settings: dict[str, Any]
    ) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with pytest.raises(ConfigurationError):
                    await line.register(**settings)
                assert await line.app.do("retrieve_queue", line.name) is None

        Stage(venue).play(scene)

    def test_names_of_our_own_queues_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            async with app:
                for name in ("_holdfast_sys_internal", "_holdfast_x", "", "n" * 256, "a\0b"):
                    with pytest.raises(ConfigurationError):
                        await app.do("register_queue", name)

        Stage(venue).play(scene)

    def test_queue_that_is_not_there_cannot_be_changed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                for verb in ("update_queue", "pause_queue", "resume_queue", "delete_queue"):
                    with pytest.raises(QueueNotFound, match=line.name):
                        await line.app.do(verb, line.name)

        Stage(venue).play(scene)

    def test_queue_with_runs_in_it_is_deleted_only_by_force(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register()
                await line.app.do("pause_queue", line.name)
                handles = await line.enqueue(1)
                with pytest.raises(QueueConflict, match="1 runs"):
                    await line.app.do("delete_queue", line.name)
                await line.app.do("delete_queue", line.name, force=True)
                assert await line.app.do("retrieve_queue", line.name) is None
                await line.nothing_more_begins()
                assert line.began == []
                await line.register()
                assert await results(handles) == [1]
                await line.app.do("delete_queue", line.name)

        Stage(venue).play(scene)

    def test_queue_in_memory_is_deprecated_and_has_no_shared_limits(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with pytest.raises(ConfigurationError, match="concurrency"):
                    await line.register(in_memory=True, concurrency=1)
                with pytest.warns(DeprecationWarning, match=line.name):
                    made = await line.register(in_memory=True, worker_concurrency=2)
                assert await line.app.do("retrieve_queue", line.name) == made
                assert stage.rows(f"SELECT * FROM {stage.table('queues')} WHERE name = ?", line.name) == []
                assert await results(await line.enqueue(1, 2, 3)) == [1, 2, 3]

        Stage(venue).play(scene)

    def test_client_sets_queues_of_the_database_and_keeps_none_of_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with Client(stage.url) as client:
                    made = client.register_queue(line.name, concurrency=2)
                    with pytest.raises(MisuseError, match="client"):
                        client.register_queue(f"{line.name}-2", in_memory=True)
                    client.pause_queue(line.name)
                found = await line.app.do("retrieve_queue", line.name)
                assert (found.queue_id, found.concurrency, found.paused) == (made.queue_id, 2, True)

        Stage(venue).play(scene)

    def test_listening_is_said_before_launch(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            with pytest.raises(MisuseError, match="one text"):
                app.raw.listen_queues("orders")
            async with app:
                with pytest.raises(MisuseError, match="before launch"):
                    app.raw.listen_queues(["orders"])

        Stage(venue).play(scene)


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


class QueuesContract(QueueSettingsContract, QueueOrderContract, QueueLimitsContract, PartitionsContract):
    """Everything a queue promises."""
