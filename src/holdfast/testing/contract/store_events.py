"""What every event log must do, in any colour."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.errors import CannotSerialize, MisuseError, SequenceConflict, TooLong, UnknownCommit
from holdfast.stores import DBEventStoreBackend, SqliteEventStoreBackend, SyncEventStore
from holdfast.testing.contract.store_wrong_values import NO_KEYS, NO_MOMENTS, NO_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_events", "holdfast_event_streams")


async def open_store(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the event log of *ground*."""
    store: DBEventStoreBackend
    if ground.venue.is_sql:
        store = DBEventStoreBackend(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    else:
        store = SqliteEventStoreBackend(ground.folder / "events.sqlite", **options)
    await ground.on_loop(store.initialize())
    ground.afterwards.push_async_callback(_closed, ground, store)
    return ground.face(store, SyncEventStore)


async def _closed(ground: Ground, store: DBEventStoreBackend) -> None:
    await ground.on_loop(store.close())


def empty(venue: StoreVenue) -> tuple[str, ...]:
    """Return the tables to begin without rows in."""
    return TABLES if venue.is_sql else ()


def numbers(events: list[dict[str, Any]]) -> list[int]:
    """Return the sequence numbers of *events*."""
    return [event["sequence"] for event in events]


def raised(error: Exception) -> Callable[[], None]:
    """Return what raises *error* when it is called."""

    def act() -> None:
        raise error

    return act


class EventContract:
    """Streams count from 1 without gaps, whoever appends and whatever is deleted."""

    def test_append_returns_events_with_their_numbers(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            first = await store.append("s", [{"type": "started", "data": {"n": 1}}, {"type": "completed"}])
            assert numbers(first) == [1, 2]
            assert first[0] == {
                "type": "started",
                "data": {"n": 1},
                "sequence": 1,
                "timestamp": first[0]["timestamp"],
            }
            assert datetime.fromisoformat(first[0]["timestamp"]).utcoffset() == timedelta(0)
            assert numbers(await store.append("s", [{"type": "again"}])) == [3]
            assert numbers(await store.append("t", [{"type": "other"}])) == [1]
            assert (await store.get("s"))[:2] == first

        store_venue.play(scene, empty=empty(store_venue))

    def test_event_comes_back_as_it_went_in(self, store_venue: StoreVenue) -> None:
        event = {
            "type": "ä☃",
            "data": {"text": 'ä☃\n"\\\0', "number": 1.5, "big": 2**60, "nothing": None, "list": [True, {"deep": []}]},
            "event_type": "kept too",
            "request_id": "r-1",
        }

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            [appended] = await store.append("s", [event])
            [stored] = await store.get("s")
            assert stored == appended
            assert {key: stored[key] for key in event} == event
            assert set(stored) - set(event) == {"sequence", "timestamp"}

        store_venue.play(scene, empty=empty(store_venue))

    def test_get_after_is_strictly_greater_and_pages(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e", "data": n} for n in range(10)])
            assert numbers(await store.get_after("s", after_sequence=5)) == [6, 7, 8, 9, 10]
            assert numbers(await store.get_after("s", 5, limit=2)) == [6, 7]
            assert numbers(await store.get("s", limit=3)) == [1, 2, 3]
            assert await store.get("s", limit=0) == []
            assert await store.get_after("s", 10) == []
            assert await store.get("nobody") == []
            with pytest.raises(ValueError, match="limit"):
                await store.get("s", limit=-1)

        store_venue.play(scene, empty=empty(store_venue))

    def test_every_concurrent_append_succeeds_without_gaps(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, other = await open_store(ground), await open_store(ground)
            appends = [
                (one, other)[n % 2].append("s", [{"type": "e", "data": [n, k]} for k in range(1 + n % 3)])
                for n in range(100)
            ]
            answers = await asyncio.gather(*appends)
            stored = await one.get("s")
            assert numbers(stored) == list(range(1, len(stored) + 1))
            for n, answer in enumerate(answers):
                assert numbers(answer) == list(range(answer[0]["sequence"], answer[0]["sequence"] + 1 + n % 3))
                assert [stored[each["sequence"] - 1]["data"] for each in answer] == [[n, k] for k in range(1 + n % 3)]

        store_venue.play(scene, empty=empty(store_venue))

    def test_appends_to_many_streams_at_once_are_each_numbered_in_their_own(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for _ in range(2):  # to streams that are new, and to those that have events
                wanted = [(f"s{n // 2:02}", [{"data": [n, k]} for k in range(1 + n % 3)]) for n in range(160)]
                answers = await asyncio.gather(*(store.append(key, events) for key, events in wanted))
                for (key, events), answer in zip(wanted, answers, strict=True):
                    assert [event["data"] for event in answer] == [event["data"] for event in events]
                    assert await store.get_after(key, answer[0]["sequence"] - 1, limit=len(answer)) == answer
            for key in await store.stream_keys():
                assert numbers(await store.get(key)) == list(range(1, await store.count(key) + 1))

        store_venue.play(scene, empty=empty(store_venue))

    def test_appends_of_one_task_keep_their_order(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)

            async def write(stream_key: str) -> None:
                for n in range(6):
                    await store.append(stream_key, [{"type": "e", "data": n}])

            keys = [f"s{n}" for n in range(4)]
            await asyncio.gather(*(write(key) for key in keys))
            for key in keys:
                assert [event["data"] for event in await store.get(key)] == list(range(6))

        store_venue.play(scene, empty=empty(store_venue))

    def test_numbers_go_on_after_everything_was_deleted(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e"}] * 3)
            assert await store.delete_before(datetime.now(UTC) + timedelta(days=1)) == 3
            assert (await store.get("s"), await store.count("s"), await store.stream_keys()) == ([], 0, [])
            assert await store.last_sequence("s") == 3
            assert numbers(await store.append("s", [{"type": "e"}])) == [4]
            assert numbers(await store.get_after("s", 3)) == [4]

        store_venue.play(scene, empty=empty(store_venue))

    def test_delete_before_understands_every_time_zone(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            [event] = await store.append("s", [{"type": "e"}])
            at = datetime.fromisoformat(event["timestamp"])
            assert await store.delete_before(at) == 0  # what is as old as that stays
            assert await store.delete_before(event["timestamp"].replace("+00:00", "Z")) == 0
            assert await store.delete_before((at - timedelta(seconds=1)).isoformat()) == 0
            later = (at + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=-5)))
            assert later.isoformat() < event["timestamp"]  # as text it is before, as a time it is after
            assert await store.delete_before(later.isoformat()) == 1
            with pytest.raises(ValueError, match="time zone"):
                await store.delete_before("2026-01-01T00:00:00")
            for bad, refused in NO_MOMENTS:
                with pytest.raises(refused, match="timestamp is"):
                    await store.delete_before(bad)
            with pytest.raises(ValueError, match="timestamp is"):
                await store.delete_before("last week")

        store_venue.play(scene, empty=empty(store_venue))

    def test_delete_before_deletes_more_than_one_batch_and_counts(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e", "data": n} for n in range(2_500)])
            assert await store.count("s") == 2_500
            one, other = await asyncio.gather(*[store.delete_before("2999-01-01T00:00:00Z") for _ in range(2)])
            assert one + other == 2_500
            assert await store.count("s") == 0

        store_venue.play(scene, empty=empty(store_venue))

    def test_stream_keys_are_sorted_and_paged_and_exact(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            keys = ["b", "B", "a ", "a", "ä", "orders:%_1"]
            await asyncio.gather(*(store.append(key, [{"type": "e", "data": key}]) for key in keys))
            assert await store.stream_keys() == sorted(keys)
            assert await store.stream_keys(limit=2) == sorted(keys)[:2]
            assert await store.stream_keys(after=sorted(keys)[1], limit=2) == sorted(keys)[2:4]
            for key in keys:
                assert [event["data"] for event in await store.get(key)] == [key]
                assert await store.count(key) == 1

        store_venue.play(scene, empty=empty(store_venue))

    def test_expected_sequence_appends_only_there(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert numbers(await store.append("s", [{"type": "a"}, {"type": "b"}], expected_sequence=0)) == [1, 2]
            with pytest.raises(SequenceConflict, match="number 2, not 0") as conflict:
                await store.append("s", [{"type": "late"}], expected_sequence=0)
            told = conflict.value
            assert (told.stream_key, told.expected, told.present) == ("s", 0, 2)
            assert numbers(await store.append("s", [{"type": "c"}], expected_sequence=2)) == [3]
            with pytest.raises(SequenceConflict) as ahead:
                await store.append("new", [{"type": "x"}], expected_sequence=7)
            assert ahead.value.present == 0
            assert await store.stream_keys() == ["s"]
            assert [event["type"] for event in await store.get("s")] == ["a", "b", "c"]
            await store.delete_before("2999-01-01T00:00:00Z")
            assert numbers(await store.append("s", [{"type": "d"}], expected_sequence=3)) == [4]

        store_venue.play(scene, empty=empty(store_venue))

    def test_hundred_optimistic_writers_have_one_winner(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            stores = [await open_store(ground), await open_store(ground)]
            for present in range(3):
                appends = [
                    stores[n % 2].append("s", [{"type": "e", "data": n}], expected_sequence=present) for n in range(100)
                ]
                answers = await asyncio.gather(*appends, return_exceptions=True)
                assert [numbers(each) for each in answers if isinstance(each, list)] == [[present + 1]]
                lost = [each for each in answers if isinstance(each, SequenceConflict)]
                assert {each.present for each in lost} == {present + 1}
                assert len(lost) == 99

        store_venue.play(scene, empty=empty(store_venue))

    def test_empty_append_writes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert await store.append("s", []) == []
            assert await store.append("s", [], expected_sequence=0) == []
            with pytest.raises(SequenceConflict):
                await store.append("s", [], expected_sequence=1)
            assert (await store.stream_keys(), await store.last_sequence("s")) == ([], 0)

        store_venue.play(scene, empty=empty(store_venue))

    def test_what_is_no_event_is_refused_at_the_door(self, store_venue: StoreVenue) -> None:
        refused: list[tuple[Any, str]] = [
            ([{"type": "e"}, {"type": "e", "data": {"bad": object()}}], r"\$\[1\]\.data\.bad"),
            ([{"type": "e", "sequence": 1}], "sets 'sequence'"),
            ([{"type": "e", "timestamp": "now"}], "sets 'timestamp'"),
            ([{"type": 5}], r"\$\[0\].*type of an event"),
            ([{"type": "x" * 1000}], "type of an event"),
            (["text"], "not a dict"),
        ]

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for events, said in refused:
                with pytest.raises(CannotSerialize, match=said):
                    await store.append("s", events)
            with pytest.raises(MisuseError, match="list of events"):
                await store.append("s", {"type": "e"})
            with pytest.raises(TooLong):
                await store.append("s" * 1000, [{"type": "e"}])
            with pytest.raises(ValueError, match="empty"):
                await store.append("", [{"type": "e"}])
            assert await store.stream_keys() == []

        store_venue.play(scene, empty=empty(store_venue))

    def test_what_is_no_key_and_no_number_is_refused_at_the_door(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e"}])
            for wrong, refused in NO_KEYS:
                for call in (store.get, store.count, store.last_sequence):
                    with pytest.raises(refused, match="stream key"):
                        await call(wrong)
                if wrong:
                    with pytest.raises(refused, match="stream key"):
                        await store.stream_keys(after=wrong)
            for wrong in (None, *NO_NUMBERS):
                with pytest.raises(ValueError, match="after_sequence"):
                    await store.get_after("s", wrong)
            for wrong in NO_NUMBERS:
                with pytest.raises(ValueError, match="limit"):
                    await store.get("s", limit=wrong)
                with pytest.raises(ValueError, match="expected_sequence"):
                    await store.append("s", [{"type": "e"}], expected_sequence=wrong)
            assert await store.count("s") == 1

        store_venue.play(scene, empty=empty(store_venue))

    def test_append_whose_reply_was_lost_happens_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "before"}])
            for point in ("pipeline.after_commit", "pipeline.before_commit"):
                for optimistic in (False, True):
                    there = await store.last_sequence("s")
                    faults.arm(point, raised(UnknownCommit("the reply was lost")))
                    events = [{"type": "e", "data": k} for k in range(2)]
                    told = await store.append("s", events, expected_sequence=there if optimistic else None)
                    faults.disarm()
                    assert told == await store.get_after("s", there)
            assert numbers(await store.get("s")) == list(range(1, 10))

        try:
            store_venue.play(scene, empty=empty(store_venue))
        finally:
            faults.disarm()
