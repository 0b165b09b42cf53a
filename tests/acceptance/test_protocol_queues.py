"""Queues under the ownership protocol, with real processes: limits hold at every commit, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.db import ConnectionManager
from holdfast.testing.stage import Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery
    from holdfast.testing.workers import Worker

PROGRAM = Path(__file__).parent / "programs" / "queue_worker.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
SERVERS = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


@pytest.fixture
def queue_stage(
    fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> Iterator[Callable[[str], Stage]]:
    """Call with "sqlite", "postgres" or "mariadb" for a stage of queue workers; they are killed afterwards."""
    with ExitStack() as afterwards:
        yield lambda kind: Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery)


def tell(worker: Worker, *command: Any) -> None:
    """Have a worker do something, and wait until it has."""
    worker.tell(*command)
    worker.hear("done", *command)


def runs_of(stage: Stage, queue: str) -> list[dict[str, Any]]:
    return stage.fetch(
        "SELECT workflow_uuid, status, queue_partition_key, started_at_epoch_ms, completed_at, executor_id "
        "FROM {runs} WHERE queue_name = ?",
        queue,
    )


def ended(stage: Stage, queue: str, count: int) -> bool:
    statuses = [row["status"] for row in runs_of(stage, queue)]
    return len(statuses) == count and set(statuses) == {"SUCCESS"}


def most_at_once(rows: list[dict[str, Any]]) -> int:
    """Return how many runs there were at once, by the record alone.

    A claim is counted after the ends it makes use of are committed, and both have their times from the same clock, so
    runs that followed each other in one slot do not overlap.
    """
    changes = [(row["started_at_epoch_ms"], 1) for row in rows] + [(row["completed_at"], -1) for row in rows]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


@contextmanager
def watching(stage: Stage, queue: str) -> Iterator[list[int]]:
    """Count the runs of a queue that are PENDING, again and again, each time as one committed moment shows them."""
    seen: list[int] = []
    enough = threading.Event()

    async def watch() -> None:
        async with ConnectionManager(stage.url, pool_size=1) as manager:
            runs = f"{'holdfast.' if manager.dialect == 'postgres' else ''}workflow_status"
            while not enough.is_set():
                row = await manager.fetchone(
                    f"SELECT count(*) AS n FROM {runs} WHERE queue_name = ? AND status = 'PENDING'", queue
                )
                assert row is not None
                seen.append(row["n"])
                await asyncio.sleep(0.002)

    thread = threading.Thread(target=asyncio.run, args=(watch(),))
    thread.start()
    try:
        yield seen
    finally:
        enough.set()
        thread.join()


@EVERY_KIND
def test_i8_no_moment_shows_more_runs_than_the_limit(queue_stage: Callable[[str], Stage], kind: str) -> None:
    stage = queue_stage(kind)
    workers = [stage.ready(slow=0.02) for _ in range(3)]
    tell(workers[0], "register", "few", {"concurrency": 4, "polling_interval_sec": 0.05})
    with watching(stage, "few") as seen:
        tell(workers[0], "enqueue", "few", 60, 0.02)
        until(lambda: ended(stage, "few", 60))
    assert max(seen) <= 4
    assert 2 <= most_at_once(runs_of(stage, "few")) <= 4


@EVERY_KIND
def test_i8_limit_holds_and_all_end_without_wake_ups(queue_stage: Callable[[str], Stage], kind: str) -> None:
    stage = queue_stage(kind)
    workers = [stage.ready(app={"notify": False}) for _ in range(2)]
    tell(workers[0], "register", "few", {"concurrency": 4, "worker_concurrency": 2, "polling_interval_sec": 0.05})
    with watching(stage, "few") as seen:
        tell(workers[0], "enqueue", "few", 40, 0.05)
        until(lambda: ended(stage, "few", 40))
    assert max(seen) <= 4
    assert 2 <= most_at_once(runs_of(stage, "few")) <= 4


@SERVERS
def test_i8_queue_that_somebody_holds_waits_and_the_others_do_not(
    queue_stage: Callable[[str], Stage], kind: str
) -> None:
    stage = queue_stage(kind)
    worker, other = stage.ready(), stage.ready()
    tell(worker, "register", "few", {"concurrency": 2, "polling_interval_sec": 0.05})
    tell(worker, "register", "free", {})
    queues = f"{'holdfast.' if kind == 'postgres' else ''}queues"

    async def hold() -> None:
        async with ConnectionManager(stage.url) as manager, manager.transaction() as transaction:
            await transaction.fetch(f"SELECT * FROM {queues} WHERE name = ? FOR UPDATE", "few")
            await asyncio.to_thread(tell, worker, "enqueue", "few", 12, 0.01)
            await asyncio.to_thread(tell, other, "enqueue", "free", 20, 0.0)
            await asyncio.to_thread(until, lambda: ended(stage, "free", 20))
            assert {row["status"] for row in await asyncio.to_thread(runs_of, stage, "few")} == {"ENQUEUED"}

    asyncio.run(hold())
    until(lambda: ended(stage, "few", 12))
    assert most_at_once(runs_of(stage, "few")) <= 2


@EVERY_KIND
def test_i8_rate_limit_holds_within_every_period(queue_stage: Callable[[str], Stage], kind: str) -> None:
    stage = queue_stage(kind)
    workers = [stage.ready(slow=0.01) for _ in range(3)]
    tell(workers[0], "register", "paced", {"rate_limit_max": 5, "rate_limit_period_sec": 0.5})
    tell(workers[0], "enqueue", "paced", 20, 0.0)
    until(lambda: ended(stage, "paced", 20))
    began = sorted(row["started_at_epoch_ms"] for row in runs_of(stage, "paced"))
    spans = [later - first for first, later in zip(began, began[5:], strict=False)]
    assert min(spans) >= 500, spans


@EVERY_KIND
@pytest.mark.parametrize("place", ["claim.before_commit", "run.claimed", "run.before_user_code"])
def test_i8_crash_leaks_no_slot(queue_stage: Callable[[str], Stage], kind: str, place: str) -> None:
    stage = queue_stage(kind)
    survivor = stage.ready()
    tell(survivor, "register", "few", {"concurrency": 2, "polling_interval_sec": 0.05})
    tell(survivor, "pause", "few")
    tell(survivor, "enqueue", "few", 8, 0.01)
    stage.pause(survivor)  # so that the other one gets there first
    victim = stage.ready(die=[place, 1])
    stage.execute(f"UPDATE {'holdfast.' if kind == 'postgres' else ''}queues SET paused = FALSE")
    assert victim.end() != 0
    with watching(stage, "few") as seen:
        survivor.wake()
        until(lambda: ended(stage, "few", 8))
    assert max(seen) <= 2


@EVERY_KIND
def test_i6_runs_of_killed_and_paused_workers_all_end(queue_stage: Callable[[str], Stage], kind: str) -> None:
    stage = queue_stage(kind)
    first, second, third = (stage.ready() for _ in range(3))
    tell(first, "register", "plain", {"polling_interval_sec": 0.1})
    tell(first, "enqueue", "plain", 150, 0.3)
    until(lambda: any(row["status"] == "PENDING" for row in runs_of(stage, "plain")))
    first.kill()
    stage.pause(second)
    until(lambda: ended(stage, "plain", 150))
    second.wake()
    assert third.alive
    assert ended(stage, "plain", 150)


@EVERY_KIND
def test_i11_claims_stop_at_capacity(queue_stage: Callable[[str], Stage], kind: str) -> None:
    stage = queue_stage(kind)
    worker = stage.ready(app={"max_runs": 7})
    tell(worker, "register", "plain", {})
    with watching(stage, "plain") as seen:
        tell(worker, "enqueue", "plain", 60, 0.02)
        until(lambda: ended(stage, "plain", 60))
    assert 1 <= max(seen) <= 7


@EVERY_KIND
def test_i12_twice_as_many_parents_as_threads_wait_for_queued_children_and_end(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    app = Holdfast(fresh_database(kind), max_workflow_threads=2)

    @app.workflow
    def child(number: int) -> int:
        return 2 * number

    @app.workflow
    def parent(number: int) -> int:
        queued = child.options(queue_name="children")
        return sum(handle.result() for handle in [queued.enqueue(number), queued.enqueue(number)])

    with app:
        app.register_queue("children", concurrency=1)
        app.register_queue("parents")
        handles = [parent.options(queue_name="parents").enqueue(number) for number in range(4)]
        assert [handle.result(timeout=120) for handle in handles] == [0, 4, 8, 12]


@EVERY_KIND
def test_tenant_with_much_to_do_does_not_keep_the_others_waiting(
    queue_stage: Callable[[str], Stage], kind: str
) -> None:
    stage = queue_stage(kind)
    worker = stage.ready()
    tell(worker, "register", "shared", {"partition_queue": True, "concurrency": 50})
    tell(worker, "pause", "shared")
    tell(worker, "enqueue", "shared", 2_000, 0.0, "large")
    for tenant in range(9):
        tell(worker, "enqueue", "shared", 10, 0.0, f"small {tenant}")
    tell(worker, "resume", "shared")

    def small() -> list[dict[str, Any]]:
        return stage.fetch(
            "SELECT completed_at FROM {runs} WHERE queue_name = 'shared' AND queue_partition_key LIKE 'small%' "
            "AND status = 'SUCCESS'"
        )

    until(lambda: len(small()) == 90)
    last = max(row["completed_at"] for row in small())
    [large] = stage.fetch(
        "SELECT count(*) AS n FROM {runs} WHERE queue_partition_key = 'large' AND completed_at < ?", last
    )
    assert large["n"] <= 200
