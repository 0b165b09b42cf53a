"""What breakers that share a repository must do, in any colour: each handle stands for a process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CircuitOpen
from holdfast.resilience import BreakerEvent, CircuitBreaker
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_breakers_stage import TABLES, open_breakers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_PATIENCE = 60.0


class Broken(Exception):
    """What a dependency raises that does not work."""


class Process:
    """A breaker as one process of a fleet has it, behind an async face."""

    def __init__(self, ground: Ground, breakers: Any, **options: Any) -> None:
        self.breakers = breakers
        self._ground = ground
        self._sync = ground.colour is Colour.SYNC
        repository = breakers.blocking if self._sync else breakers
        self.told: list[BreakerEvent] = []
        self.breaker = CircuitBreaker(
            "api", repository=repository, listeners=[self.told.append], **{"failures": 2, "open_jitter": 0.0, **options}
        )

    async def call(self, error: Exception | None = None) -> str:
        """Call something that works, or raises *error*."""
        if self._sync:
            return await asyncio.to_thread(self.breaker.call, _work, error)
        return await self.breaker.call_async(_work_async, error)

    async def call_on_loop(self) -> str:
        """Call something that works, by a sync call on the loop of the repository."""

        async def here() -> str:
            return self.breaker.call(_work, None)

        return await self._ground.on_loop(here())

    async def hold(self, held: Callable[[], None]) -> None:
        """Call something that blocks its thread."""
        if self._sync:
            await asyncio.to_thread(self.breaker.call, held)
        else:
            await self.breaker.call_async(asyncio.to_thread, held)

    async def fail(self, times: int = 1) -> None:
        """Call something that does not work."""
        for _ in range(times):
            with pytest.raises(Broken):
                await self.call(Broken())

    async def refused(self) -> CircuitOpen:
        """Return the error of a call that is not made."""
        with pytest.raises(CircuitOpen) as refused:
            await self.call()
        return refused.value

    async def until(self, state: str) -> None:
        """Wait until the breaker is in *state* here."""
        async with asyncio.timeout(_PATIENCE):
            while self.breaker.state != state:  # noqa: ASYNC110 -- changed by another thread
                await asyncio.sleep(0.01)

    async def try_until_closed(self) -> None:
        """Call something that works until the breaker is closed."""
        async with asyncio.timeout(_PATIENCE):
            while self.breaker.state != "closed":
                try:
                    await self.call()
                except CircuitOpen:
                    await asyncio.sleep(0.01)


def _work(error: Exception | None) -> str:
    if error is not None:
        raise error
    return "fine"


async def _work_async(error: Exception | None) -> str:
    return _work(error)


async def fleet(ground: Ground, size: int = 2, **options: Any) -> list[Process]:
    """Return so many processes that share a repository."""
    first = await open_breakers(ground)
    in_memory = ground.venue.name == "memory"  # it has no second handle
    others = [first if in_memory else await open_breakers(ground) for _ in range(size - 1)]
    return [Process(ground, breakers, **options) for breakers in (first, *others)]


class Crowd:
    """Calls that are held until so many are held and all others have been refused often enough."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self._at_once = self.most = self._refused = 0

    def held(self) -> None:
        """Stay until the gate is opened."""
        with self._lock:
            self._at_once += 1
            self.most = max(self.most, self._at_once)
        self._gate.wait(_PATIENCE)
        with self._lock:
            self._at_once -= 1

    async def attempts(self, process: Process) -> None:
        """Call until the gate is open."""
        while not self._gate.is_set():
            try:
                await process.hold(self.held)
            except CircuitOpen:
                self._refused += self._at_once >= self._allowed
                if self._refused > 100:
                    self._gate.set()
                await asyncio.sleep(0.01)


async def reported(process: Process) -> Any:
    """Wait until somebody has reported, and return the breaker as it is stored."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            record = await process.breakers.get_by_service_name("api")
            if record is not None and record.reports:
                return record
            await asyncio.sleep(0.01)


def play(venue: StoreVenue, scene: Callable[[Ground], Coroutine[Any, Any, None]]) -> None:
    """Run *scene* with an empty repository, in real time."""
    venue.play(scene, empty=TABLES if venue.is_sql else ())


class SharedBreakers:
    """A fleet opens and closes together, and obeys its operator."""

    def test_fleet_opens_and_closes_together(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, other = await fleet(ground, open_for=0.2, successes=1)
            await one.call()
            await other.call()
            await one.fail(2)
            assert one.breaker.state == "open"
            await other.until("open")
            await one.try_until_closed()
            await other.until("closed")
            assert [each.kind for each in other.told if each.kind in {"opened", "closed"}] == ["opened", "closed"]
            events = [each.event for each in await one.breakers.get_history("api")]
            assert events[-1] == "opened"
            assert events[0] == "closed"

        play(store_venue, scene)

    def test_operators_block_holds_in_every_process_and_in_one_that_starts_later(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, other = await fleet(ground)
            await one.call()
            await other.call()
            await one.breakers.atomic_force_open("api", "maintenance", ttl_minutes=30)
            await one.until("open")
            await other.until("open")
            assert "maintenance" in str(await other.refused())
            late = Process(ground, one.breakers if store_venue.name == "memory" else await open_breakers(ground))
            error = await late.refused()
            assert error.retry_after is not None
            assert 1700 < error.retry_after <= 1800
            await other.breakers.atomic_force_close("api", "it works")
            for process in (one, other, late):
                await process.until("closed")
                await process.fail(3)
                assert process.breaker.state == "closed"

        play(store_venue, scene)

    def test_quorum_keeps_one_sick_process_from_opening_for_all(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            if store_venue.name == "memory":  # one process, which is its own fleet
                [alone] = await fleet(ground, 1, quorum=2)
                await alone.fail(2)
                await alone.refused()
                return
            one, other, third = await fleet(ground, 3, quorum=2, open_for=60)
            await third.call()
            await one.fail(2)
            await one.refused()
            assert await third.call() == await other.call() == "fine"
            assert (await reported(other)).state == "closed"
            assert (await other.breakers.atomic_reset("api", "it works"))[0]
            await one.until("closed")
            assert await one.call() == "fine"
            await one.fail(2)
            await reported(other)
            await other.fail(2)
            await third.until("open")
            await one.refused()

        play(store_venue, scene)

    def test_fleet_makes_no_more_trials_than_allowed(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            processes = await fleet(ground, 3, probes=2, successes=50, open_for=0.05)
            for process in processes:
                await process.call()
            await processes[0].fail(2)
            for process in processes:
                await process.until("open")
            crowd = Crowd(2)
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*(crowd.attempts(process) for process in processes for _ in range(4)))
            assert crowd.most == 2

        play(store_venue, scene)

    def test_sync_call_on_the_loop_of_the_repository_makes_the_only_trial_there_may_be(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(ground: Ground) -> None:
            [one] = await fleet(ground, 1, probes=1, successes=1, open_for=0.05, probe_timeout=3600)
            await one.call()
            await one.fail(2)
            async with asyncio.timeout(_PATIENCE):
                while one.breaker.state != "closed":
                    try:
                        await one.call_on_loop()
                    except CircuitOpen:
                        await asyncio.sleep(0.01)

        play(store_venue, scene)

    def test_trial_that_was_asked_for_on_the_loop_and_not_made_in_time_is_anothers(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(ground: Ground) -> None:
            if store_venue.name == "memory":  # whose slots need not be asked for
                return
            one, other = await fleet(ground, probes=1, open_for=5, probe_timeout=30, world=ground.world)
            await one.call()
            await other.call()
            await one.fail(2)
            await other.until("open")
            await ground.advance(10)
            with pytest.raises(CircuitOpen):
                await one.call_on_loop()
            await one.until("half_open")
            await other.until("half_open")
            await ground.advance(60)
            granted = await other.breakers.try_acquire_half_open_slot("api", 1, 30, token="another's")  # noqa: S106
            assert granted[0]
            with pytest.raises(CircuitOpen):
                await one.call_on_loop()

        play(store_venue, scene)

    def test_clock_that_is_set_back_keeps_nobody_from_hearing_or_from_trying(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, other = await fleet(ground, open_for=0.2, successes=1)
            await one.call()
            await other.call()
            for _ in range(2):  # of a breaker that was not there, and of one that was
                await ground.set_back(3600)
                await one.fail(2)
                await other.until("open")
                await other.try_until_closed()
                await one.until("closed")
            await one.breakers.atomic_force_open("api")
            await other.until("open")
            await ground.set_back(3600)
            await one.breakers.delete_state("api")
            await other.until("closed")

        play(store_venue, scene)

    def test_breaker_that_nobody_has_stored_is_closed_and_reading_stores_none(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            [one] = await fleet(ground, 1)
            assert await one.call() == "fine"
            assert await one.breakers.get_all_states() == []

        play(store_venue, scene)


__all__ = ["Process", "SharedBreakers", "fleet"]
