"""A change whose reply was lost is answered again, and not made again: every kind of change, on every storage."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.core.breaker import Delete, Event, GetOrCreate, Reset, Trip, UpdateState
from holdfast.core.breaker_pins import AtomicReset, ForceOpen
from holdfast.core.breaker_slots import AcquireSlot, CloseCheck, OpenCheck, RecordFailure, ReleaseSlot
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.stores.breakers.facts import ChangeBreakers
from holdfast.stores.breakers.queries import breakers_queries
from holdfast.stores.breakers.redis_store import AsyncRedisCircuitBreakerStateRepository
from holdfast.testing.contract.store_breakers_stage import TABLES, open_breakers

if TYPE_CHECKING:
    from holdfast.db.session import Transaction
    from holdfast.stores.breakers.documents import Applied
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")

STUCK = timedelta(seconds=60)
EVENTS: list[Event] = [
    GetOrCreate(),
    RecordFailure(),
    Trip(3),
    AcquireSlot(3, STUCK, "a"),
    AcquireSlot(3, STUCK, "b"),
    ReleaseSlot("b"),
    CloseCheck(1, "a"),
    OpenCheck(),
    ForceOpen("why", 7, timedelta(minutes=5)),
    AtomicReset("done"),
    UpdateState("open"),
    Reset(),
    Delete(),
]


def test_change_is_answered_again_and_not_made_again(store_venue: StoreVenue) -> None:
    async def on_sql(ground: Ground) -> None:
        kind = ChangeBreakers(breakers_queries((await ground.manager()).dialect, SCHEMA))
        rows = [(f"key-{number}", "api", event) for number, event in enumerate(EVENTS)]

        async def make(transaction: Transaction) -> list[Applied]:
            return [(await kind.apply(transaction, [row]))[0] for row in rows]

        async def ask(transaction: Transaction) -> list[Applied | None]:
            return list(await kind.recall(transaction, [*rows, ("key-x", "api", Delete())]))

        async with ConnectionManager(store_venue.url) as manager:
            made = await manager.run(make)
            assert await manager.run(ask) == [*made, None]

    async def on_redis(ground: Ground) -> None:
        store = AsyncRedisCircuitBreakerStateRepository(await ground.link(), prefix=ground.prefix)
        keys = iter(f"key-{number}" for number in range(len(EVENTS)))
        store._world = _SameKeys(keys)  # type: ignore[assignment]
        made = [await ground.on_loop(store.apply("api", event)) for event in EVENTS]
        store._world = _SameKeys(f"key-{number}" for number in range(len(EVENTS)))  # type: ignore[assignment]
        assert [await ground.on_loop(store.apply("api", event)) for event in EVENTS] == made
        assert await ground.on_loop(store.get_all_states()) == []

    if store_venue.is_sql:
        store_venue.play(on_sql, empty=TABLES)
    else:
        store_venue.play(on_redis)


class _SameKeys:
    """Hands out the keys of changes that were made before."""

    def __init__(self, keys: object) -> None:
        self.keys = iter(keys)  # type: ignore[call-overload]

    def new_id(self) -> str:
        return str(next(self.keys))


def test_receipts_and_old_history_are_forgotten(store_venue: StoreVenue) -> None:
    count = 300

    async def on_redis(ground: Ground) -> None:
        store = AsyncRedisCircuitBreakerStateRepository(await ground.link(), prefix=ground.prefix)
        for _ in range(6):
            await ground.on_loop(_together(store, 100))
        assert len(await ground.on_loop(store.get_history("api", 1000))) == 500

    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        kind = ChangeBreakers(breakers_queries(manager.dialect, SCHEMA, clock_offset_ms=ground.clock_offset_ms))

        async def change(first: int) -> None:
            rows = [(f"key-{first + number}", "api", ForceOpen(str(first + number))) for number in range(count)]
            await ground.on_loop(manager.run(lambda transaction: kind.apply(transaction, rows)))

        for first in (0, count, 2 * count):
            await change(first)
        await ground.advance(3601)
        await change(3 * count)
        [history] = await ground.fetch(
            "SELECT count(*) AS n, min(epoch) AS first FROM {holdfast_circuit_breaker_history}"
        )
        assert (history["n"], history["first"]) == (500, 4 * count - 499)
        [receipts] = await ground.fetch("SELECT count(*) AS n FROM {holdfast_circuit_breaker_receipts}")
        assert receipts["n"] == count

    if store_venue.is_sql:
        store_venue.play(scene, empty=TABLES)
    else:
        store_venue.play(on_redis)


async def _together(store: AsyncRedisCircuitBreakerStateRepository, count: int) -> None:
    await asyncio.gather(*(store.apply("api", ForceOpen()) for _ in range(count)))


def test_receipts_of_processes_that_change_little_are_forgotten(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        for _ in range(3):
            breakers = await open_breakers(ground)  # as a process that has just begun
            for _ in range(5):
                await breakers.record_failure("api")
            await ground.advance(7200)
        rows = await ground.fetch("SELECT change_key FROM {holdfast_circuit_breaker_receipts}")
        assert len(rows) == 5

    if store_venue.is_sql:  # Redis forgets by itself
        store_venue.play(scene, empty=TABLES)
