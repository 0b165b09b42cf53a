"""The worlds: the machine's, and the one that a test steers."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from holdfast.model.world import RealWorld, uuid7
from holdfast.testing.world import VirtualWorld


def test_virtual_sleepers_wake_in_the_order_of_their_ends() -> None:
    async def scene() -> list[tuple[str, float]]:
        world = VirtualWorld()
        woken: list[tuple[str, float]] = []

        async def sleeper(name: str, *naps: float) -> None:
            for nap in naps:
                await world.sleep(nap)
                woken.append((name, world.monotonic()))

        tasks = [
            asyncio.create_task(sleeper(name, *naps))
            for name, naps in {"late": (5.0,), "twice": (1.0, 1.0), "early": (1.5,), "tie": (5.0,)}.items()
        ]
        await asyncio.sleep(0)
        assert world.sleepers == 4
        await world.advance(4.9)
        assert world.sleepers == 2
        await world.advance(0.1)
        await asyncio.gather(*tasks)
        return woken

    assert asyncio.run(scene()) == [("twice", 1.0), ("early", 1.5), ("twice", 2.0), ("late", 5.0), ("tie", 5.0)]


def test_virtual_sleeper_stays_asleep_until_its_time_has_passed() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        task = asyncio.create_task(world.sleep(10))
        await world.advance(9.999)
        assert not task.done()
        await world.advance(0.001)
        assert task.done()

    asyncio.run(scene())


def test_virtual_sleeper_that_is_cancelled_is_not_counted_and_harms_nobody() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        gone, stays = asyncio.create_task(world.sleep(1)), asyncio.create_task(world.sleep(1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert world.sleepers == 1
        await world.advance(1)
        assert stays.done()
        assert gone.cancelled()

    asyncio.run(scene())


def test_virtual_time_can_wait_until_those_at_work_are_asleep() -> None:
    async def scene() -> int:
        world, gate = VirtualWorld(), asyncio.Event()

        async def work() -> None:
            await world.sleep(1)
            await gate.wait()
            await world.sleep(1)

        worker = asyncio.create_task(work())
        await world.advance(1)
        waiting = asyncio.create_task(world.until_asleep(1))
        await world.advance(1)
        assert not waiting.done()
        gate.set()
        await waiting
        await world.advance(1)
        await worker
        return world.sleepers

    assert asyncio.run(scene()) == 0


@pytest.mark.parametrize("seconds", [0, -1])
def test_virtual_sleep_of_no_time_only_lets_others_run(seconds: float) -> None:
    async def scene() -> list[str]:
        world, order = VirtualWorld(), []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        await world.sleep(seconds)
        order.append("sleeper")
        await task
        return order

    assert asyncio.run(scene()) == ["other", "sleeper"]


def test_virtual_world_repeats_ids_and_draws_for_a_seed() -> None:
    def signs(seed: int) -> tuple[list[str], list[float]]:
        world = VirtualWorld(seed=seed)
        return [world.new_id() for _ in range(5)], [world.random.random() for _ in range(5)]

    assert signs(7) == signs(7)
    assert signs(7) != signs(8)
    assert len(set(signs(7)[0])) == 5


def test_virtual_clock_can_be_set_without_time_passing() -> None:
    async def scene() -> None:
        world = VirtualWorld(now=1000.0)
        task = asyncio.create_task(world.sleep(10))
        await world.advance(4)
        world.set_clock(500.0)
        assert world.now() == 500.0
        assert world.monotonic() == 4.0
        assert not task.done()
        await world.advance(6)
        assert task.done()
        assert world.now() == 506.0

    asyncio.run(scene())


def test_real_world_goes_on_and_makes_different_ids() -> None:
    world = RealWorld()
    first, then = world.monotonic(), world.monotonic()
    assert then >= first
    ids = [world.new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    parsed = uuid.UUID(ids[0])
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert abs((parsed.int >> 80) / 1000 - world.now()) < 60


def test_uuid7_has_its_time_version_and_variant_in_place() -> None:
    made = uuid.UUID(uuid7(0x0123456789AB, b"\xff" * 10))
    assert made.hex.startswith("0123456789ab7fff")
    assert made.variant == uuid.RFC_4122
    assert uuid.UUID(uuid7(0, b"\x00" * 10)).hex == "00000000000070008000000000000000"
