"""What Redis keeps of things that are over: no more than a retry may ask for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.stores import AsyncRedisCircuitBreakerStateRepository, RedisIdempotencyStore, RedisTaskQueue
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 600
RETRY = 120  # seconds, twice as long as a call is tried again


def test_names_of_keys_go_soon_after_the_keys(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis"), clock_offset_key="offset") as link:
            store = RedisIdempotencyStore(link, prefix="p")
            for number in range(CALLS):
                await link.client.set("offset", number * 1000)
                claim = await store.claim(f"{number}", "f")
                await store.store_result(f"{number}", 1, ttl_seconds=1, token=claim.token)
            assert await link.client.zcard("{p}:expiry") <= 256 + 1

    asyncio.run(main())


def test_claim_that_is_over_keeps_its_name_as_long_as_redis_keeps_it(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis"), clock_offset_key="offset") as link:
            store = RedisIdempotencyStore(link, prefix="p")
            await store.claim("k", "f", lease_seconds=1)
            await link.client.set("offset", 3600_000)
            assert await store.cleanup() == 0
            await link.client.set("offset", 2 * 86_400_000)
            assert await store.cleanup() == 1
            assert await link.client.keys("{p}*") == []

    asyncio.run(main())


def test_receipts_and_claims_are_kept_no_longer_than_somebody_asks_again(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            await AsyncRedisCircuitBreakerStateRepository(link, prefix="p").record_failure("api")
            queue = RedisTaskQueue(link, prefix="t")
            await queue.enqueue(1)
            await queue.dequeue()
            kept = [name async for name in link.client.scan_iter() if b":receipt:" in name or b":claim:" in name]
            assert len(kept) == 2
            for name in kept:
                assert 0 < await link.client.ttl(name) <= RETRY

    asyncio.run(main())


def test_listing_asks_once_for_a_page_and_not_for_every_task(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            queue = RedisTaskQueue(link)
            for number in range(CALLS):
                await queue.enqueue(number, queue_name="busy", task_id=f"{number:04}")
            await queue.enqueue("rare", queue_name="rare", task_id="zz")
            asked: list[object] = []
            run, read = link.run, link.read

            async def counted(*args: object, **options: object) -> object:
                asked.append(args)
                return await run(*args, **options)  # type: ignore[arg-type]

            async def counted_read(*args: object) -> object:
                asked.append(args)
                return await read(*args)  # type: ignore[arg-type]

            link.run, link.read = counted, counted_read  # type: ignore[method-assign, assignment]
            assert [task.payload for task in await queue.list_tasks("rare")] == ["rare"]
            assert len(asked) == 2
            assert [task.payload for task in await queue.list_tasks(limit=3, after="0001")] == [2, 3, 4]
            assert len(asked) == 3

    asyncio.run(main())


def test_breaker_of_a_user_without_channels_is_written_and_answered(own_server: Callable[..., object]) -> None:
    url: str = own_server("redis").url  # type: ignore[attr-defined]

    async def main() -> None:
        async with RedisLink(url) as link:
            user = {"enabled": True, "passwords": ["+pw"], "keys": ["*"], "commands": ["+@all"]}
            await link.client.acl_setuser("app", **user)
        async with RedisLink(f"redis://app:pw@{link.address}") as weak:
            breakers = AsyncRedisCircuitBreakerStateRepository(weak)
            assert (await breakers.get_or_create("api")).service_name == "api"
            await breakers.record_failure("api")
            found = await breakers.get_by_service_name("api")
            assert found is not None
            assert found.failure_count == 1

    asyncio.run(main())
