"""A key of Redis is gone, by an eviction or by hand: what is left goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from holdfast.errors import DamagedCheckpoint
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.stores import AsyncRedisCircuitBreakerStateRepository, AsyncRedisDLQRepository, RedisTaskQueue
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from langchain_core.runnables import RunnableConfig

OFFSET = "test-clock-offset"


def play(url: str, scene: Callable[[RedisLink], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        link = RedisLink(url, clock_offset_key=OFFSET)
        await link.initialize()
        try:
            await scene(link)
        finally:
            await link.close()

    asyncio.run(main())


async def lose(link: RedisLink, ending: str) -> None:
    """Delete the keys whose names end so."""
    names = [name async for name in link.client.scan_iter(match=f"*{ending}")]
    assert await link.client.delete(*names) > 0


async def payloads(queue: RedisTaskQueue, name: str) -> list[Any]:
    """Take all that can be taken, and return what it is."""
    found = []
    while (task := await queue.dequeue(name)) is not None:
        found.append(task.payload)
    return found


def test_tasks_that_are_gone_are_passed_over(fresh_database: Callable[[str], str]) -> None:
    async def scene(link: RedisLink) -> None:
        queue = RedisTaskQueue(link)
        ids = [await queue.enqueue(number, "ready") for number in range(5)]
        for gone in ids[:3]:
            await lose(link, f"task:{gone}")
        assert await payloads(queue, "ready") == [3, 4]
        assert (await queue.get_stats("ready"))["total"] == 2
        assert [task.task_id for task in await queue.list_tasks("ready")] == ids[3:]

        delayed = await queue.enqueue("late", "delayed", delay=60)
        await queue.enqueue("late too", "delayed", delay=60)
        leased = await queue.enqueue("lost", "leased")
        await queue.enqueue("lost too", "leased")
        assert len(await queue.dequeue_many(2, "leased")) == 2
        for gone in (delayed, leased):
            await lose(link, f"task:{gone}")
        await link.client.set(OFFSET, 10_000_000)
        assert await queue.requeue_stale("leased") == 1
        assert await payloads(queue, "leased") == ["lost too"]
        assert await payloads(queue, "delayed") == ["late too"]
        assert [(await queue.get_stats(name))["total"] for name in ("leased", "delayed")] == [1, 1]

    play(fresh_database("redis"), scene)


def test_task_that_is_put_again_after_it_was_gone_is_handed_out_once(fresh_database: Callable[[str], str]) -> None:
    async def scene(link: RedisLink) -> None:
        queue = RedisTaskQueue(link)
        await queue.enqueue("first", "q", task_id="same")
        await lose(link, "task:same")
        await queue.enqueue("second", "q", task_id="same")
        assert await payloads(queue, "q") == ["second"]
        assert (await queue.get_stats("q"))["total"] == 1

    play(fresh_database("redis"), scene)


def test_letter_that_is_owed_for_a_task_that_is_gone_is_owed_no_more(fresh_database: Callable[[str], str]) -> None:
    async def refuse(**_: Any) -> None:
        raise OSError("not now")

    async def scene(link: RedisLink) -> None:
        class Sink:
            create = staticmethod(refuse)

        queue = RedisTaskQueue(link, dead_letters=Sink())  # type: ignore[arg-type]
        dead = await queue.enqueue("dies", "q", max_attempts=1)
        assert await queue.dequeue("q") is not None
        assert await queue.fail(dead, "no")
        await lose(link, f"task:{dead}")
        await link.client.set(OFFSET, 10_000_000)
        await queue.enqueue("goes on", "q")
        assert await payloads(queue, "q") == ["goes on"]
        assert await link.client.keys("*:owed") == []

    play(fresh_database("redis"), scene)


def test_open_breakers_that_are_gone_are_passed_over(fresh_database: Callable[[str], str]) -> None:
    async def scene(link: RedisLink) -> None:
        breakers = AsyncRedisCircuitBreakerStateRepository(link)
        for name in ("a", "b", "c"):
            await breakers.trip_to_open(name, 5)
        await link.client.hdel("{holdfast}:breakers", "a")
        assert [each.service_name for each in await breakers.get_open_states(2)] == ["b", "c"]
        await lose(link, ":breakers")
        assert await breakers.get_open_states() == []
        await breakers.trip_to_open("b", 5)
        assert [each.service_name for each in await breakers.get_open_states()] == ["b"]
        await breakers.close()

    play(fresh_database("redis"), scene)


def test_summaries_that_are_gone_are_passed_over(fresh_database: Callable[[str], str]) -> None:
    async def scene(link: RedisLink) -> None:
        letters = AsyncRedisDLQRepository(link)
        for domain in ("a", "b"):
            await letters.create(domain, "t")
        await letters.compress_and_evict_oldest(2)
        first, second = await letters.get_compressed_entries()
        await lose(link, f"c:{first.id}")
        assert await letters.get_compressed_entries() == [second]

    play(fresh_database("redis"), scene)


def test_letter_that_is_not_what_was_written_is_left_out_and_told(
    fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(link: RedisLink) -> None:
        letters = AsyncRedisDLQRepository(link)
        bad, good = [(await letters.create("d", "t")).id for _ in range(2)]
        [name] = [name async for name in link.client.scan_iter(match=f"*r:{bad}")]
        await link.client.hset(name, "b", "[]")
        letters = AsyncRedisDLQRepository(link)
        assert [each.id for each in await letters.find()] == [good]
        assert await letters.get_by_id(bad) is None
        assert await letters.evict_oldest(2) == 1

    with caplog.at_level(logging.WARNING, "holdfast.dead_letters"):
        play(fresh_database("redis"), scene)
    assert "not what was written" in caplog.text


def test_checkpoint_of_a_thread_that_is_gone_is_told_and_the_thread_can_be_deleted(
    fresh_database: Callable[[str], str],
) -> None:
    url = fresh_database("redis")
    where: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with HoldfastSaver(url) as saver:
        first, second = empty_checkpoint(), empty_checkpoint()
        saver.put(where, first, {}, {})
        saver.put(where, second, {}, {})
        play(url, lambda link: lose(link, f":{second['id']}"))
        for use in (
            lambda: saver.get_tuple(where),
            lambda: list(saver.list(where)),
            lambda: saver.prune(["t"]),
            lambda: saver.copy_thread("t", "other"),
        ):
            with pytest.raises(DamagedCheckpoint, match=f"{second['id']} of the thread 't'"):
                use()
        older = saver.get_tuple({"configurable": {**where["configurable"], "checkpoint_id": first["id"]}})
        assert older is not None
        saver.delete_thread("t")
        assert saver.get_tuple(where) is None
        assert list(saver.list(None)) == []
