"""Listings while others write: what fits all the time is seen once, however often it is moved or others are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import AsyncRedisDLQRepository, AsyncSQLFailedOperationRepository
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

ROUNDS = 60
MANY = 450  # more than Redis is asked for at once


@pytest.mark.parametrize("database", ["sqlite", "postgres", "mariadb"])
def test_record_that_moves_from_status_to_status_is_listed_once(
    fresh_database: Callable[[str], str], database: str
) -> None:
    async def play() -> None:
        async with (
            ConnectionManager(fresh_database(database)) as manager,
            AsyncSQLFailedOperationRepository(manager) as letters,
        ):
            every = {(await letters.create("shop", "timeout")).id for _ in range(5)}
            at_rest = asyncio.Event()

            async def move() -> None:
                while not at_rest.is_set():
                    for status in ("reviewing", "pending"):
                        await letters.bulk_update_status(sorted(every), status)

            moving = asyncio.create_task(move())
            try:
                for _ in range(ROUNDS):
                    seen = [record.id for record in await letters.find(domain="shop", failure_type="timeout")]
                    assert len(seen) == len(every)
                    assert set(seen) == every
            finally:
                at_rest.set()
                await moving

    asyncio.run(play())


class Watched(RedisLink):
    """A link on which somebody writes after the first part of a listing was read."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def run(self, script: Path, *args: Any, **options: Any) -> Any:
        reply = await super().run(script, *args, **options)
        meanwhile = self.meanwhile
        if meanwhile is not None and script.stem in {"page", "summaries"}:
            self.meanwhile = None
            await meanwhile()
        return reply


def test_long_listing_on_redis_shows_everything_once_while_others_come_and_go(
    fresh_database: Callable[[str], str],
) -> None:
    async def play() -> None:
        async with Watched(fresh_database("redis")) as link:
            letters = AsyncRedisDLQRepository(link)
            every = [(await letters.create("shop", "timeout", error_code=str(at))).id for at in range(MANY)]

            async def go() -> None:
                await letters.bulk_update_status(every[:50] + every[-50:], "reviewing")

            async def come() -> None:
                await letters.bulk_update_status(every[:50] + every[-50:], "pending")
                await letters.create("shop", "timeout")

            for newest in (True, False):
                link.meanwhile = go
                page = await letters.find_page(status="pending", limit=2 * MANY, newest_first=newest)
                assert {each.id for each in page} >= set(every[50:-50])
                link.meanwhile = come
                page = await letters.find_page(status="pending", limit=2 * MANY, newest_first=newest)
                assert len(page) == len({each.id for each in page}) >= MANY - 100
            assert await letters.compress_and_evict_oldest(MANY) == MANY

            async def evict() -> None:
                await letters.compress_and_evict_oldest(MANY)

            link.meanwhile = evict
            summaries = await letters.get_compressed_entries(limit=2 * MANY)
            assert len(summaries) == len({each.id for each in summaries}) >= MANY

    asyncio.run(play())
