"""Each statement that changes a run, a claim or a beat carries its own condition, whoever has looked before.

The code that calls these statements asks first, under a lock mostly, so that their conditions seldom decide anything.
Here they are carried out by themselves, on every database, on what they must leave alone.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import Superseded
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.testing.contract.venue import apart
from holdfast.testing.run_rows import LONG_FROM_NOW, RunRows
from holdfast.workflows.control import control_queries
from holdfast.workflows.facts import RetryRuns
from holdfast.workflows.queries import messaging_queries, parking_queries, schedule_queries, stream_queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


PENDING, ENQUEUED, DELAYED = WorkflowStatus.PENDING, WorkflowStatus.ENQUEUED, WorkflowStatus.DELAYED
LIVING = [PENDING, ENQUEUED, DELAYED]
ENDED = [each for each in WorkflowStatus if each.has_ended]


class Scene(RunRows):
    """Runs, and the statements by their names."""

    def __init__(self, manager: ConnectionManager) -> None:
        super().__init__(manager)
        self.control_queries = control_queries(manager.dialect, "holdfast")
        self.messages = messaging_queries(manager.dialect, "holdfast")
        self.parking = parking_queries(manager.dialect, "holdfast")
        self.schedules = schedule_queries(manager.dialect, "holdfast")

    def table(self, name: str) -> str:
        return self.runs.replace("workflow_status", name)

    async def change(self, name: str, run_id: str, **values: Any) -> None:
        """Carry out a statement of control for one run."""
        query = self.control_queries[name]
        await self.manager.run(lambda transaction: transaction.execute_batch(query, [(run_id,)], **values))

    async def park(self, name: str, *row: Any) -> None:
        """Carry out a statement of parking for one row."""
        query = self.parking[name]
        await self.manager.run(lambda transaction: transaction.execute_batch(query, [row]))

    async def waits(self, run_id: str) -> set[str]:
        """Return the kinds of the waits that are noted of a run."""
        rows = await self.manager.fetch(
            f"SELECT wait_kind FROM {self.table('workflow_waits')} WHERE workflow_uuid = ?", run_id
        )
        return {row["wait_kind"] for row in rows}

    async def register(self, incarnation: str) -> None:
        await self.manager.execute(
            self.queries["executor_register"],
            incarnation=incarnation,
            executor_id="local",
            hostname="here",
            pid=1,
            application_version="v",
            queues="[]",
            lease_ms=1000,
        )

    async def beat(self, incarnation: str, acknowledged: int, sequence: int) -> int:
        return await self.manager.execute(
            self.queries["executor_beat"],
            incarnation=incarnation,
            acknowledged=acknowledged,
            beat_seq=sequence,
            stalled_since=None,
        )


def play(migrated_url: str, scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        async with ConnectionManager(migrated_url) as manager:
            await scene(Scene(manager))

    asyncio.run(played())


def test_i3_runs_of_an_executor_that_has_a_row_are_not_released(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(PENDING)
        owner, before = f"gone-{run_id}", await scene.row(run_id)
        release = {"incarnation": owner, "most": 10, "internal_queue": INTERNAL_QUEUE}
        await scene.register(owner)
        assert await scene.manager.execute(scene.queries["runs_release"], **release) == 0
        assert await scene.row(run_id) == before
        await scene.manager.execute(scene.queries["executor_leave"], incarnation=owner)
        assert await scene.manager.execute(scene.queries["runs_release"], **release) == 1

    play(migrated_url, scene)


def test_i3_executor_that_has_beaten_since_is_not_removed(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        name, remove = f"e-{secrets.token_hex(8)}", scene.queries["executor_remove"]
        await scene.register(name)
        assert await scene.beat(name, 0, 1) == 1
        assert await scene.manager.execute(remove, incarnation=name, beat_seq=0) == 0
        assert await scene.manager.execute(remove, incarnation=name, beat_seq=1) == 1

    play(migrated_url, scene)


def test_i14_beat_is_refused_that_was_made_or_whose_row_has_gone_back(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        name = f"e-{secrets.token_hex(8)}"
        await scene.register(name)
        assert await scene.beat(name, 0, 2) == 1
        assert await scene.beat(name, 0, 2) == 0
        assert await scene.beat(name, 0, 1) == 0
        assert await scene.beat(name, 3, 4) == 0
        assert await scene.beat(name, 2, 3) == 1

    play(migrated_url, scene)


@pytest.mark.parametrize(
    ("status", "columns", "extended"),
    [
        (DELAYED, {}, 1),
        (ENQUEUED, {"executions": 0}, 0),
        (DELAYED, {"executions": 1}, 0),
        (DELAYED, {"is_debounced": False}, 0),
        (DELAYED, {"deduplication_id": "another"}, 0),
    ],
)
def test_debounced_call_extends_only_its_run_that_has_not_begun(
    migrated_url: str, status: WorkflowStatus, columns: dict[str, Any], extended: int
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(status, **{"is_debounced": True, **columns})
        before = await scene.row(run_id)
        touched = await scene.manager.execute(
            scene.queries["debounce_extend"],
            id=run_id,
            deduplication_id="only one",
            inputs="[1]",
            serialization="portable_json",
            fingerprint="mark",
            delay_ms=5,
            key="later",
        )
        assert touched == extended
        assert (await scene.row(run_id) == before) is not bool(extended)

    play(migrated_url, scene)


def test_run_that_was_there_before_a_debounced_call_is_not_put_off_by_later_ones(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id, begin = await scene.insert(DELAYED), scene.queries["debounce_begin"]
        before = await scene.row(run_id)
        assert await scene.manager.execute(begin, id=run_id, key="of another start", timeout_ms=5) == 0
        assert await scene.row(run_id) == before
        assert await scene.manager.execute(begin, id=run_id, key=scene.token(run_id), timeout_ms=5) == 1

    play(migrated_url, scene)


NEW_PLACE = {"key": "k", "queue_name": "q", "partition_key": None}
NEW_DELAY = {"key": "k", "until_ms": LONG_FROM_NOW, "delay_ms": None}
LEFT_ALONE: list[tuple[str, dict[str, Any], WorkflowStatus, dict[str, Any]]] = [
    *(("runs_cancel", {"key": "k", "cancel_key": "k"}, status, {}) for status in ENDED),
    *(("runs_resume", NEW_PLACE, status, {}) for status in [*LIVING, WorkflowStatus.SUCCESS, WorkflowStatus.ERROR]),
    *(("runs_rewind", {**NEW_PLACE, "application_version": None}, status, {}) for status in LIVING),
    *(("runs_delete", {}, status, {}) for status in LIVING),
    *(("runs_set_delay", NEW_DELAY, status, {"executions": 0}) for status in WorkflowStatus if status is not DELAYED),
    ("runs_set_delay", NEW_DELAY, DELAYED, {"executions": 1}),
    ("runs_set_delay", NEW_DELAY, DELAYED, {"wait_kind": "chain"}),
]


@pytest.mark.parametrize(
    ("name", "values", "status", "columns"),
    LEFT_ALONE,
    ids=[f"{name}-{status}-{'-'.join(columns)}" for name, _, status, columns in LEFT_ALONE],
)
def test_statement_of_control_leaves_a_run_that_it_is_not_for(
    migrated_url: str, name: str, values: dict[str, Any], status: WorkflowStatus, columns: dict[str, Any]
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(status, **columns)
        before = await scene.row(run_id)
        await scene.change(name, run_id, **values)
        assert await scene.row(run_id) == before

    play(migrated_url, scene)


def test_i2_run_that_is_being_claimed_is_claimed_by_nobody_else(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(ENQUEUED)
        async with scene.manager.transaction() as transaction:
            [mine] = await scene.claim_from(run_id, transaction=transaction)
            other = asyncio.create_task(apart(scene.claim_from(run_id)))
            await asyncio.wait([other], timeout=0.2)  # where it does not wait for the writer it has its answer
        assert await other == []
        row = await scene.row(run_id)
        assert row is not None
        assert (row["owner_xid"], row["executions"]) == (mine["owner_xid"], 2)

    play(migrated_url, scene)


@pytest.mark.parametrize("limit", ["concurrency = 1", "rate_limit_max = 1", "partition_queue = TRUE", "paused = TRUE"])
def test_i8_claim_without_a_lock_takes_nothing_from_a_queue_that_has_a_limit_by_now(
    migrated_url: str, limit: str
) -> None:
    async def scene(scene: Scene) -> None:
        run_id, queues = await scene.insert(ENQUEUED), scene.table("queues")
        await scene.manager.execute(
            f"INSERT INTO {queues} (queue_id, name, created_at, updated_at) VALUES (?, ?, 1, 1)", run_id, run_id
        )
        await scene.manager.execute(f"UPDATE {queues} SET {limit} WHERE name = ?", run_id)
        assert await scene.claim_from(run_id) == []
        await scene.manager.execute(f"DELETE FROM {queues} WHERE name = ?", run_id)
        assert len(await scene.claim_from(run_id)) == 1

    play(migrated_url, scene)


def test_run_over_its_cap_keeps_the_name_of_the_executor_that_died_with_it(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        over = await scene.insert(ENQUEUED, executor_id="the last one", recovery_attempts=3)
        within = await scene.insert(ENQUEUED, executor_id="the last one", recovery_attempts=2)
        [first] = await scene.claim_from(over, cap=2)
        [second] = await scene.claim_from(within, cap=2)
        assert (first["executor_id"], second["executor_id"]) == ("the last one", "claimer")

    play(migrated_url, scene)


def test_i8_partition_has_the_runs_of_its_own_queue_alone(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        key = secrets.token_hex(8)
        mine = await scene.insert(PENDING, queue_partition_key=key)
        await scene.insert(PENDING, queue_partition_key=key)
        [use] = await scene.manager.fetch_batch(
            scene.queues["partition_use"], [(key,)], queue_name=mine, period_ms=1000
        )
        assert use["running"] == 1

    play(migrated_url, scene)


PUT_AWAY: dict[str, Any] = {"wait_kind": "result"}


@pytest.mark.parametrize(
    ("status", "columns", "is_woken"),
    [(DELAYED, PUT_AWAY, True), (DELAYED, {}, False), *((each, PUT_AWAY, False) for each in [PENDING, *ENDED])],
)
def test_run_that_is_not_put_away_is_not_woken(
    migrated_url: str, status: WorkflowStatus, columns: dict[str, Any], *, is_woken: bool
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(status, **columns)
        await scene.park("waits_wake", run_id)
        assert await scene.status(run_id) == (ENQUEUED if is_woken else status)

    play(migrated_url, scene)


@pytest.mark.parametrize(("begun", "kind"), [(0, "result"), (1, None)])
def test_run_that_was_woken_and_not_begun_is_no_new_start_when_it_is_claimed_again(
    migrated_url: str, begun: int, kind: str | None
) -> None:
    async def scene(scene: Scene) -> None:
        run_id, hand_over = await scene.insert(PENDING, **PUT_AWAY), scene.queries["run_hand_over"]
        rows = [(run_id, scene.token(run_id))]
        await scene.manager.run(
            lambda transaction: transaction.fetch_batch(hand_over, rows, internal_queue=INTERNAL_QUEUE, begun=begun)
        )
        row = await scene.row(run_id)
        assert row is not None
        assert (row["status"], row["wait_kind"]) == (ENQUEUED, kind)

    play(migrated_url, scene)


@pytest.mark.parametrize(
    ("status", "key", "is_noted"), [(DELAYED, "mine", True), (DELAYED, "another", False), (PENDING, "mine", False)]
)
def test_waits_are_noted_where_the_run_was_put_away_under_this_token(
    migrated_url: str, status: WorkflowStatus, key: str, *, is_noted: bool
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(status, change_key=key, **PUT_AWAY)
        await scene.park("waits_note", run_id, "mine", "result", "another run", None, None)
        assert bool(await scene.waits(run_id)) is is_noted

    play(migrated_url, scene)


@pytest.mark.parametrize(("key", "left"), [("mine", {"chain"}), ("another", {"chain", "result"})])
def test_waits_of_an_earlier_time_are_forgotten_by_who_puts_the_run_away_and_its_link_is_kept(
    migrated_url: str, key: str, left: set[str]
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(DELAYED, change_key="mine", **PUT_AWAY)
        for kind in ("chain", "result"):
            await scene.park("waits_note", run_id, "mine", kind, "another run", None, None)
        await scene.park("waits_forget", run_id, key, LONG_FROM_NOW, "result")
        assert await scene.waits(run_id) == left

    play(migrated_url, scene)


@pytest.mark.parametrize(("status", "left"), [(DELAYED, {"result"}), (ENQUEUED, set()), (PENDING, set())])
def test_wait_is_cleared_that_no_run_waits_by_any_more(
    migrated_url: str, status: WorkflowStatus, left: set[str]
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(DELAYED, change_key="mine", **PUT_AWAY)
        await scene.park("waits_note", run_id, "mine", "result", "another run", None, None)
        await scene.manager.execute(f"UPDATE {scene.runs} SET status = ? WHERE workflow_uuid = ?", status, run_id)
        await scene.park("waits_clear", run_id, "result", "another run")
        assert await scene.waits(run_id) == left

    play(migrated_url, scene)


SLOT, NEXT_SLOT = 1_000, 2_000
SCHEDULE: dict[str, Any] = {
    "workflow_name": "w",
    "workflow_class_name": None,
    "schedule": "* * * * *",
    "context": "null",
    "context_serialization": "portable_json",
    "automatic_backfill": False,
    "cron_timezone": "UTC",
    "queue_name": None,
    "passes": 2,
    "jitter_ms": 0,
    "overlap": "allow",
    "next_due": SLOT,
}


@pytest.mark.parametrize(
    ("status", "was", "due"), [("ACTIVE", SLOT, NEXT_SLOT), ("ACTIVE", SLOT - 1, SLOT), ("PAUSED", SLOT, SLOT)]
)
def test_schedule_moves_on_from_the_slot_that_was_read_while_it_is_active(
    migrated_url: str, status: str, was: int, due: int
) -> None:
    async def scene(scene: Scene) -> None:
        name, queries = secrets.token_hex(8), scene.schedules
        await scene.manager.execute(queries["schedule_insert"], schedule_id=name, schedule_name=name, **SCHEDULE)
        await scene.manager.execute(queries["schedule_stand"], schedule_id=name, status=status, next_due=SLOT)
        row = (name, was, NEXT_SLOT, None, None)
        await scene.manager.run(lambda transaction: transaction.execute_batch(queries["schedules_advance"], [row]))
        stored = await scene.manager.fetchone(queries["schedule_get"], name=name)
        assert stored is not None
        assert stored["next_due_epoch_ms"] == due
        await scene.manager.execute(queries["schedule_delete"], schedule_id=name)

    play(migrated_url, scene)


@pytest.mark.parametrize(
    ("status", "key", "is_linked"), [(DELAYED, "mine", True), (DELAYED, "another", False), (ENQUEUED, "mine", False)]
)
def test_only_a_run_that_was_made_for_a_slot_and_waits_is_linked_to_the_one_before(
    migrated_url: str, status: WorkflowStatus, key: str, *, is_linked: bool
) -> None:
    async def scene(scene: Scene) -> None:
        run_id = await scene.insert(status, creation_key=key)
        for name in ("runs_link", "runs_note_links"):
            query, rows = scene.schedules[name], [(run_id, "mine", "the run before")]
            await scene.manager.run(lambda transaction: transaction.execute_batch(query, rows))  # noqa: B023 -- awaited
        row = await scene.row(run_id)
        assert row is not None
        assert (row["wait_kind"], await scene.waits(run_id)) == (("chain", {"chain"}) if is_linked else (None, set()))

    play(migrated_url, scene)


def test_i1_record_is_amended_by_the_execution_that_made_it_alone(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id, amend = await scene.insert(PENDING, steps=2), scene.queries["step_amend"]
        before = await scene.steps(run_id)
        rows = [(run_id, "another token", 1, "[1]", None), (run_id, scene.token(run_id), 2, "[2]", None)]
        await scene.manager.run(lambda transaction: transaction.execute_batch(amend, rows))
        first, second = await scene.steps(run_id)
        assert [first, second["output"]] == [before[0], "[2]"]

    play(migrated_url, scene)


def test_message_that_was_received_is_not_received_again(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id, messages = await scene.insert(PENDING), scene.table("notifications")
        await scene.manager.execute(f"INSERT INTO {scene.table('message_counters')} VALUES (?, 1)", run_id)
        await scene.manager.execute(
            f"INSERT INTO {messages} (message_uuid, destination_uuid, topic, created_at_epoch_ms, consumed, "
            "consumed_by_function_id, sequence) VALUES (?, ?, 't', 1, TRUE, 1, 1)",
            *(run_id, run_id),
        )
        consume = scene.messages["messages_consume"]
        await scene.manager.run(lambda transaction: transaction.execute_batch(consume, [(run_id, 5)]))
        row = await scene.manager.fetchone(f"SELECT * FROM {messages} WHERE message_uuid = ?", run_id)
        assert row is not None
        assert row["consumed_by_function_id"] == 1

    play(migrated_url, scene)


def test_i1_retry_of_an_earlier_execution_cuts_nothing_of_a_run_that_waits_for_its_next(migrated_url: str) -> None:
    async def scene(scene: Scene) -> None:
        run_id, streams = await scene.insert(DELAYED, steps=3), scene.table("streams")
        entry = (run_id, "s", 0, "1", 3, "portable_json", None, None)
        append = stream_queries(scene.manager.dialect, "holdfast")["stream_append"]
        await scene.manager.run(lambda transaction: transaction.execute_batch(append, [entry]))
        before = await scene.row(run_id), await scene.steps(run_id)
        said = await scene.write(RetryRuns(scene.queries), run_id, scene.token(run_id), 2, 1000)
        assert isinstance(said, Superseded)
        assert (await scene.row(run_id), await scene.steps(run_id)) == before
        assert len(await scene.manager.fetch(f"SELECT 1 FROM {streams} WHERE workflow_uuid = ?", run_id)) == 1

    play(migrated_url, scene)
