"""The contract of putting runs in queues: one, many, later, by name, and as operations of a workflow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, ConfigurationError, Deduplicated, MisuseError, WorkflowConflict
from holdfast.testing.contract.workflows_deduplication import DebounceContract, DeduplicationContract
from holdfast.testing.contract.workflows_enqueue_stage import Queued, Sums, fresh, refusal
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class EnqueueContract:
    """What ``enqueue`` and ``enqueue_many`` promise."""

    def test_enqueued_run_waits_with_what_was_said_of_it_and_is_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                said = {"priority": 7, "queue_partition_key": "p", "attributes": {"a": 1}, "timeout": 60}
                handle = await sums.queued.options(**said).enqueue(1, second=2)
                state = await handle.status()
                assert (state.status, state.queue_name, state.priority) == ("ENQUEUED", sums.queue, 7)
                assert (state.queue_partition_key, state.attributes) == ("p", {"a": 1})
                assert (state.workflow_timeout_ms, state.workflow_deadline_epoch_ms) == (60_000, None)
                assert (state.application_version, state.executor_id) == (None, None)
                await sums.listen()
                assert await handle.result() == 3
                ended = await handle.status()
                assert ended.application_version == stage.version
                assert ended.workflow_deadline_epoch_ms == (ended.started_at_epoch_ms or 0) + 60_000

        Stage(venue).play(scene)

    def test_enqueued_id_that_is_taken_is_the_same_run_or_a_conflict(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                named = sums.queued.options(workflow_id=fresh("run"))
                first = await named.enqueue(1, second=2)
                assert (await named.enqueue(1, second=2)).workflow_id == first.workflow_id
                assert isinstance(await refusal(named.enqueue(1, second=3)), WorkflowConflict)
                other = await named.options(on_conflict="return_existing").enqueue(4)
                assert other.workflow_id == first.workflow_id
                assert len(sums.waiting()) == 1

        Stage(venue).play(scene)

    def test_started_and_enqueued_run_of_one_id_are_the_same_call(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                run_id = fresh("run")
                started = await sums.flow.options(workflow_id=run_id).start(1, 2)
                assert await started.result() == 3
                again = await sums.queued.options(workflow_id=run_id).enqueue(1, 2)
                assert await again.result() == 3
                assert sums.waiting() == []

        Stage(venue).play(scene)

    def test_delayed_run_begins_when_its_time_has_come(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            async with Sums(stage) as sums:
                await sums.listen()
                later = await sums.queued.options(delay=timedelta(hours=1)).enqueue(1)
                state = await later.status()
                assert state.status == "DELAYED"
                assert state.delay_until_epoch_ms == state.created_at + 3_600_000
                until = datetime.fromtimestamp(state.created_at // 1000, UTC) + timedelta(hours=2)
                latest = await sums.queued.options(delay_until=until).enqueue(2)
                assert (await latest.status()).delay_until_epoch_ms == int(until.timestamp() * 1000)
                stage.set_clock(3_700)
                assert await later.result() == 1
                assert (await latest.status()).status == "DELAYED"
                stage.set_clock(7_300)
                assert await latest.result() == 2

        Stage(venue).play(scene)

    def test_moment_that_has_passed_delays_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                await sums.listen()
                handle = await sums.queued.options(delay_until=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1)
                assert await handle.result() == 1

        Stage(venue).play(scene)

    def test_options_that_make_no_sense_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                plain = Queued(sums.flow, sums.app).raw
                assert isinstance(await refusal(_awaited(sums.app, sums.flow.raw.enqueue, 1)), MisuseError)
                assert isinstance(await refusal(_awaited(sums.app, plain.start, 1)), MisuseError)
                assert "queue_name" in str(await refusal(_awaited(sums.app, plain, 1)))
                for wrong in (
                    {"queue_name": "_holdfast_sys_internal"},
                    {"queue_name": ""},
                    {"priority": -1},
                    {"priority": 2**31},
                    {"priority": True},
                    {"delay": -1},
                    {"delay": float("nan")},
                    {"delay": 1, "delay_until": datetime(2100, 1, 1, tzinfo=UTC)},
                    {"delay_until": datetime(2100, 1, 1)},  # noqa: DTZ001 -- the mistake itself
                    {"deduplication_id": ""},
                    {"deduplication_id": "x" * 256},
                    {"queue_partition_key": "\0"},
                    {"workflow_id": ""},
                ):
                    error = await refusal(sums.queued.options(**wrong).enqueue(1))
                    assert isinstance(error, ConfigurationError), wrong
                with pytest.raises(ConfigurationError):
                    sums.queued.options(on_duplicate="replace")
                assert isinstance(await refusal(sums.queued.options(debounce_timeout=1).enqueue(1)), MisuseError)
                assert isinstance(await refusal(sums.queued.enqueue(object())), CannotSerialize)
                assert sums.waiting() == []

        Stage(venue).play(scene)

    def test_run_is_enqueued_by_name(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                name = sums.flow.raw.definition.name
                enqueue = partial(sums.app.do, "enqueue", name, [1], {"second": 2})
                made = Handle(sums.app, await enqueue(queue_name=sums.queue, deduplication_id="once"))
                error = await refusal(enqueue(queue_name=sums.queue, deduplication_id="once"))
                assert isinstance(error, Deduplicated)
                await sums.listen()
                assert await made.result() == 3
                assert isinstance(await refusal(enqueue(queue_name="_holdfast_x")), ConfigurationError)

        Stage(venue).play(scene)

    def test_name_that_no_function_can_have_is_refused_as_it_is_at_registration(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                for name in ('a"b', "a\\b", "", "x" * 256, "a\nb"):
                    with pytest.raises(ConfigurationError) as told:
                        sums.app.raw.step(name=name)(lambda: None)
                    for wrong in (
                        sums.app.do("enqueue", name, queue_name=sums.queue),
                        sums.app.do("enqueue", "add", queue_name=sums.queue, class_name=name, config_name="c"),
                        sums.app.do("enqueue", "add", queue_name=sums.queue, class_name="C", config_name=name),
                    ):
                        assert str(await refusal(wrong)) == str(told.value)
                assert sums.waiting() == []

        Stage(venue).play(scene)

    def test_run_without_partition_key_is_refused_where_the_queue_is_known_to_need_one(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            sums = Sums(stage)

            async def parent() -> None:
                await sums.queued.enqueue(1)

            flow = sums.app.workflow(parent)
            async with sums:
                await sums.app.do("register_queue", sums.queue, partition_queue=True)
                keyed = sums.queued.options(queue_partition_key="p")
                assert await (await keyed.enqueue(1)).result() == 1
                assert "queue_partition_key" in str(await refusal(sums.queued.enqueue(1)))
                assert "queue_partition_key" in str(
                    await refusal(sums.queued.enqueue_many([keyed.call(1), sums.queued.call(2)]))
                )
                assert "queue_partition_key" in str(await (await flow.start()).error())
                assert len(sums.waiting()) == 1

        Stage(venue).play(scene)

    def test_many_runs_are_enqueued_in_one_commit(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                run_id = fresh("run")
                calls = [sums.flow.raw.call(number, second=1) for number in range(1_500)]
                special = sums.flow.options(workflow_id=run_id, priority=3).raw
                handles = await sums.queued.enqueue_many([*calls, special.call(7)])
                rows = sums.waiting()
                assert len(rows) == len(handles) == 1_501
                assert handles[-1].workflow_id == run_id
                assert (stage.run(run_id)["priority"], stage.run(run_id)["queue_name"]) == (3, sums.queue)
                await sums.listen()
                assert await handles[-1].result() == 7
                assert await handles[1_499].result() == 1_500

        Stage(venue).play(scene)

    def test_no_runs_are_enqueued_without_a_word(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                assert await sums.queued.enqueue_many([]) == []

        Stage(venue).play(scene)

    def test_one_that_is_refused_refuses_all_of_many(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                taken, held = fresh("run"), fresh("once")
                await sums.queued.options(workflow_id=taken).enqueue(1)
                await sums.queued.options(deduplication_id=held).enqueue(1)
                good = [sums.queued.call(number) for number in range(20)]
                error = await refusal(sums.queued.enqueue_many([*good, sums.queued.options(workflow_id=taken).call(2)]))
                assert isinstance(error, WorkflowConflict)
                assert taken in str(error)
                again = sums.queued.options(deduplication_id=held)
                error = await refusal(sums.queued.enqueue_many([*good, again.call(2)]))
                assert isinstance(error, Deduplicated)
                assert held in str(error)
                twice = sums.queued.options(deduplication_id=fresh("once"))
                error = await refusal(sums.queued.enqueue_many([twice.call(1), twice.call(2)]))
                assert isinstance(error, Deduplicated)
                error = await refusal(sums.queued.enqueue_many([*good, sums.queued.call(object())]))
                assert isinstance(error, CannotSerialize)
                assert len(sums.waiting()) == 2

        Stage(venue).play(scene)

    def test_calls_of_another_workflow_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            sums = Sums(stage)

            async def other() -> int:
                return 1

            stranger = sums.app.workflow(other)
            async with sums:
                error = await refusal(sums.queued.enqueue_many([stranger.raw.call()]))
                assert isinstance(error, MisuseError)

        Stage(venue).play(scene)


class EnqueueChildrenContract:
    """What the verbs promise in a workflow."""

    def test_enqueued_child_is_recorded_once_and_inherits_the_deadline(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            sums = Sums(stage)

            async def parent() -> int:
                handle = await sums.queued.enqueue(1, second=2)
                found: int = await handle.result()
                return found

            flow = sums.app.workflow(parent)
            async with sums:
                await sums.listen()
                handle = await flow.options(timeout=600).start()
                assert await handle.result() == 3
                child = sums.waiting()[0]
                assert child["parent_workflow_id"] == handle.workflow_id
                deadline = stage.run(handle.workflow_id)["workflow_deadline_epoch_ms"]
                assert child["workflow_deadline_epoch_ms"] == deadline
                assert stage.steps(handle.workflow_id)[0]["child_workflow_id"] == child["workflow_uuid"]

        Stage(venue).play(scene)

    def test_replay_enqueues_nothing_again(self, venue: Venue) -> None:
        queue = fresh()
        done: list[list[str]] = []

        def build(app: App, life: Life) -> Flow:
            async def leaf(number: int) -> int:
                return number

            queued = Queued(app.workflow(leaf), app, queue_name=queue)

            async def parent() -> list[str]:
                one = await queued.enqueue(1)
                many = await queued.enqueue_many(queued.call(number) for number in range(3))
                late = await queued.debounce("k", 3_600, 5)
                again = await queued.options(deduplication_id="x").enqueue(2)
                same = await queued.options(deduplication_id="x", on_duplicate="return_existing").enqueue(3)
                both = queued.options(deduplication_id="x", on_duplicate="return_existing")
                mixed = await queued.enqueue_many([both.call(4), queued.call(5)])
                try:
                    await queued.options(deduplication_id="x").enqueue(6)
                except Deduplicated as error:
                    refused = str(error)
                ids = [each.workflow_id for each in (one, *many, late, again, same, *mixed)]
                done.append([*ids, refused])
                await life()
                return ids

            return app.workflow(parent)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            ids = await handle.result()
            assert done[0] == done[1]
            assert ids == done[0][:-1]
            assert ids[6] == ids[5] == ids[7]
            table = stage.table("workflow_status")
            rows = stage.rows(f"SELECT workflow_uuid FROM {table} WHERE queue_name = ?", queue)
            assert {row["workflow_uuid"] for row in rows} == set(ids)

        Stage(venue).play(scene)

    def test_refused_many_of_a_workflow_writes_none_and_is_recorded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            sums = Sums(stage)

            async def parent() -> str:
                again = sums.queued.options(deduplication_id="x")
                await again.enqueue(1)
                try:
                    await sums.queued.enqueue_many([sums.queued.call(2), again.call(3)])
                except Deduplicated as error:
                    return str(error)
                return "enqueued"

            flow = sums.app.workflow(parent)
            async with sums:
                handle = await flow.start()
                assert "'x'" in await handle.result()
                assert len(sums.waiting()) == 1
                assert stage.steps(handle.workflow_id)[1]["error"] is not None

        Stage(venue).play(scene)

    def test_children_of_branches_are_enqueued_side_by_side(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            sums = Sums(stage)

            async def part(number: int) -> int:
                found: int = await (await sums.queued.enqueue(number)).result()
                return found

            async def parent() -> list[int]:
                return await sums.app.gather(*(partial(part, number) for number in range(8)))

            flow = sums.app.workflow(parent)
            async with sums:
                await sums.listen()
                assert await flow() == list(range(8))

        Stage(venue).play(scene)


class QueueEntryContract(EnqueueContract, DeduplicationContract, DebounceContract, EnqueueChildrenContract):
    """Everything that is promised about putting runs in queues."""


async def _awaited(app: App, verb: Any, *args: Any) -> Any:
    return await app.value(verb(*args))
