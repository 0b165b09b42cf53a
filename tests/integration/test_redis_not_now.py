"""A Redis server that refuses writes for a moment: what was refused has changed nothing, and is tried again."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from holdfast.errors import Unavailable, WrongLoop
from holdfast.stores import RedisDLQRepository, RedisTaskQueue, TaskWorker
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_blocking import BlockingRedisLink

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from holdfast.stores import Task
    from holdfast.testing.servers.server import Server

PATIENCE = 60
IDLE = 8
STATS = dict.fromkeys(("pending", "processing", "completed", "failed", "dead_lettered", "total"), 0)


@pytest.fixture
def count(tmp_path: Path) -> Path:
    """A script that counts its calls."""
    script = tmp_path / "count.lua"
    script.write_text("return redis.call('INCR', KEYS[1])\n", "utf-8")
    return script


def _read_only(server: Redis) -> None:
    server.replicaof("127.0.0.1", 1)


def _without_replicas(server: Redis) -> None:
    server.config_set("min-replicas-to-write", 1)


def _full(server: Redis) -> None:
    server.config_set("maxmemory", 1)


def _well(server: Redis) -> None:
    server.replicaof("NO", "ONE")
    server.config_set("min-replicas-to-write", 0)
    server.config_set("maxmemory", 0)


WAYS = [(_read_only, "READONLY"), (_without_replicas, "NOREPLICAS"), (_full, "OOM")]


def _refusals(server: Redis, code: str) -> int:
    told = server.info("errorstats").get(f"errorstat_{code}", {"count": 0})
    return int(told["count"])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _driven(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call that never waits for a loop."""
    try:
        call.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("It waited for a loop.")


@pytest.mark.parametrize(("refuse", "code"), WAYS)
def test_script_that_is_refused_for_a_moment_is_run_again(
    own_server: Callable[..., Server], count: Path, refuse: Callable[[Redis], None], code: str
) -> None:
    server = own_server("redis")

    async def main() -> None:
        with Redis.from_url(server.url) as admin:
            async with RedisLink(server.url) as link:
                assert await link.run(count, ["n"]) == 1
                refuse(admin)
                running = asyncio.create_task(link.run(count, ["n"]))
                async with asyncio.timeout(PATIENCE):
                    while not _refusals(admin, code):  # noqa: ASYNC110 -- what it looks at is no event
                        await asyncio.sleep(0.01)
                _well(admin)
                assert await running == 2

    asyncio.run(main())


@pytest.mark.parametrize(("refuse", "code"), WAYS)
@pytest.mark.parametrize("blocking", [False, True])
def test_server_that_goes_on_refusing_is_unavailable_and_has_done_nothing(
    own_server: Callable[..., Server], count: Path, refuse: Callable[[Redis], None], code: str, *, blocking: bool
) -> None:
    server = own_server("redis")
    with Redis.from_url(server.url) as admin:
        if blocking:
            link: RedisLink = BlockingRedisLink(server.url)
            _driven(link.initialize())
            refuse(admin)
            with pytest.raises(Unavailable):
                _driven(link.run(count, ["n"]))
            _driven(link.close())
        else:

            async def main() -> None:
                async with RedisLink(server.url) as link:
                    refuse(admin)
                    with pytest.raises(Unavailable):
                        await link.run(count, ["n"])

            asyncio.run(main())
        assert _refusals(admin, code) > 1
        _well(admin)
        assert admin.get("n") is None


def test_outcome_of_a_task_is_written_when_the_server_takes_it_again(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")
    done: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(task: Task) -> None:
        begun.set()
        await go_on.wait()
        done.append(task.attempts)

    async def main() -> None:
        with Redis.from_url(server.url) as admin:
            async with RedisLink(server.url) as link, asyncio.timeout(PATIENCE):
                queue = RedisTaskQueue(link)
                await queue.enqueue("charge")
                worker = TaskWorker(queue, {"default": handler}, poll_interval=0.05)
                running = asyncio.create_task(worker.run())
                await begun.wait()
                _read_only(admin)
                go_on.set()
                # More than the link itself tries.
                while _refusals(admin, "READONLY") < 12:  # noqa: ASYNC110 -- what it looks at is no event
                    await asyncio.sleep(0.02)
                _well(admin)
                while await queue.get_stats() != {**STATS, "completed": 1, "total": 1}:  # noqa: ASYNC110 -- what it looks at is no event
                    await asyncio.sleep(0.02)
                worker.stop()
                await running

    asyncio.run(main())
    assert done == [1]


def test_connections_that_ended_at_rest_cost_one_try_and_not_one_each(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")
    with Redis.from_url(server.url) as admin:
        letters = RedisDLQRepository(server.url)
        letters.initialize()
        admin.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        threads = [threading.Thread(target=letters.create, args=("d", "t")) for _ in range(IDLE)]
        for each in threads:
            each.start()
        _until(lambda: len(admin.client_list()) > IDLE)
        admin.execute_command("CLIENT", "UNPAUSE")
        for each in threads:
            each.join(PATIENCE)
        while len(admin.client_list()) > 1:
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert letters.create("d", "t").domain == "d"
        assert len(letters.find(limit=100)) == IDLE + 1
        letters.close()


def test_tasks_that_open_a_link_at_once_leave_no_connection_behind(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")

    async def main() -> None:
        link = RedisLink(server.url)
        await asyncio.gather(*(link.initialize() for _ in range(5)))
        await link.close()

    asyncio.run(main())
    with Redis.from_url(server.url) as admin:
        _until(lambda: len(admin.client_list()) == 1)


def test_link_on_another_loop_says_so(fresh_database: Callable[[str], str], count: Path) -> None:
    link = RedisLink(fresh_database("redis"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(link.initialize())

    async def elsewhere() -> None:
        for call in (link.run(count, ["n"]), link.read("get", "n"), link.initialize()):
            with pytest.raises(WrongLoop):
                await call

    asyncio.run(elsewhere())
    loop.run_until_complete(link.close())
    loop.close()
    asyncio.run(_used_again(link, count))


async def _used_again(link: RedisLink, count: Path) -> None:
    async with link:
        assert await link.run(count, ["n"]) == 1
