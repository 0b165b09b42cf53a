"""Where the suites of circuit breakers play: a repository on the ground of a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.migrations.migrator import SCHEMA
from holdfast.model.world import RealWorld
from holdfast.stores import (
    AsyncInMemoryCircuitBreakerStateRepository,
    AsyncRedisCircuitBreakerStateRepository,
    AsyncSQLCircuitBreakerStateRepository,
    InMemoryCircuitBreakerStateRepository,
    RedisCircuitBreakerStateRepository,
    SQLCircuitBreakerStateRepository,
)
from holdfast.workflows.wakeups.wakeups import wakeups_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db import ConnectionManager
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = (
    "holdfast_circuit_breakers",
    "holdfast_circuit_breaker_history",
    "holdfast_circuit_breaker_receipts",
)
STUCK = 6000
_POLL = 0.1  # a real fleet looks less often
_NEVER = 86400.0


async def open_breakers(ground: Ground, *, only_hints: bool = False) -> Any:
    """Return one more handle on the breakers of *ground*; those in memory have no second one.

    With *only_hints* it never polls: what others change it learns from their hints, or not at all.
    """
    store: Any
    blocking: Any
    poll = _NEVER if only_hints else _POLL
    if ground.venue.is_sql:
        manager = await ground.manager()
        store = AsyncSQLCircuitBreakerStateRepository(
            manager, clock_offset_ms=ground.clock_offset_ms, poll_interval=poll
        )
        if only_hints:
            await _hinted(ground, manager, store)
        blocking = SQLCircuitBreakerStateRepository
    elif ground.venue.name == "redis":
        store = AsyncRedisCircuitBreakerStateRepository(await ground.link(), prefix=ground.prefix, poll_interval=poll)
        blocking = RedisCircuitBreakerStateRepository
    else:
        store = AsyncInMemoryCircuitBreakerStateRepository(world=ground.world)
        blocking = InMemoryCircuitBreakerStateRepository
    await ground.on_loop(store.initialize())

    async def close() -> None:
        await ground.on_loop(store.close())

    ground.afterwards.push_async_callback(close)
    return ground.face(store, blocking)


async def _hinted(ground: Ground, manager: ConnectionManager, store: AsyncSQLCircuitBreakerStateRepository) -> None:
    """Have *store* tell and hear hints, as that of an application does."""
    wakeups = wakeups_for(manager, SCHEMA, RealWorld(), store.wake, enabled=True)
    store.use_hints(wakeups)
    await ground.on_loop(wakeups.start())

    async def stop() -> None:
        await ground.on_loop(wakeups.stop())

    ground.afterwards.push_async_callback(stop)


def play(venue: StoreVenue, scene: Callable[[Any, Ground], Coroutine[Any, Any, None]]) -> None:
    """Run *scene* with an empty repository."""

    async def main(ground: Ground) -> None:
        await scene(await open_breakers(ground), ground)

    venue.play(main, empty=TABLES if venue.is_sql else ())


def slot(breakers: Any, *, limit: int = 3, **more: Any) -> Any:
    """Ask for a slot of the breaker ``api``."""
    return breakers.try_acquire_half_open_slot("api", limit, STUCK, **more)


async def half_open(breakers: Any, *, limit: int = 3) -> None:
    """Bring the breaker ``api`` to half-open, with one slot taken."""
    await breakers.trip_to_open("api", 5)
    assert await slot(breakers, limit=limit, token="first") == (True, "open", "half_open")  # noqa: S106 -- no secret


__all__ = ["STUCK", "TABLES", "half_open", "open_breakers", "play", "slot"]
