"""What those who follow the streams of an event log are given, in any colour."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_events import empty, numbers, open_store
from holdfast.testing.contract.venue import until

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue
PATIENCE = 60.0
_NEVER = 3600.0  # between polls, where nothing may rest on one


async def followed(
    ground: Ground, store: Any, stream_key: str, after: int = 0, *, most: int, heard: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """Follow a stream until *most* events have come, or it ends; return them. Each goes to the list *heard* at once."""
    events: list[dict[str, Any]] = [] if heard is None else heard
    if ground.colour is Colour.ASYNC:
        async for event in store.follow(stream_key, after, **options):
            events.append(event)
            if len(events) == most:
                break
        return events

    def follow() -> None:
        for event in islice(store.blocking.follow(stream_key, after, **options), most):
            events.append(event)  # noqa: PERF402 -- one by one, for whoever looks on

    await asyncio.to_thread(follow)
    return events


class FollowingContract:
    """A follower misses nothing, hears at once of what is new, and ends in time."""

    def test_follower_gets_what_is_there_and_what_comes_without_a_poll(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, poll_interval=_NEVER)
            await store.append("s", [{"type": "e", "data": n} for n in range(3)])
            heard: list[Any] = []
            follow = asyncio.create_task(followed(ground, store, "s", 1, most=5, heard=heard))
            await until(lambda: len(heard) == 2)
            for n in (3, 4):
                await store.append("s", [{"type": "e", "data": n}])
                await store.append("another", [{"type": "e"}])
            await store.append("s", [{"type": "e", "data": 5}], expected_sequence=5)
            events = await asyncio.wait_for(follow, PATIENCE)
            assert [(event["sequence"], event["data"]) for event in events] == [(n + 1, n) for n in range(1, 6)]

        store_venue.play(scene, empty=empty(store_venue))

    def test_follower_hears_of_appends_by_another_handle(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            reader, writer = await open_store(ground, poll_interval=0.02), await open_store(ground)
            follow = asyncio.create_task(followed(ground, reader, "s", most=60))
            await asyncio.gather(*(writer.append("s", [{"type": "e"}] * 2) for _ in range(15)))
            await asyncio.gather(*((reader, writer)[n % 2].append("s", [{"type": "e"}]) for n in range(30)))
            events = await asyncio.wait_for(follow, PATIENCE)
            assert numbers(events) == list(range(1, 61))

        store_venue.play(scene, empty=empty(store_venue))

    def test_follower_goes_on_behind_what_was_deleted(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e"}] * 5)
            await store.delete_before("2999-01-01T00:00:00Z")
            follow = asyncio.create_task(followed(ground, store, "s", 2, most=1))
            await store.append("s", [{"type": "after"}])
            [event] = await asyncio.wait_for(follow, PATIENCE)
            assert (event["sequence"], event["type"]) == (6, "after")

        store_venue.play(scene, empty=empty(store_venue))

    def test_following_ends_in_time_and_with_the_store(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e"}] * 2)
            assert numbers(await followed(ground, store, "s", most=9, timeout=0.05)) == [1, 2]
            heard: list[Any] = []
            follow = asyncio.create_task(followed(ground, store, "s", most=9, heard=heard))
            await until(lambda: len(heard) == 2)
            await store.close()
            assert numbers(await asyncio.wait_for(follow, PATIENCE)) == [1, 2]

        store_venue.play(scene, empty=empty(store_venue))
