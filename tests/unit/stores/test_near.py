"""In a SQLite file a thread makes single writes itself: it wakes no loop, and waits for none."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.portal import Portal
from holdfast.errors import ExecutionConflict, PipelineClosed
from holdfast.stores.checkpoints.blocking import SyncCheckpointStore
from holdfast.stores.checkpoints.database import DBCheckpointStore
from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
from holdfast.stores.dead_letters.queue_blocking import SyncDeadLetterQueue
from holdfast.stores.events.blocking import SyncEventStore
from holdfast.stores.events.store import DBEventStoreBackend
from holdfast.stores.executions.blocking import SyncExecutionStore
from holdfast.stores.executions.database import DBExecutionStore
from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
from holdfast.stores.idempotency.database import DBIdempotencyStore
from holdfast.stores.tasks.blocking import SyncTaskQueue
from holdfast.stores.tasks.database import SQLTaskQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STORES: dict[str, tuple[Any, Any]] = {
    "events": (DBEventStoreBackend, SyncEventStore),
    "checkpoints": (DBCheckpointStore, SyncCheckpointStore),
    "executions": (DBExecutionStore, SyncExecutionStore),
    "idempotency": (DBIdempotencyStore, SyncIdempotencyStore),
    "tasks": (SQLTaskQueue, SyncTaskQueue),
    "dead_letters": (DBDeadLetterQueue, SyncDeadLetterQueue),
}


class Place:
    """Stores in one file, whose loop can be held up."""

    def __init__(self, path: Path) -> None:
        self.portal = Portal()
        self.portal.start()
        self.manager = ConnectionManager(path)
        self.opened: list[Any] = []

    def store(self, name: str, **options: Any) -> Any:
        make, blocking = STORES[name]
        store = blocking(make(self.manager, **options), self.portal)
        store.initialize()
        self.opened.append(store)
        return store

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Nothing goes on on the loop for the length of the block."""
        begun, gate = threading.Event(), threading.Event()

        async def hold() -> None:
            begun.set()
            gate.wait()

        holder = threading.Thread(target=lambda: self.portal.call(hold()))
        holder.start()
        begun.wait()
        try:
            yield
        finally:
            gate.set()
            holder.join()

    def close(self) -> None:
        for store in self.opened:
            store.close()
        self.portal.call(self.manager.close())
        self.portal.stop()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "near.db")
    yield made
    made.close()


def claimed(keys: Any) -> str:
    """Return a key that this thread has claimed."""
    assert keys.try_claim("k", "f")
    return "k"


def taken(tasks: Any) -> str:
    """Return the id of a task that this thread has taken."""
    tasks.enqueue({}, task_id="t")
    task: str = tasks.dequeue().task_id
    return task


def dead(letters: Any) -> str:
    """Return the id of a dead letter that this thread has claimed."""
    letters.enqueue("w", "boom", {})
    [item] = letters.dequeue_ready()
    found: str = item["id"]
    return found


CALLS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "append": ("events", lambda _: None, lambda events, _: len(events.append("s", [{"type": "a"}])) == 1),
    "save": ("checkpoints", lambda _: None, lambda points, _: points.save("c", b"x") is None),
    "load": ("checkpoints", lambda points: points.save("c", b"x"), lambda points, _: points.load("c") == b"x"),
    "record_start": ("executions", lambda _: None, lambda runs, _: runs.record_start("r") is None),
    "record_completion": (
        "executions",
        lambda runs: runs.record_start("r"),
        lambda runs, _: runs.record_completion("r", 1) is None,
    ),
    "record_failure": (
        "executions",
        lambda runs: runs.record_start("r"),
        lambda runs, _: runs.record_failure("r", "boom") is None,
    ),
    "store_result": ("idempotency", claimed, lambda keys, key: keys.store_result(key, 1) is None),
    "release_claim": ("idempotency", claimed, lambda keys, key: keys.release_claim(key)),
    "extend_claim": ("idempotency", claimed, lambda keys, key: keys.extend_claim(key)),
    "task enqueue": ("tasks", lambda _: None, lambda tasks, _: tasks.enqueue({}, task_id="new") == "new"),
    "task complete": ("tasks", taken, lambda tasks, task: tasks.complete(task)),
    "task extend": ("tasks", taken, lambda tasks, task: tasks.extend(task)),
    "letter enqueue": ("dead_letters", lambda _: None, lambda letters, _: letters.enqueue("w", "boom", {})),
    "letter extend": ("dead_letters", dead, lambda letters, item: letters.extend(item)),
    "letter mark_success": ("dead_letters", dead, lambda letters, item: letters.mark_success(item)),
    "letter mark_failure": ("dead_letters", dead, lambda letters, item: letters.mark_failure(item, "again")),
}
FIRST: dict[str, Callable[[Any], Any]] = {
    "events": lambda store: store.append("first", [{"type": "a"}]),
    "checkpoints": lambda store: store.save("first", b""),
    "executions": lambda store: store.record_start("first"),
    "idempotency": lambda store: store.set("first", "f", 1),
    "tasks": lambda store: store.complete(store.enqueue({})),
    "dead_letters": lambda store: store.mark_success(store.enqueue("w", "boom", {})),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("call", CALLS)
def test_single_write_of_a_thread_waits_for_no_loop(place: Place, call: str) -> None:
    name, before, verb = CALLS[call]
    store = place.store(name)

    def calling() -> None:
        FIRST[name](store)
        prepared = before(store)
        with place.held_up():
            assert verb(store, prepared)

    copy_context().run(calling)  # which takes the tokens it is left with along


def test_who_follows_on_the_loop_hears_of_what_a_thread_appends(place: Place) -> None:
    events = place.store("events", poll_interval=3600)
    events.append("s", [{"type": "first"}])
    following, heard = events.follow("s"), []
    assert next(following)["type"] == "first"
    listener = threading.Thread(target=lambda: heard.append(next(following)["type"]))
    listener.start()
    while not any(each.waits for each in events._store._followers._following.get("s", ())):
        pass
    events.append("s", [{"type": "second"}])
    listener.join(30)
    assert heard == ["second"]


def test_store_with_limits_keeps_them_whoever_saves(place: Place) -> None:
    points = place.store("checkpoints", max_entries=2)
    for number in range(4):
        points.save(f"c{number}", b"x")
    assert points.list_keys() == ["c2", "c3"]


def test_refusal_reaches_the_thread(place: Place) -> None:
    runs = place.store("executions")
    for each in ("r", "s"):
        runs.record_start(each)
        with pytest.raises(ExecutionConflict, match="give every run an id of its own"):
            runs.record_start(each)


def test_closed_store_opens_again_and_one_without_its_database_says_so(place: Place) -> None:
    runs = place.store("executions")
    runs.record_start("a")
    runs.record_start("b")
    runs.close()
    runs.record_start("c")
    runs.record_start("d")
    place.portal.call(place.manager.close())
    with pytest.raises(PipelineClosed):
        runs.record_start("e")
    runs.close()
    runs.initialize()
    assert [each["run_id"] for each in runs.list_executions()] == ["d", "c", "b", "a"]


def test_many_threads_and_the_loop_write_to_one_store(place: Place) -> None:
    events = place.store("events")
    events.append("s", [{"type": "first"}])

    def write() -> None:
        for _ in range(50):
            events.append("s", [{"type": "near"}])
            events.append("s", [{"type": "one"}, {"type": "two"}], expected_sequence=None)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for _ in range(50):
        place.portal.call(events._store.append("s", [{"type": "loop"}]))
    for each in threads:
        each.join()
    assert [each["sequence"] for each in events.get("s")] == list(range(1, 1 + 1 + 8 * 50 * 3 + 50))
