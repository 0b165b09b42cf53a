"""Dead letters: both colours are the same, the interface is the documented one, and each class stands by itself."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.dead_letters import Standing
from holdfast.db import ConnectionManager
from holdfast.errors import NotInitialized, Unavailable
from holdfast.stores import (
    AsyncFailedOperationRepository,
    AsyncInMemoryFailedOperationRepository,
    AsyncSQLFailedOperationRepository,
    DBDeadLetterQueue,
    FailedOperationData,
    FailedOperationRepository,
    InMemoryFailedOperationRepository,
    PersistentDLQ,
    RedisCircuitBreakerStateRepository,
    RedisDLQRepository,
    SQLCircuitBreakerStateRepository,
    SQLFailedOperationRepository,
)
from holdfast.stores.dead_letters.blocking import BlockingFailedOperations
from holdfast.stores.dead_letters.remembered import Remembered, ServerClock

if TYPE_CHECKING:
    from pathlib import Path

# What the document says of each method: its parameters with their defaults.
DOCUMENTED = {
    "create": "domain, failure_type, error_message='', error_code='', entity_type=None, entity_id=None, "
    "entity_refs=None, user_id=None, snapshot_data=None, request_data=None, response_data=None, metadata=None, "
    "retry_count=0, max_retries=2, next_action_hint='', recommended_action='', expires_at=None",
    "get_by_id": "id",
    "get_pending_by_domain": "domain, limit=100",
    "get_pending_count_by_domain": "domain",
    "update_status": "id, status, resolution_type='', resolution_note='', resolved_by_id=None, recommended_action=''",
    "increment_retry_count": "id",
    "mark_as_resolved": "id, resolution_type, resolution_note='', resolved_by_id=None",
    "get_expired_operations": "before_date, limit=100",
    "bulk_update_status": "ids, status",
    "find_by_status": "status, domain=None, failure_type=None, limit=100",
    "find": "*, status=None, domain=None, failure_type=None, offset=0, limit=100",
    "count": "*, status=None, domain=None, failure_type=None",
    "count_created_in_window": "start, end",
    "find_replayable": "max_retries, domain=None, failure_type=None, limit=100",
    "find_sla_breached": "current_time, sla_thresholds",
    "find_expired": "current_time",
    "get_statistics": "",
    "get_facet_counts": "*, status=None, domain=None",
    "try_acquire_for_replay": "id, max_retries, force=False",
    "complete_replay": "id, success, resolution_type='', note='', resolved_by_id=None, error_details=None",
    "release_stale_replaying": "older_than_minutes=30",
    "archive_old_resolved": "older_than_days=30",
    "purge_archived": "ids=None, older_than_days=None",
    "get_cleanup_stats": "",
    "count_archived_older_than": "older_than_days",
    "count_all": "",
    "count_by_domain": "domain",
    "get_oldest_ids": "count, domain=None",
    "delete": "entry_id",
    "evict_oldest": "count, domain=None",
}
OPTIONAL = {
    "compress_and_evict_oldest": "count, domain=None",
    "store_compressed_entry": "entry",
    "get_compressed_entries": "domain=None, status=None, limit=100",
    "get_compressed_summary": "",
    "update_compressed_status": "entry_id, new_status",
}


def _plain(method: Any) -> str:
    """Return the parameters of a method without their types."""
    signature = inspect.signature(method)
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(inspect.Signature(parameters[1:])).strip("()")


def _methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(DOCUMENTED | OPTIONAL))
def test_interface_has_the_documented_method(name: str) -> None:
    method = getattr(FailedOperationRepository, name)
    assert _plain(method) == (DOCUMENTED | OPTIONAL)[name]
    assert getattr(method, "__isabstractmethod__", False) is (name in DOCUMENTED)


def test_interface_has_no_other_abstract_method() -> None:
    assert FailedOperationRepository.__abstractmethods__ == DOCUMENTED.keys()


def test_both_colours_have_the_same_methods() -> None:
    assert _methods(BlockingFailedOperations) == _methods(AsyncFailedOperationRepository)


@pytest.mark.parametrize("name", sorted(_methods(BlockingFailedOperations)))
def test_both_colours_have_the_same_signature_and_say_the_same(name: str) -> None:
    sync, asynchronous = getattr(BlockingFailedOperations, name), getattr(AsyncFailedOperationRepository, name)
    assert str(inspect.signature(sync)) == str(inspect.signature(asynchronous))
    assert inspect.getdoc(sync) == inspect.getdoc(asynchronous)


def test_storage_of_ones_own_need_not_sum_up() -> None:
    bodies = {name: lambda self, *given, **named: 3 for name in DOCUMENTED}
    plain: Any = type("Plain", (FailedOperationRepository,), bodies)()
    assert plain.compress_and_evict_oldest(3) == 3  # what evict_oldest returns
    assert plain.get_compressed_entries() == []
    assert plain.get_compressed_summary()["total_summaries"] == 0
    assert plain.update_compressed_status("x", "stale") is plain.store_compressed_entry(object()) is False


def test_threads_hold_tokens_of_their_own(tmp_path: Path) -> None:
    with SQLFailedOperationRepository(f"sqlite:///{tmp_path}/letters.db") as letters, ThreadPoolExecutor(1) as other:
        entry = letters.create("d", "t").id
        assert other.submit(letters.try_acquire_for_replay, entry, 3).result() is not None
        assert not letters.complete_replay(entry, True)
        assert other.submit(letters.complete_replay, entry, True).result()


def test_repository_in_memory_is_safe_for_threads() -> None:
    letters = InMemoryFailedOperationRepository()
    entries = [letters.create("d", "t").id for _ in range(50)]
    begin = threading.Barrier(8)

    def race() -> int:
        begin.wait()
        return sum(letters.try_acquire_for_replay(entry, 99) is not None for entry in entries)

    with ThreadPoolExecutor(8) as threads:
        won = [each.result() for each in [threads.submit(race) for _ in range(8)]]
    assert sum(won) == 50
    assert letters.get_statistics()["by_status"] == {"replaying": 50}


def test_repository_that_is_not_open_says_so(tmp_path: Path) -> None:
    letters = SQLFailedOperationRepository(f"sqlite:///{tmp_path}/letters.db")
    with pytest.raises(NotInitialized):
        letters.count()
    with letters:
        assert letters.count() == 0
    letters.close()
    with pytest.raises(NotInitialized):
        letters.count()
    with pytest.raises(NotInitialized):
        letters.create("d", "t")


@pytest.mark.parametrize(
    "kind",
    [
        SQLFailedOperationRepository,
        SQLCircuitBreakerStateRepository,
        RedisDLQRepository,
        RedisCircuitBreakerStateRepository,
    ],
)
def test_repository_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path, kind: Any) -> None:
    nowhere = "redis://127.0.0.1:1/0" if "Redis" in kind.__name__ else f"sqlite:///{tmp_path}/nowhere/letters.db"
    before = set(threading.enumerate())
    with pytest.raises(Unavailable), kind(nowhere):
        pass
    assert set(threading.enumerate()) <= before


def test_single_operations_in_a_file_are_changed_by_the_thread_that_asks(tmp_path: Path) -> None:
    with SQLFailedOperationRepository(f"sqlite:///{tmp_path}/letters.db") as letters:
        busy = threading.Event()
        loop = letters._portal._loop
        assert loop is not None
        loop.call_soon_threadsafe(busy.wait, 60)  # nobody is served there
        try:
            entry = letters.create("d", "t", request_data={"a": 1}).id
            taken = letters.try_acquire_for_replay(entry, 3)
            assert taken is not None
            assert taken.request_data == {"a": 1}
            assert letters.extend_replay(entry)
            assert letters.complete_replay(entry, True, token=taken.replay_token)
            assert letters.complete_replay(entry, True, token=taken.replay_token)  # it has ended so
            assert not letters.complete_replay("another", True)
            assert letters.update_status(entry, "archived")
        finally:
            busy.set()
        assert letters.get_statistics()["by_status"] == {"archived": 1}


def test_repository_of_an_application_stays_on_its_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with ConnectionManager(f"sqlite:///{tmp_path}/letters.db") as manager:
            store = AsyncSQLFailedOperationRepository(manager)
            await store.initialize()
            async with manager.transaction() as tx:
                made = await store.within(tx).create("d", "t", "kept")
            with pytest.raises(RuntimeError, match="given up"):
                async with manager.transaction() as tx:
                    await store.within(tx).create("d", "t", "not kept")
                    raise RuntimeError("given up")
            assert [record.id for record in await store.find()] == [made.id]
            queue = DBDeadLetterQueue(manager)
            async with manager.transaction() as tx:
                item_id = await queue.enqueue_in(tx, "run", "boom", {"a": 1})
            [item] = await queue.dequeue_ready()
            assert (item["id"], queue.manager) == (item_id, manager)
            await queue.close()
            await store.close()

    asyncio.run(main())


def test_acquisition_whose_caller_is_cancelled_is_given_back(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path}/letters.db"
        async with ConnectionManager(url) as manager, AsyncSQLFailedOperationRepository(manager) as store:
            entry = (await store.create("d", "t")).id
            task = asyncio.create_task(store.try_acquire_for_replay(entry, 3))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            free = await store.get_by_id(entry)
            assert free is not None
            assert (free.status, free.retry_count, free.version) == ("pending", 0, 3)

    asyncio.run(main())


def test_persistent_queue_keeps_its_items_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with PersistentDLQ() as queue:
            item_id = await queue.enqueue("wf-1", "boom", {"input": "data"})
        async with PersistentDLQ(tmp_path / "holdfast_dlq.db") as again:
            [item] = await again.dequeue_ready()
            assert (item["id"], item["payload"]) == (item_id, {"input": "data"})
            assert await again.mark_success(item_id)
            await again.close()

    asyncio.run(main())


def test_long_names_have_summaries_of_their_own() -> None:
    async def main() -> None:
        letters = AsyncInMemoryFailedOperationRepository()
        for code in ("a", "b"):
            await letters.create("d" * 255, "t" * 255, error_code=code * 255)
        assert await letters.compress_and_evict_oldest(2) == 2
        entries = await letters.get_compressed_entries()
        assert len({entry.id for entry in entries}) == 2
        assert all(len(entry.id) <= 512 for entry in entries)

    asyncio.run(main())


def test_record_cannot_be_changed() -> None:
    record = FailedOperationData(id="x", domain="d", failure_type="t")
    with pytest.raises(AttributeError):
        record.status = "resolved"  # type: ignore[misc]


def test_json_of_a_record_leaves_out_what_is_usual_and_the_usual_never_changes() -> None:
    usual = FailedOperationData(
        id="a", domain="d", failure_type="t", status="pending", entity_refs={}, snapshot_data={}, error_code="",
        error_message="", retry_count=0, max_retries=2, request_data={}, response_data={}, metadata={}, error="",
    )  # fmt: skip
    usual = replace(
        usual, entity_type=None, entity_id=None, user_id=None, last_retry_at=None, resolved_at=None,
        resolved_by_id=None, resolution_type="", resolution_note="", next_action_hint="", recommended_action="",
    )  # fmt: skip
    usual = replace(
        usual, created_at=None, updated_at=None, expires_at=None, workflow_id=None, payload=None, retry_delay=None,
        next_retry_at=None, replay_token=None, replay_beat_at=None, version=1,
    )  # fmt: skip
    stored = b'{"id":"a","domain":"d","failure_type":"t"}'
    assert msgspec.json.encode(usual) == stored
    assert msgspec.json.decode(stored, type=FailedOperationData) == usual
    assert msgspec.json.encode(Standing()) == b"{}"


def test_what_redis_was_sent_is_remembered_up_to_so_many_bytes() -> None:
    remembered, now = Remembered(), datetime(2030, 1, 1, tzinfo=UTC)
    for number in range(Remembered.MOST + 1):
        remembered.note(str(number), b"x" * Remembered.LARGEST, now, "key")
    assert (remembered.get("0"), remembered.get("1") is None) == (None, False)
    remembered.note("1", b"x" * (Remembered.LARGEST + 1), now, "later")
    assert remembered.get("1") is None


def test_time_taken_for_the_servers_is_whole_milliseconds_as_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([10.0, 10.0019, 10.0021])
    monkeypatch.setattr("holdfast.stores.dead_letters.remembered.monotonic", lambda: next(ticks))
    clock = ServerClock()
    assert clock.now_ms() is None
    clock.hear(1_900_000_000_000)
    assert [clock.now_ms(), clock.now_ms()] == [1_900_000_000_001, 1_900_000_000_002]
