"""What every lock store must do, in any colour."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import LockLost, LockNotAcquired, TooLong
from holdfast.stores import RedisLockStore, SQLLockStore, SyncLockStore
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_ground import Threaded
from holdfast.testing.contract.store_wrong_values import Word
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from holdfast.stores import Lease
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

PATIENCE = 60.0


async def open_locks(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the locks of *ground*."""
    locks: Any
    if ground.venue.is_sql:
        locks = SQLLockStore(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    else:
        locks = RedisLockStore(await ground.link(), prefix=ground.prefix, **options)
    await ground.on_loop(locks.initialize())
    ground.afterwards.push_async_callback(_closed, ground, locks)
    return ground.face(locks, SyncLockStore)


async def _closed(ground: Ground, locks: Any) -> None:
    await ground.on_loop(locks.close())


@asynccontextmanager
async def leased(ground: Ground, locks: Any, *args: Any, **options: Any) -> AsyncIterator[Lease]:
    """Enter ``locks.lease`` in the colour of the test."""
    if ground.colour is Colour.ASYNC:
        async with locks.lease(*args, **options) as lease:
            yield lease
        return
    block = Threaded(await locks.lease(*args, **options))
    lease = await block.__enter__()
    try:
        yield lease
    except BaseException as error:
        await block.__exit__(type(error), error, error.__traceback__)
        raise
    else:
        await block.__exit__(None, None, None)
    finally:
        block.end()


async def _extended(locks: Any, before: datetime) -> datetime:
    """Wait until the lease of "k" ends later than *before*; return when."""
    async with asyncio.timeout(PATIENCE):
        while True:
            lease: Lease = await locks.get("k")
            if lease.expires_at > before:
                return lease.expires_at
            await asyncio.sleep(0.01)


def empty(venue: StoreVenue) -> Iterable[str]:
    """Return the tables that a scene begins without a row in."""
    return ("holdfast_locks",) if venue.is_sql else ()


class LockContract:
    """A lock has one holder, a lease ends by itself, and the token of a key only grows."""

    def test_lock_is_acquired_and_released(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            lease = await locks.acquire("k", "me", 30)
            assert (lease.key, lease.owner, lease.token) == ("k", "me", 1)
            assert lease.expires_at.tzinfo is not None
            assert abs(lease.expires_at - datetime.now(UTC) - timedelta(seconds=30)) < timedelta(seconds=60)
            with pytest.raises(FrozenInstanceError):
                lease.token = 7
            assert await locks.get("k") == lease
            assert await locks.acquire("k", "me", blocking=False) is None  # not reentrant
            assert await locks.acquire("K", blocking=False) is not None  # keys differ by case
            assert await locks.release(lease) is True
            assert await locks.release(lease) is False
            assert await locks.get("k") is None
            assert await locks.get("never seen") is None

        store_venue.play(scene, empty=empty(store_venue))

    def test_member_of_an_enum_is_the_key_that_its_text_is(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            lease = await locks.acquire(Word.PAY)
            assert await locks.acquire("pay", blocking=False) is None
            assert await locks.release(lease) is True
            assert await locks.get("pay") is None

        store_venue.play(scene, empty=empty(store_venue))

    def test_token_only_grows(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            seen = []
            for number in range(6):
                lease = await locks.acquire("k", f"o{number}", 1000, blocking=False)
                seen.append(lease.token)
                if number % 2:
                    await ground.advance(1001)
                else:
                    await locks.release(lease)
            assert seen == [1, 2, 3, 4, 5, 6]

        store_venue.play(scene, empty=empty(store_venue))

    def test_late_holder_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks, other = await open_locks(ground), await open_locks(ground)
            late = await locks.acquire("k", "same name", 1000)
            await ground.advance(1001)
            now = await other.acquire("k", "same name", 1000, blocking=False)
            assert now.token == late.token + 1
            assert not await locks.extend(late, 60)
            assert not await locks.release(late)
            assert (await locks.get("k")).token == now.token
            assert not await locks.extend(replace(now, owner="somebody"), 60)
            assert not await locks.release(replace(now, owner="somebody"))
            assert await other.release(now)
            assert not await other.extend(now, 60)

        store_venue.play(scene, empty=empty(store_venue))

    def test_extension_holds_until_the_lease_is_over(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            lease = await locks.acquire("k", ttl=1000)
            for _ in range(3):
                await ground.advance(800)
                assert await locks.extend(lease, 1000)
                assert await locks.acquire("k", blocking=False) is None
            await ground.advance(1001)
            assert await locks.get("k") is None
            assert not await locks.extend(lease, 1000)  # over is over
            assert await locks.release(lease)  # nobody came since

        store_venue.play(scene, empty=empty(store_venue))

    def test_hundred_want_one_lock(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            handles = [await open_locks(ground) for _ in range(2)]
            for number in range(3):
                asked = [handles[n % 2].acquire(f"k{number}", f"o{n}", 600, blocking=False) for n in range(100)]
                found = await asyncio.gather(*asked)
                assert len([lease for lease in found if lease is not None]) == 1

        store_venue.play(scene, empty=empty(store_venue))

    def test_many_locks_at_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            leases = await asyncio.gather(*[locks.acquire(f"k{n}") for n in range(100)])
            assert Counter(lease.token for lease in leases) == {1: 100}
            assert Counter(await asyncio.gather(*[locks.extend(each, 60) for each in leases])) == {True: 100}
            assert Counter(await asyncio.gather(*[locks.release(each) for each in leases])) == {True: 100}

        store_venue.play(scene, empty=empty(store_venue))

    def test_block_after_block_never_two_at_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            handles = [await open_locks(ground) for _ in range(2)]
            inside, tokens = 0, []

            async def one(number: int) -> None:
                nonlocal inside
                async with leased(ground, handles[number % 2], "k", 600, timeout=PATIENCE) as lease:
                    inside += 1
                    assert inside == 1
                    tokens.append(lease.token)
                    await asyncio.sleep(0)
                    inside -= 1

            await asyncio.gather(*[one(number) for number in range(8)])
            assert tokens == [1, 2, 3, 4, 5, 6, 7, 8]

        store_venue.play(scene, empty=empty(store_venue))

    def test_waiting_ends_in_time(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            await locks.acquire("k", "first", 1000)
            assert await locks.acquire("k", timeout=0.01) is None
            assert await locks.acquire("k", timeout=0) is None
            with pytest.raises(LockNotAcquired, match=r"'k'.*0\.01 s"):
                async with leased(ground, locks, "k", timeout=0.01):
                    raise AssertionError("unreachable")

        store_venue.play(scene, empty=empty(store_venue))

    def test_lease_is_kept_as_long_as_the_block_runs(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            world = VirtualWorld()
            locks, other = await open_locks(ground, world=world), await open_locks(ground)
            async with leased(ground, locks, "k", 30) as lease:
                before = lease.expires_at
                for _ in range(5):
                    await ground.on_loop(world.until_asleep(1))
                    await ground.advance(11)
                    await ground.on_loop(world.advance(11))
                    before = await _extended(other, before)
                assert (await other.get("k")).token == lease.token
                assert before > lease.expires_at + timedelta(seconds=50)
            assert await other.get("k") is None

        store_venue.play(scene, empty=empty(store_venue))

    def test_lost_lease_ends_the_block(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            world = VirtualWorld()
            locks, other = await open_locks(ground, world=world), await open_locks(ground)
            with pytest.raises(LockLost, match="token 1"):
                async with leased(ground, locks, "k", 30):
                    await ground.on_loop(world.until_asleep(1))
                    await ground.advance(31)
                    assert (await other.acquire("k", "robber", 3600)).token == 2
                    await ground.on_loop(world.advance(11))
                    if ground.colour is Colour.ASYNC:
                        await asyncio.sleep(PATIENCE)  # cancelled as soon as the loss is noticed
                        raise AssertionError("unreachable")  # a thread cannot be interrupted: it is told at the end
            assert (await other.get("k")).owner == "robber"

        store_venue.play(scene, empty=empty(store_venue))

    def test_error_in_the_block_releases_the_lock(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            with pytest.raises(ZeroDivisionError):
                async with leased(ground, locks, "k"):
                    raise ZeroDivisionError
            assert await locks.get("k") is None

        store_venue.play(scene, empty=empty(store_venue))

    def test_block_that_is_cancelled_again_while_it_ends_releases_the_lock(self, store_venue: StoreVenue) -> None:
        if store_venue.colour is Colour.SYNC:
            assert not hasattr(SyncLockStore, "cancel")  # a thread cannot be cancelled
            return

        async def scene(ground: Ground) -> None:
            locks, entered = await open_locks(ground), asyncio.Event()

            async def hold() -> None:
                async with locks.lease("k", 3600):
                    entered.set()
                    await asyncio.sleep(PATIENCE)

            holding = asyncio.ensure_future(hold())
            await entered.wait()
            while not holding.done():  # as a cancel scope of anyio does
                holding.cancel()
                await asyncio.sleep(0)
            assert holding.cancelled()
            assert (await locks.acquire("k", timeout=PATIENCE)).token == 2

        store_venue.play(scene, empty=empty(store_venue))

    def test_cancelled_waiter_holds_nothing(self, store_venue: StoreVenue) -> None:
        if store_venue.colour is Colour.SYNC:
            assert not hasattr(SyncLockStore, "cancel")  # a thread that waits cannot be cancelled
            return

        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            first = await locks.acquire("k")
            waiting = asyncio.create_task(locks.acquire("k"))
            trying = asyncio.create_task(locks.acquire("other"))
            await asyncio.sleep(0)
            trying.cancel()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(asyncio.CancelledError):
                await trying
            await locks.release(first)
            assert await locks.get("k") is None
            assert await locks.get("other") is None

        store_venue.play(scene, empty=empty(store_venue))

    def test_what_cannot_be_a_lock_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            locks = await open_locks(ground)
            with pytest.raises(ValueError, match="empty"):
                await locks.acquire("")
            with pytest.raises(TooLong):
                await locks.acquire("x" * 513)
            with pytest.raises(ValueError, match="ttl"):
                await locks.acquire("k", ttl=0)
            for wrong in (None, "k", 1):
                for call in (locks.release, locks.extend):
                    with pytest.raises(TypeError, match="the Lease that acquire"):
                        await call(wrong)
            long = await locks.acquire("ü" * 512, "me '%s' ?")
            assert (await locks.get("ü" * 512)) == long

        store_venue.play(scene, empty=empty(store_venue))


__all__ = ["LockContract", "leased", "open_locks"]
