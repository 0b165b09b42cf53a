"""Tokens of one Redis server are no tokens of another, though their keys have the same names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.stores import AsyncRedisCircuitBreakerStateRepository, AsyncRedisDLQRepository, RedisTaskQueue
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable


def test_task_is_ended_where_it_was_taken(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        links = [RedisLink(fresh_database("redis")) for _ in range(2)]
        queues = [RedisTaskQueue(link) for link in links]
        for link, queue in zip(links, queues, strict=True):
            await link.initialize()
            await queue.enqueue({}, task_id="same")
            assert await queue.dequeue() is not None
        assert [await queue.complete("same") for queue in queues] == [True, True]
        for link in links:
            await link.close()

    asyncio.run(main())


def test_slot_of_a_breaker_is_released_where_it_was_acquired(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        links = [RedisLink(fresh_database("redis")) for _ in range(2)]
        repositories = [AsyncRedisCircuitBreakerStateRepository(link) for link in links]
        for link, breakers in zip(links, repositories, strict=True):
            await link.initialize()
            await breakers.trip_to_open("api", 5)
            assert (await breakers.try_acquire_half_open_slot("api", 1, 60))[0]
        assert [await breakers.release_half_open_slot("api") for breakers in repositories] == [True, True]
        for link, breakers in zip(links, repositories, strict=True):
            await breakers.close()
            await link.close()

    asyncio.run(main())


def test_letter_that_was_copied_is_ended_where_it_was_taken(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        links = [RedisLink(fresh_database("redis")) for _ in range(2)]
        first, second = (AsyncRedisDLQRepository(link) for link in links)
        for link in links:
            await link.initialize()
        letter = await first.create("d", "t")
        for name in await links[0].client.keys("*"):
            await links[1].client.restore(name, 0, await links[0].client.dump(name))
        for letters in (first, second):
            assert await letters.try_acquire_for_replay(letter.id, 2) is not None
        assert [await letters.complete_replay(letter.id, success=True) for letters in (first, second)] == [True, True]
        for link in links:
            await link.close()

    asyncio.run(main())
