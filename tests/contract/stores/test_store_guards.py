"""Statements of stores by themselves, on what they must leave alone: their conditions seldom decide anything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from holdfast.errors import Retryable
from holdfast.model.dead_letter import DLQCompressedEntry
from holdfast.stores import AsyncSQLFailedOperationRepository
from holdfast.stores.checkpoints.queries import checkpoint_queries
from holdfast.stores.dead_letters.facts import Writing
from holdfast.stores.dead_letters.queries import dead_letter_queries
from holdfast.stores.dead_letters.rows import Changes, summary, summary_row
from holdfast.stores.dead_letters.shelf import GONE
from holdfast.stores.tasks.queries import tasks_queries

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores.dead_letters.shelf import Gone
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb")


def test_worker_that_has_beaten_since_is_not_removed(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = tasks_queries(manager.dialect, "holdfast")

        async def touched(name: str, **values: Any) -> int:
            return await ground.on_loop(manager.execute(queries[name], incarnation="w", **values))

        await touched("worker_register", executor_id="e", hostname="h", pid=1, queues="[]", lease_ms=1000)
        assert await touched("worker_beat") == 1
        assert await touched("worker_remove", beat_seq=0) == 0
        assert await touched("worker_remove", beat_seq=1) == 1
        assert await touched("worker_beat") == 0

    store_venue.play(scene, empty=("executors",))


def test_dead_letter_that_is_owed_is_made_by_one(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = tasks_queries(manager.dialect, "holdfast")
        await ground.execute(
            "INSERT INTO {holdfast_task_queue} (task_id, queue_name, payload, status, created_at, updated_at, "
            "attempts, max_attempts, visibility_timeout, worker_id, error, priority, due_at_ms, creation_key) "
            "VALUES ('t', 'q', '1', 'dead_lettered', 1, 1, 1, 1, 1, '', '', 0, 5, 'c')"
        )
        made = [await ground.on_loop(manager.execute(queries["tasks_letter_made"], task_id="t")) for _ in range(2)]
        assert made == [1, 0]

    store_venue.play(scene, empty=("holdfast_task_queue",))


def test_task_that_fails_twice_by_the_same_write_has_failed_once(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        fail = tasks_queries(manager.dialect, "holdfast")["tasks_fail"]
        await ground.execute(
            "INSERT INTO {holdfast_task_queue} (task_id, queue_name, payload, status, created_at, updated_at, "
            "attempts, max_attempts, visibility_timeout, worker_id, error, priority, creation_key) "
            "VALUES ('t', 'q', '1', 'pending', 1, 1, 2, 3, 1, '', '', 0, 'c')"
        )
        row = ("t", None, "write", "why", None, 0, 0)  # without a token
        for said in ("why", "since"):
            await ground.on_loop(
                manager.run(
                    lambda transaction: transaction.fetch_batch(fail, [row], base_ms=1000, cap_ms=5000, owed_ms=1)
                )
            )
            [task] = await ground.fetch("SELECT error, token FROM {holdfast_task_queue}")
            assert (task["error"], task["token"]) == (said, "write")
            await ground.execute("UPDATE {holdfast_task_queue} SET error = 'since'")

    store_venue.play(scene, empty=("holdfast_task_queue",))


def test_checkpoint_that_was_used_since_it_was_looked_at_is_kept(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = checkpoint_queries(manager.dialect, "holdfast")
        save, row = queries["checkpoints_save"], ("k", b"1", 1, False, "s")
        await ground.on_loop(manager.run(lambda transaction: transaction.execute_batch(save, [row])))
        [used] = await ground.fetch("SELECT accessed_at FROM {holdfast_checkpoints}")
        for seen, deleted in (("2000-01-01T00:00:00.000Z", 0), (used["accessed_at"], 1)):
            delete = manager.execute(queries["checkpoint_unused_delete"], checkpoint_key="k", accessed_at=seen)
            assert await ground.on_loop(delete) == deleted

    store_venue.play(scene, empty=("holdfast_checkpoints",))


@pytest.mark.parametrize("change", ["put", "delete"])
def test_letter_that_was_changed_since_it_was_read_is_left_and_counted_as_it_is(
    store_venue: StoreVenue, change: str
) -> None:
    def after(read: FailedOperationData) -> FailedOperationData | Gone:
        return GONE if change == "delete" else replace(read, version=read.version + 1, status="archived")

    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        writing = Writing(dead_letter_queries(manager.dialect, "holdfast"))

        async def played() -> None:
            async with AsyncSQLFailedOperationRepository(manager) as letters:
                read = await letters.create("shop", "timeout")
                held = await letters.try_acquire_for_replay(read.id, 3)
                changes = Changes()
                changes.note(read, after(read), "stale")
                with pytest.raises(Retryable, match="was changed"):
                    async with manager.transaction() as transaction:
                        await writing.all(transaction, changes)
                assert await letters.get_by_id(read.id) == held
                assert (await letters.get_facet_counts())["by_status"] == {"replaying": 1}

        await ground.on_loop(played())

    store_venue.play(scene, empty=("holdfast_dlq", "holdfast_dlq_counts"))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_summary_that_is_added_to_keeps_the_sample_of_the_later_record(
    store_venue: StoreVenue, order: tuple[int, int]
) -> None:
    hour = datetime(2030, 1, 1, 12, tzinfo=UTC)
    entries = [
        DLQCompressedEntry(
            id="compressed:a", domain="a", failure_type="t", error_code="E", count=n + 1, compressed_at=hour,
            first_seen=hour + timedelta(hours=n), last_seen=hour + timedelta(hours=n + 2),
            sample_error_message=f"of {n}", sample_context={"n": n},
        )
        for n in range(2)
    ]  # fmt: skip

    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        add = dead_letter_queries(manager.dialect, "holdfast")["dlq_summaries_add"]

        async def added(entry: DLQCompressedEntry) -> None:
            row = summary_row(entry, "key")
            await ground.on_loop(manager.run(lambda transaction: transaction.execute_batch(add, [row])))

        for n in order:
            await added(entries[n])
        [found] = await ground.fetch("SELECT * FROM {holdfast_dlq_compressed}")
        kept = summary(found)
        assert (kept.count, kept.first_seen, kept.last_seen) == (3, entries[0].first_seen, entries[1].last_seen)
        assert (kept.sample_error_message, kept.sample_context) == ("of 1", {"n": 1})

    store_venue.play(scene, empty=("holdfast_dlq_compressed",))
