"""Redis, or a cluster of it, is away: every error is one of ours, and a worker goes on when it is back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import redis

from holdfast.errors import DatabaseError, QueryFailed, Unavailable, UnknownCommit
from holdfast.model.world import RealWorld
from holdfast.stores import (
    AsyncRedisCircuitBreakerStateRepository,
    AsyncRedisDLQRepository,
    RedisDLQRepository,
    RedisIdempotencyStore,
    RedisLockStore,
    RedisTaskQueue,
    TaskWorker,
)
from holdfast.stores.flow.redis_shelf import RedisShelf
from holdfast.stores.flow.shelf import Wanted
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_blocking import BlockingRedisLink
from holdfast.stores.threads.redis_threads import RedisThreads
from holdfast.testing.servers.redis_cluster import RedisCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.stores import Task
    from holdfast.testing.servers.server import Server

PATIENCE = 60
NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def outcomes(queue: RedisTaskQueue) -> dict[str, type[BaseException] | None]:
    """Return what each call of a queue raises."""
    calls: dict[str, Any] = {
        "enqueue": queue.enqueue(1),
        "dequeue": queue.dequeue(),
        "get": queue.get("x"),
        "get_stats": queue.get_stats(),
        "list_tasks": queue.list_tasks(),
        "purge": queue.purge(),
        "requeue_stale": queue.requeue_stale(),
    }
    raised = await asyncio.gather(*calls.values(), return_exceptions=True)
    return {
        name: type(each) if isinstance(each, BaseException) else None for name, each in zip(calls, raised, strict=True)
    }


AWAY = {
    "enqueue": UnknownCommit,
    "dequeue": UnknownCommit,
    "get": Unavailable,
    "get_stats": Unavailable,
    "list_tasks": Unavailable,
    "purge": Unavailable,
    "requeue_stale": Unavailable,
}


def test_calls_of_a_queue_whose_server_is_gone_raise_our_errors(own_server: Callable[..., Server]) -> None:
    async def main() -> None:
        server = own_server("redis")
        async with RedisLink(server.url) as link:
            queue = RedisTaskQueue(link)
            assert set((await outcomes(queue)).values()) == {None}
            await asyncio.to_thread(server.kill)
            assert await outcomes(queue) == AWAY

    asyncio.run(main())


def reads(link: RedisLink) -> list[Coroutine[Any, Any, Any]]:
    """Return the calls of all stores that read by a script, or first of all do so."""
    letters, breakers = AsyncRedisDLQRepository(link), AsyncRedisCircuitBreakerStateRepository(link)
    flows, threads = RedisShelf(link, RealWorld(), prefix="{flow}:", ttl=None), RedisThreads(link)
    return [
        letters.get_by_id("x"),
        letters.find(),
        letters.count_created_in_window(NOW, NOW),
        letters.count_all(),
        letters.get_compressed_entries(),
        letters.update_status("x", "resolved"),
        breakers.get_by_service_name("x"),
        breakers.get_all_states(),
        breakers.get_open_states(),
        breakers.get_history("x"),
        breakers.reset("x"),
        RedisIdempotencyStore(link).get("x"),
        RedisLockStore(link).get("x"),
        flows.get("x"),
        flows.query(Wanted("x")),
        threads.find("x", "", None),
        threads.prune(["x"]),
    ]


def test_read_that_is_not_answered_leaves_nothing_in_doubt(own_server: Callable[..., Server]) -> None:
    async def main() -> None:
        server = own_server("redis")
        async with RedisLink(server.url) as link, BlockingRedisLink(server.url) as blocking:
            await asyncio.gather(*reads(link), RedisLockStore(blocking).get("x"))
            await asyncio.to_thread(server.kill)
            with pytest.raises(Unavailable):
                await RedisLockStore(blocking).get("x")
            raised = await asyncio.gather(*reads(link), return_exceptions=True)
            assert {type(each) for each in raised} == {Unavailable}

    asyncio.run(main())


def test_what_the_server_refuses_is_our_error_too(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")

    async def main() -> None:
        async with RedisLink(server.url) as link:
            await link.client.acl_setuser("weak", enabled=True, nopass=True, commands=["-@all"])
            await link.client.set("{holdfast:tasks}:task:x", "no hash")
            with pytest.raises(QueryFailed, match="WRONGTYPE"):
                await RedisTaskQueue(link).get("x")
        weak = "redis://weak:@" + link.address
        for refused in (RedisLink(weak), BlockingRedisLink(weak)):
            with pytest.raises(Unavailable):
                await refused.initialize()

    asyncio.run(main())


def test_connections_that_were_lost_do_not_count_for_ever(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")
    with (
        RedisDLQRepository(f"{server.url}?max_connections=3") as letters,  # of the driver, whose own limit is 100
        redis.Redis.from_url(server.url) as other,
    ):
        for _ in range(5):
            assert letters.count_all() == 0
            assert other.client_kill_filter(_type="normal", skipme=True) == 1
        assert letters.count_all() == 0


def test_worker_on_a_cluster_goes_on_when_that_is_back(own_server: Callable[..., Server]) -> None:
    own_server("redis")  # skips where there is none
    done: list[Any] = []

    async def handler(task: Task) -> None:
        done.append(task.payload)

    async def main() -> None:
        with RedisCluster(nodes=1) as cluster:
            async with RedisLink(cluster.url) as link:
                queue = RedisTaskQueue(link)
                await queue.enqueue("before")
                worker = TaskWorker(queue, {"default": handler}, poll_interval=0.05)
                running = asyncio.create_task(worker.run())
                await until(lambda: done == ["before"])
                await asyncio.to_thread(cluster.kill)
                assert await outcomes(queue) == AWAY
                with pytest.raises(Unavailable):
                    await RedisLink(cluster.url).initialize()
                await asyncio.to_thread(cluster.restart)
                await enqueued(queue, "after")
                await until(lambda: done[-1] == "after")
                worker.stop()
                await running

    asyncio.run(main())


async def enqueued(queue: RedisTaskQueue, payload: Any) -> None:
    """Put a task, as soon as the cluster takes it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await queue.enqueue(payload)
            except DatabaseError:
                await asyncio.sleep(0.1)
            else:
                return


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- what it looks at is no event
            await asyncio.sleep(0.02)
