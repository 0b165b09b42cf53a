"""A breaker and the storage it shares: what is asked of it and when, and what happens while it does not answer."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.breaker import Event, Outcome
from holdfast.errors import CircuitOpen, Unavailable
from holdfast.resilience import CircuitBreaker
from holdfast.stores.breakers.deciding import Deciding
from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData
    from holdfast.stores.breakers.documents import Applied
    from holdfast.stores.breakers.interface import Watcher


class Broken(Exception):
    """What a dependency raises that does not work."""


class Remote(Deciding):
    """A storage elsewhere that counts what it is asked, and can be away."""

    def __init__(self, world: VirtualWorld) -> None:
        super().__init__(world, "remote")
        self.kept = AsyncInMemoryCircuitBreakerStateRepository(world=world)
        self.asked: list[str] = []
        self.watchers: list[Watcher] = []
        self.is_away = False

    async def apply(self, service_name: str, event: Event) -> Applied:
        self.asked.append(type(event).__name__)
        if self.is_away:
            raise Unavailable("It is away.")
        return await self.kept.apply(service_name, event)

    async def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        return await self.kept.get_by_service_name(service_name)

    async def get_all_states(self) -> list[CircuitBreakerStateData]:
        return await self.kept.get_all_states()

    async def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        return await self.kept.get_open_states(limit)

    async def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        return await self.kept.get_history(service_name, limit)

    def watch(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        self.watchers.append(watcher)
        end = self.kept.watch(service_name, watcher)

        def ended() -> None:
            self.watchers.remove(watcher)
            end()

        return ended

    def leave(self) -> None:
        self.is_away = True
        for watcher in self.watchers:
            watcher.away(Unavailable("It is away."))

    async def come_back(self) -> None:
        self.is_away = False
        await self.kept.apply("api", _Touch())


class _Touch(Event):
    """Changes nothing that counts, and has the watchers told."""

    def on(self, record: CircuitBreakerStateData, now: Any) -> Outcome:
        return Outcome(replace(record, metadata={"touched": True}), None)


class Scene:
    """A breaker of a process that shares a storage."""

    def __init__(self, **options: Any) -> None:
        self.world = VirtualWorld()
        self.remote = Remote(self.world)
        self.told: list[str] = []
        self.breaker = self.another(**options)
        self.breaker.listen(lambda event: self.told.append(event.kind))

    def another(self, **options: Any) -> CircuitBreaker:
        defaults: Any = {"failures": 1, "successes": 1, "open_for": 10, "open_jitter": 0.0, **options}
        return CircuitBreaker("api", repository=self.remote, world=self.world, **defaults)

    async def fail(self, breaker: CircuitBreaker | None = None) -> None:
        with pytest.raises(Broken):
            async with breaker or self.breaker:
                raise Broken
        await settled()

    async def works(self, breaker: CircuitBreaker | None = None) -> None:
        async with breaker or self.breaker:
            pass
        await settled()

    async def refused(self, breaker: CircuitBreaker | None = None) -> CircuitOpen:
        with pytest.raises(CircuitOpen) as refused:
            await self.works(breaker)
        return refused.value


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def play(scene: Callable[[Scene], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        await scene(Scene(**options))

    asyncio.run(main())


def test_closed_breaker_asks_the_storage_nothing() -> None:
    async def scene(stage: Scene) -> None:
        for _ in range(1000):
            await stage.works()
        assert stage.remote.asked == []

    play(scene)


def test_failures_below_the_threshold_are_not_reported() -> None:
    async def scene(stage: Scene) -> None:
        for _ in range(4):
            await stage.fail()
        assert stage.remote.asked == []
        await stage.fail()
        assert stage.remote.asked == ["Trip"]

    play(scene, failures=5)


def test_refused_calls_ask_nothing_and_trials_ask_twice() -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        for _ in range(100):
            await stage.refused()
        assert stage.remote.asked == ["Trip"]
        await stage.world.advance(10)
        await stage.works()
        assert stage.remote.asked == ["Trip", "AcquireSlot", "CloseCheck"]
        assert stage.breaker.state == "closed"

    play(scene)


def test_refused_slot_is_not_asked_for_by_every_call() -> None:
    async def scene(stage: Scene) -> None:
        other = stage.another(probes=1)
        await stage.works(other)
        await stage.fail()
        await stage.world.advance(10)
        async with stage.breaker:
            for _ in range(50):
                assert (await stage.refused(other)).state == "half_open"
        assert stage.remote.asked.count("AcquireSlot") == 2

    play(scene, probes=1)


def test_storage_that_is_away_leaves_the_process_to_itself_and_says_so() -> None:
    async def scene(stage: Scene) -> None:
        await stage.works()
        stage.remote.leave()
        assert stage.breaker.storage_away
        await stage.fail()
        await stage.refused()
        await stage.world.advance(10)
        await stage.works()
        assert stage.breaker.state == "closed"
        assert stage.told == ["storage_away", "failed", "opened", "rejected", "half_opened", "closed"]
        assert stage.remote.asked == []

    play(scene)


def test_block_that_was_known_holds_while_the_storage_is_away() -> None:
    async def scene(stage: Scene) -> None:
        await stage.works()
        await stage.remote.atomic_force_open("api", "maintenance", ttl_minutes=1)
        stage.remote.leave()
        await stage.world.advance(59)
        error = await stage.refused()
        assert "maintenance" in str(error)
        assert error.retry_after == pytest.approx(1)
        await stage.world.advance(1)
        await stage.works()

    play(scene)


def test_breaker_that_was_open_is_tried_here_while_the_storage_is_away() -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        await stage.world.advance(4)
        stage.remote.leave()
        assert (await stage.refused()).retry_after == pytest.approx(6)
        await stage.world.advance(6)
        await stage.works()
        assert stage.breaker.state == "closed"
        await stage.remote.come_back()
        assert not stage.breaker.storage_away
        assert stage.breaker.state == "open"  # for the fleet it still is
        await stage.works()
        assert stage.breaker.state == "closed"

    play(scene)


def test_what_opened_while_the_storage_was_away_is_reported_when_it_is_back() -> None:
    async def scene(stage: Scene) -> None:
        await stage.works()
        stage.remote.leave()
        await stage.fail()
        await stage.remote.come_back()
        await settled()
        record = await stage.remote.get_by_service_name("api")
        assert record is not None
        assert record.state == stage.breaker.state == "open"
        assert "storage_back" in stage.told

    play(scene)


def test_storage_that_fails_at_a_trial_is_away_from_then_on() -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        await stage.world.advance(10)
        stage.remote.is_away = True
        await stage.works()
        assert stage.breaker.storage_away
        assert stage.breaker.state == "closed"

    play(scene)


@pytest.mark.parametrize("is_async", [True, False])
def test_slot_that_cannot_be_asked_for_is_free_for_the_next_call(is_async: bool) -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        await stage.world.advance(10)
        apply, stage.remote.apply = stage.remote.apply, _refuse  # type: ignore[method-assign]
        for _ in range(3):
            with pytest.raises(LookupError):
                await (stage.works() if is_async else asyncio.to_thread(stage.breaker.call, str, 1))
        await settled()
        stage.remote.apply = apply  # type: ignore[method-assign]
        await stage.works()
        assert stage.breaker.state == "closed"

    play(scene, probes=1)


async def _refuse(service_name: str, event: Event) -> Applied:
    raise LookupError("a repository with a defect")


def test_storage_that_never_answers_does_not_hold_up_the_first_call() -> None:
    async def scene(stage: Scene) -> None:
        stage.remote.watch = lambda *_: lambda: None  # type: ignore[method-assign]
        assert await stage.breaker.call_async(asyncio.sleep, 0, "fine") == "fine"
        assert stage.breaker.storage_away

    play(scene, storage_timeout=0.01)


def test_quorum_is_the_fleets_and_the_process_refuses_alone_until_then() -> None:
    async def scene(stage: Scene) -> None:
        other, third = stage.another(quorum=2), stage.another(quorum=2)
        await stage.works(other)
        await stage.works(third)
        await stage.fail()
        await stage.refused()
        assert (other.state, third.state) == ("closed", "closed")
        await stage.fail(other)
        assert (stage.breaker.state, other.state, third.state) == ("open", "open", "open")
        await stage.remote.atomic_force_close("api")
        assert (stage.breaker.state, other.state, third.state) == ("closed", "closed", "closed")

    play(scene, quorum=2)


def test_blocking_call_on_the_storages_own_loop_gets_a_slot_that_was_asked_for_before() -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        await stage.world.advance(10)
        with pytest.raises(CircuitOpen):
            stage.breaker.call(str, 1)  # it cannot wait for an answer here
        await settled()
        assert stage.breaker.call(str, 2) == "2"
        await settled()
        assert stage.breaker.state == "closed"

    play(scene)


def test_repository_that_is_closed_leaves_the_breaker_to_itself() -> None:
    async def scene(stage: Scene) -> None:
        await stage.works()
        await stage.remote.atomic_force_open("api")
        await stage.refused()
        for watcher in list(stage.remote.watchers):
            watcher.ended()
        assert stage.breaker.state == "closed"
        await stage.refused()  # it is found again by the next call, and asked
        assert stage.breaker.state == "open"

    play(scene)


def test_repository_does_not_keep_a_breaker_that_nobody_has() -> None:
    async def scene(stage: Scene) -> None:
        other = stage.another()
        await stage.works(other)
        assert len(stage.remote.watchers) == 1
        there = weakref.ref(other)
        del other
        assert there() is None
        await settled()
        assert stage.remote.watchers == []

    play(scene)


def test_trial_that_ends_after_its_repository_was_closed_has_its_result() -> None:
    async def scene(stage: Scene) -> None:
        await stage.fail()
        await stage.world.advance(10)
        async with stage.breaker:
            for watcher in stage.remote.watchers:
                watcher.ended()
        assert stage.breaker.state == "closed"  # here alone, as before the first call

    play(scene)


def test_thread_without_a_loop_is_left_to_itself_until_there_is_one() -> None:
    stage = Scene()
    assert stage.breaker.call(str, 1) == "1"
    with pytest.raises(ValueError, match="invalid"):
        stage.breaker.call(int, "x")
    assert stage.breaker.state == "open"

    async def main() -> None:
        await stage.refused()
        await settled()
        assert stage.remote.asked == ["Trip"]

    asyncio.run(main())
