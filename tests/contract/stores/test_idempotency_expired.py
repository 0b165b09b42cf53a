"""Idempotency keys that have expired go without anybody's call of ``cleanup``; and what Redis keeps apart."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from holdfast.stores.idempotency.redis import RedisIdempotencyStore
from holdfast.stores.redis import RedisLink
from holdfast.testing.contract import store_idempotency

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

    FreshDatabase = Callable[[str], str]

BACKENDS = ("sqlite", "postgres", "mariadb")
DAY_MS = 86_400_000


def test_new_keys_take_the_place_of_those_that_have_expired(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_idempotency.open_store(ground)
        await asyncio.gather(*(store.set(f"old-{number}", "f", 1, ttl_seconds=60) for number in range(200)))
        await store.try_claim("abandoned", "f", lease_seconds=60)
        await ground.advance(61)
        await asyncio.gather(*(store.set(f"new-{number}", "f", 1, ttl_seconds=60) for number in range(200)))
        assert await store.cleanup() == 0  # it waits for what is being removed
        [row] = await ground.fetch("SELECT COUNT(*) AS number FROM {holdfast_idempotency}")
        assert row["number"] == 201  # a claim is left for a day

    store_venue.play(scene, empty=store_idempotency.TABLES)


def test_redis_lets_keys_go_by_itself(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        link = RedisLink(fresh_database("redis"))
        await link.initialize()
        try:
            await _let_go(link, RedisIdempotencyStore(link, prefix="keys"))
        finally:
            await link.close()

    asyncio.run(scene())


def test_tokens_of_two_redis_databases_do_not_meet(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        links = [RedisLink(fresh_database("redis")) for _ in range(2)]
        for link in links:
            await link.initialize()
        one, other = (RedisIdempotencyStore(link, prefix="keys") for link in links)
        assert await one.try_claim("k", "f")
        assert await other.try_claim("k", "f")
        await one.store_result("k", 1)
        await other.store_result("k", 2)
        for link in links:
            await link.close()

    asyncio.run(scene())


async def _let_go(link: RedisLink, store: RedisIdempotencyStore) -> None:
    await store.try_claim("claimed", "f", lease_seconds=60)
    assert await _left(link, "claimed") > DAY_MS
    await store.extend_claim("claimed", lease_seconds=3600)
    assert await _left(link, "claimed") > DAY_MS + 60_000
    await store.store_result("claimed", 1, ttl_seconds=3600)
    assert 0 < await _left(link, "claimed") <= 3_600_000
    await store.set("stored", "f", 1, ttl_seconds=0.01)
    deadline = time.monotonic() + 60
    while await link.client.exists("{keys}:key:stored"):
        assert time.monotonic() < deadline, "the result does not expire"
        await asyncio.sleep(0.01)
    living = {b"claimed"}
    for call in (store.try_claim, store.set):
        there = await link.client.zcard("{keys}:expiry")
        await link.client.zadd("{keys}:expiry", {f"gone-{number}": 1000 for number in range(255 - there)})
        await call(f"by {call.__name__}", "f", *(() if call == store.try_claim else (1,)))
        living.add(f"by {call.__name__}".encode())
        assert set(await link.client.zrange("{keys}:expiry", 0, -1)) == living


async def _left(link: RedisLink, key: str) -> Any:
    return await link.client.pttl(f"{{keys}}:key:{key}")
