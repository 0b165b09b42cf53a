"""Listings of dead letters in Redis go through the statuses of an index at once, in the order of making."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

from holdfast.model.dead_letter import IN_FLIGHT, FailedOperationData, FailedOperationStatus
from holdfast.stores.dead_letters.redis import AsyncRedisDLQRepository, RedisShelf
from holdfast.stores.dead_letters.shelf import Wanted
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable

EACH = 6


def test_page_begins_anywhere_whatever_the_statuses_are(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with RedisLink(fresh_database("redis")) as link, AsyncRedisDLQRepository(link) as letters:
            made: list[FailedOperationData] = []
            for status, number in product(FailedOperationStatus, range(EACH)):
                # Many at once, so that some have one and the same millisecond.
                few = await asyncio.gather(*(letters.create(f"d{number % 2}", "t") for _ in range(3)))
                for each in few[: 1 + number % 3]:
                    await letters.update_status(each.id, status)
                made += [record for each in few if (record := await letters.get_by_id(each.id)) is not None]
            shelf = RedisShelf(link)
            for newest, domain, evictable in product((False, True), (None, "d0"), (False, True)):
                order = sorted(made, key=lambda each: (each.created_at, each.id), reverse=newest)
                right = [
                    each.id
                    for each in order
                    if domain in {None, each.domain} and not (evictable and each.status in IN_FLIGHT)
                ]
                for offset in (*range(0, len(right), 7), len(right) - 1, len(right), len(right) + 5):
                    wanted = Wanted(domain=domain, evictable=evictable, newest=newest, limit=5, offset=offset)
                    assert [each.id for each in await shelf.find(wanted)] == right[offset : offset + 5]
                assert await shelf.count(Wanted(domain=domain, evictable=evictable, limit=1)) == len(right)
                beyond = next(each for each in order if each.id == right[3])
                assert beyond.created_at is not None
                wanted = Wanted(
                    domain=domain, evictable=evictable, newest=newest, limit=999, beyond=(beyond.created_at, beyond.id)
                )
                assert [each.id for each in await shelf.find(wanted)] == right[4:]

    asyncio.run(play())


def test_status_that_nobody_has_is_no_ones(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with RedisLink(fresh_database("redis")) as link, AsyncRedisDLQRepository(link) as letters:
            for status in FailedOperationStatus:
                await letters.update_status((await letters.create("d", "t")).id, status)
            assert await letters.find(status="none of them") == []
            assert [each.status for each in await letters.find(status="archived")] == ["archived"]

    asyncio.run(play())
