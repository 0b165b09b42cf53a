"""How many idempotency keys the memory of a process holds: results make room by use, claims only once they are over."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import ClaimLost
from holdfast.stores import InMemoryIdempotencyStore
from holdfast.testing.world import VirtualWorld

MOST = 20


def test_claims_that_nobody_ends_do_not_pile_up() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        store = InMemoryIdempotencyStore(max_entries=MOST, lease_seconds=60, world=world)
        for number in range(50 * MOST):
            assert await store.try_claim(f"k{number}", "f")
            await world.advance(10)
            assert len(store) <= 2 * MOST

    asyncio.run(scene())


def test_claims_of_those_at_work_stay_however_many_there_are() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        store = InMemoryIdempotencyStore(max_entries=MOST, lease_seconds=60, world=world)
        for number in range(10 * MOST):
            assert await store.try_claim(f"k{number}", "f")
        for number in range(10 * MOST):
            await store.store_result(f"k{number}", number)
        assert len(store) == MOST  # the results that were stored last

    asyncio.run(scene())


def test_claim_that_is_over_may_be_ended_until_its_place_is_needed() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        store = InMemoryIdempotencyStore(max_entries=MOST, lease_seconds=60, world=world)
        await store.try_claim("lost", "f")
        for number in range(MOST - 1):
            await store.try_claim(f"k{number}", "f")
        await store.try_claim("late", "f")
        await world.advance(61)
        await store.store_result("late", "in time")
        for number in range(2 * MOST):
            await store.try_claim(f"n{number}", "f")
        with pytest.raises(ClaimLost):
            await store.store_result("lost", "too late")

    asyncio.run(scene())
