"""Workers of tasks and holders of locks are killed, cut off and raced: nothing is lost, nothing is anybody's twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import RedisLink, RedisLockStore, RedisTaskQueue, SQLLockStore, SQLTaskQueue
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.workers import PATIENCE, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "task_worker.py"
KINDS = ["sqlite", "postgres", "mariadb", "redis"]
# The points at which the backends do the same are tried on two of them every time, and on all in a soak.
SOME_KINDS = ["sqlite", "redis", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("postgres", "mariadb"))]
TASKS = 12
PROCESSES, CLAIMERS, ROUNDS = 4, 25, 50
SHORT, LONG = 1, 3600  # seconds of a lease: of one who dies with it, and of one who must not lose it on a slow machine


@pytest.fixture
def worker(nursery: Nursery, tmp_path: Path) -> Callable[..., Worker]:
    """Call with a URL for a process that works there, or does what else it is told to."""

    def start(url: str, do: str = "work", **given: Any) -> Worker:
        return Worker(PROGRAM, nursery, url=url, folder=str(tmp_path), do=do, **given)

    return start


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def with_queue(url: str, scene: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    async def play() -> Any:
        async with RedisLink(url) if url.startswith("redis") else ConnectionManager(url) as base:
            queue: Any = RedisTaskQueue(base) if isinstance(base, RedisLink) else SQLTaskQueue(base)
            await queue.initialize()
            try:
                return await scene(queue)
            finally:
                await queue.close()

    return asyncio.run(play())


def put(url: str, payloads: list[Any], **options: Any) -> list[str]:
    found: list[str] = with_queue(url, lambda queue: queue.enqueue_many(payloads, visibility_timeout=1, **options))
    return found


def stats(url: str) -> dict[str, int]:
    found: dict[str, int] = with_queue(url, lambda queue: queue.get_stats())
    return found


def until_stats(url: str, condition: Callable[[dict[str, int]], bool]) -> None:
    """Ask for the statistics until they are as wanted."""

    async def ask(queue: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if condition(await queue.get_stats()):
                    return
                await asyncio.sleep(0.05)

    with_queue(url, ask)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_worker_loses_no_task(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    ids = put(url, list(range(TASKS)), max_attempts=9)
    for point, at in (("task.taken", 1), ("task.ended", 2)):
        with worker(url, point=point, at=at) as victim:
            assert victim.end() == -signal.SIGKILL
    with worker(url) as heir:
        until_stats(url, lambda found: found["completed"] == TASKS)
        heir.tell("stop")
        assert heir.end() == 0
    effects = lines(tmp_path / "effects")
    assert {task_id for task_id, _ in effects} == set(ids)
    assert set(Counter(token for _, token in effects).values()) == {1}  # what was done twice was done under two claims


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_killed_worker_owes_its_dead_letters(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    ids = put(url, ["fail"] * 3, max_attempts=1)
    with worker(url, point="task.letter_owed", at=2) as first:
        assert first.end() == -signal.SIGKILL
    with worker(url) as second:
        until_stats(url, lambda found: found["dead_lettered"] == len(ids))
        second.tell("stop")
        assert second.end() == 0
    made = {letter[0] for letter in lines(tmp_path / "letters")}
    assert made < set(ids)  # the one at which it was killed is made a minute later by whoever looks
    assert with_queue(url, lambda queue: queue.purge()) <= len(made)  # nobody forgets it meanwhile


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_killed_producer_has_put_all_it_said(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)
    with worker(url, "put", count=20, point="task.put", at=7) as producer:
        assert producer.end() == -signal.SIGKILL
        said = [words[1] for words in producer.heard("put")]
    assert said == [f"t{number}" for number in range(6)]
    listed = with_queue(url, lambda queue: queue.list_tasks())
    assert [task.task_id for task in listed] == [*said, "t6"]  # the last was stored, and nobody was told


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_processes_take_each_task_once(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    ids = put(url, list(range(100)))
    with worker(url) as first, worker(url) as second:
        until_stats(url, lambda found: found["completed"] == len(ids))
        for each in (first, second):
            each.tell("stop")
            assert each.end() == 0
    done = [task_id for task_id, _ in lines(tmp_path / "effects")]
    # A lease of one second may run out on a busy machine; then, and only then, a task is done under two claims.
    claims = Counter(token for _, token in lines(tmp_path / "effects"))
    assert set(done) == set(ids)
    assert set(claims.values()) == {1}


@pytest.mark.parametrize("kind", ["sqlite"])
def test_terminated_worker_finishes_what_it_has(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)
    put(url, list(range(50)))
    with worker(url) as only:
        until_stats(url, lambda found: found["completed"] > 5)
        os.kill(only.pid, signal.SIGTERM)
        assert only.end() == 0
    found = stats(url)
    assert found["processing"] == 0
    assert found["completed"] + found["pending"] == 50


@pytest.mark.parametrize("kind", KINDS)
def test_lock_of_a_killed_holder_is_free_after_its_lease(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    with worker(url, "lock", rounds=100, ttl=SHORT, point="lock.acquired", at=3) as first:
        assert first.end() == -signal.SIGKILL
    with ExitStack() as both:
        heirs = [both.enter_context(worker(url, "lock", rounds=4, ttl=LONG)) for _ in range(2)]
        for heir in heirs:
            heir.hear("done")
    held = lines(tmp_path / "held")
    tokens = [token for what, token, _ in held if what == "in"]
    assert tokens == sorted(set(tokens))  # they only grow, whoever holds it
    assert tokens[:2] == [1, 2]
    assert tokens[2] == 4  # the third was acquired by one that died before it could say so
    assert len(tokens) == 10
    for entered, left in zip(held[::2], held[1::2], strict=True):
        assert (entered[0], left[0], entered[1:]) == ("in", "out", left[1:])  # never two inside


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_lock_that_a_killed_holder_has_given_back_is_free_at_once(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    with worker(url, "lock", rounds=100, ttl=LONG, point="lock.released", at=2) as holder:
        assert holder.end() == -signal.SIGKILL
    with worker(url, "lock", rounds=1, ttl=LONG) as heir:
        heir.hear("done")
    assert [token for what, token, _ in lines(tmp_path / "held") if what == "in"] == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_hundred_claimers_in_processes_have_one_winner_of_each_task_and_lock(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)

    async def one_each(queue: Any) -> None:
        await asyncio.gather(*(queue.enqueue(number, f"race-{number}") for number in range(ROUNDS)))

    with_queue(url, one_each)
    with ExitStack() as all_of_them:
        given = {"rounds": ROUNDS, "claimers": CLAIMERS}
        racers = [all_of_them.enter_context(worker(url, "race", **given)) for _ in range(PROCESSES)]
        for racer in racers:
            racer.hear("ready")
        for racer in racers:
            racer.tell("go")
        won = [racer.hear("won", patience=600) for racer in racers]
    assert Counter(number for _, tasks, _ in won for number in tasks) == dict.fromkeys(range(ROUNDS), 1)
    assert Counter(number for _, _, leases in won for number in leases) == dict.fromkeys(range(ROUNDS), 1)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_processes_race_for_one_lock(
    kind: str, fresh_database: Callable[[str], str], worker: Callable[..., Worker], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    with ExitStack() as all_of_them:
        racers = [all_of_them.enter_context(worker(url, "lock", rounds=50, ttl=LONG)) for _ in range(4)]
        for racer in racers:
            racer.hear("done", patience=600)
    held = lines(tmp_path / "held")
    assert [token for what, token, _ in held if what == "in"] == list(range(1, 201))
    for entered, left in zip(held[::2], held[1::2], strict=True):
        assert (entered[0], left[0], entered[1:]) == ("in", "out", left[1:])


TRIGGERS = {
    "postgres": (b"__asyncpg_stmt_",),
    "mariadb": (b"COMMIT", b"`holdfast_"),  # a statement that stands alone is its own commit
    "redis": (b"EVALSHA",),
}


@pytest.mark.parametrize(("kind", "trigger"), [(kind, each) for kind, some in TRIGGERS.items() for each in some])
@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_lost_reply_changes_nothing(kind: str, trigger: bytes, cut: Cut, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    parts = urlsplit(url)

    async def scene() -> None:
        async with Proxy("127.0.0.1", parts.port or 0) as proxy:
            cut_off = parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{proxy.port}").geturl()
            async with RedisLink(cut_off) if kind == "redis" else ConnectionManager(cut_off) as base:
                queue: Any = RedisTaskQueue(base) if isinstance(base, RedisLink) else SQLTaskQueue(base)
                locks: Any = RedisLockStore(base) if isinstance(base, RedisLink) else SQLLockStore(base)
                await queue.initialize()
                await queue.enqueue("warm", "warm")
                await queue.dequeue("warm")

                async def cut_at(call: Coroutine[Any, Any, Any]) -> Any:
                    before = proxy.cuts
                    proxy.arm(trigger, cut)
                    answer = await call
                    assert proxy.cuts == before + 1 or trigger == b"COMMIT"
                    proxy.arm(b"never said", cut)
                    return answer

                ids = [await cut_at(queue.enqueue(number, task_id=f"t{number}", max_attempts=2)) for number in range(3)]
                assert ids == ["t0", "t1", "t2"]
                tasks = [await cut_at(queue.dequeue()) for _ in ids]
                assert [(task.task_id, task.attempts) for task in tasks] == [("t0", 1), ("t1", 1), ("t2", 1)]
                assert await queue.dequeue() is None
                assert await cut_at(queue.complete("t0"))
                assert await cut_at(queue.fail("t1", "once", retry_in=0))
                assert await cut_at(queue.release("t2"))
                again = {task.task_id: task.attempts for task in await queue.dequeue_many(5)}
                assert again == {"t1": 2, "t2": 1}
                lease = await cut_at(locks.acquire("k"))
                assert lease.token == 1
                assert await cut_at(locks.extend(lease, 60))
                assert await cut_at(locks.release(lease))
                assert (await locks.acquire("k")).token == 2
                await queue.close()
                await locks.close()

    asyncio.run(scene())
