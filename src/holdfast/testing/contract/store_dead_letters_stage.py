"""Where the suites of dead letters play: a repository, or the small queue, on the ground of a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores import (
    AsyncInMemoryFailedOperationRepository,
    AsyncRedisDLQRepository,
    AsyncSQLFailedOperationRepository,
    DBDeadLetterQueue,
    InMemoryFailedOperationRepository,
    RedisDLQRepository,
    SQLFailedOperationRepository,
    SyncDeadLetterQueue,
)
from holdfast.stores.redis_blocking import BlockingRedisLink
from holdfast.testing.colours import Colour

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.stores.redis import RedisLink
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_dlq", "holdfast_dlq_counts", "holdfast_dlq_compressed")
ALL_STATUSES = (
    "pending", "replaying", "reviewing", "replayed", "requires_review", "resolved", "rejected", "archived", "expired",
    "permanently_failed",
)  # fmt: skip


async def open_letters(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the dead letters of *ground*; those in memory have no second one."""
    store: Any
    blocking: Any
    if ground.venue.is_sql:
        offset = ground.clock_offset_ms
        store = AsyncSQLFailedOperationRepository(await ground.manager(), clock_offset_ms=offset, **options)
        blocking = SQLFailedOperationRepository
    elif ground.venue.name == "redis":
        store = AsyncRedisDLQRepository(await _link(ground), prefix=ground.prefix, **options)
        blocking = RedisDLQRepository
    else:
        store = AsyncInMemoryFailedOperationRepository(world=ground.world, **options)
        blocking = InMemoryFailedOperationRepository
    await _begin(ground, store)
    return ground.face(store, blocking)


async def _link(ground: Ground) -> RedisLink:
    """Return a link of the colour: the sync one needs no loop."""
    if ground.colour is Colour.ASYNC:
        return await ground.link()
    link = BlockingRedisLink(ground.venue.url, clock_offset_key=ground.clock_offset_key)
    await link.initialize()
    ground.afterwards.push_async_callback(link.close)
    return link


async def open_queue(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the small queue of *ground*, which is a database."""
    queue = DBDeadLetterQueue(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    await _begin(ground, queue)
    return ground.face(queue, SyncDeadLetterQueue)


async def _begin(ground: Ground, store: Any) -> None:
    await ground.on_loop(store.initialize())

    async def close() -> None:
        await ground.on_loop(store.close())

    ground.afterwards.push_async_callback(close)


def play(venue: StoreVenue, scene: Callable[[Any, Ground], Coroutine[Any, Any, None]]) -> None:
    """Run *scene* with an empty repository."""

    async def main(ground: Ground) -> None:
        await scene(await open_letters(ground), ground)

    venue.play(main, empty=TABLES if venue.is_sql else ())


def play_queue(venue: StoreVenue, scene: Callable[[Any, Ground], Coroutine[Any, Any, None]]) -> None:
    """Run *scene* with an empty queue."""

    async def main(ground: Ground) -> None:
        await scene(await open_queue(ground), ground)

    venue.play(main, empty=TABLES)


async def made(letters: Any, ground: Ground, *domains: str, **given: Any) -> list[Any]:
    """Make an operation for each of *domains*, a second apart."""
    records = []
    for domain in domains:
        records.append(await letters.create(domain, given.get("failure_type", "timeout"), **_rest(given)))
        await ground.advance(1)
    return records


def _rest(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "failure_type"}


async def one_in_each_status(letters: Any, ground: Ground) -> dict[str, str]:
    """Make one operation in each of the ten statuses; return their ids by status."""
    ids = {}
    for status in ALL_STATUSES:
        [record] = await made(letters, ground, "shop")
        assert await letters.update_status(record.id, status)
        ids[status] = record.id
    return ids


def ids(records: Any) -> list[str]:
    """Return the ids of records, in their order."""
    return [record.id for record in records]


__all__ = [
    "ALL_STATUSES", "TABLES", "ids", "made", "one_in_each_status", "open_letters", "open_queue", "play", "play_queue",
]  # fmt: skip
