"""What the tables of every event log look like, and what its database refuses."""

from __future__ import annotations

import asyncio
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import Conflict
from holdfast.stores.events.facts import AppendEvents
from holdfast.stores.events.queries import event_queries
from holdfast.testing.contract.store_events import TABLES, numbers, open_store

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_SHOWN = "SELECT stream_key, sequence, event_type, data FROM {holdfast_events} ORDER BY id"


class EventTableContract:
    """Rows as documented, times that never go back, and no append twice."""

    def test_rows_are_as_documented(self, store_venue: StoreVenue) -> None:
        events: list[dict[str, Any]] = [{"type": "a", "data": 1}, {"event_type": "b"}, {"data": "neither"}]

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", events)
            rows = await ground.fetch(_SHOWN)
            assert [(row["stream_key"], row["sequence"], row["event_type"]) for row in rows] == [
                ("s", 1, "a"),
                ("s", 2, "b"),
                ("s", 3, "unknown"),
            ]
            assert [json.loads(row["data"]) for row in rows] == events

        store_venue.play(scene, empty=TABLES)

    def test_an_event_is_never_older_than_the_one_before_it(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            [first] = await store.append("s", [{"type": "e"}])
            await ground.advance(-3600)
            [second] = await store.append("s", [{"type": "e"}])
            [elsewhere] = await store.append("t", [{"type": "e"}])
            assert second["timestamp"] == first["timestamp"] > elsewhere["timestamp"]
            await ground.advance(7200)
            [third] = await store.append("s", [{"type": "e"}])
            assert third["timestamp"] > second["timestamp"]
            assert await store.delete_before(third["timestamp"]) == 3
            assert numbers(await store.get("s")) == [3]

        store_venue.play(scene, empty=TABLES)

    def test_rows_written_past_the_store_are_named_by_the_append_they_stop(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.append("s", [{"type": "e"}])
            await ground.execute(
                "INSERT INTO {holdfast_events} (stream_key, sequence, event_type, data, timestamp) "
                "SELECT stream_key, 2, event_type, data, timestamp FROM {holdfast_events}"
            )
            for expected in (None, 1):
                with pytest.raises(Conflict, match=r"'s' has an event.*last_sequence in holdfast_event_streams"):
                    await store.append("s", [{"type": "e"}], expected_sequence=expected)
            await ground.execute("UPDATE {holdfast_event_streams} SET last_sequence = 2")
            assert numbers(await store.append("s", [{"type": "e"}])) == [3]

        store_venue.play(scene, empty=TABLES)

    def test_append_that_reaches_the_database_twice_is_refused_there(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store, manager = await open_store(ground), await ground.manager()
            kind = AppendEvents(event_queries(manager.dialect, "holdfast"))
            row = ("s", "the key of this append", None, "a", "{}", "b", "{}")

            async def work(transaction: Transaction) -> Any:
                return await kind.apply(transaction, [row])

            await ground.on_loop(manager.run(work))
            with pytest.raises(Conflict):
                await ground.on_loop(manager.run(work))
            assert numbers(await store.get("s")) == [1, 2]
            assert numbers(await store.append("s", [{"type": "e"}])) == [3]

        store_venue.play(scene, empty=TABLES)

    def test_appends_of_one_event_and_of_several_that_come_together_have_no_gaps(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            events = [{"type": "e", "data": n} for n in range(3)]
            streams = [f"s{n % 3}" for n in range(60)]
            answers = await asyncio.gather(
                *(store.append(stream, events[: 1 + (n % 7 == 0) * 2]) for n, stream in enumerate(streams))
            )
            for name in ("s0", "s1", "s2"):
                there = await store.get(name)
                assert numbers(there) == list(range(1, len(there) + 1))
                told = [event for n, answer in enumerate(answers) if streams[n] == name for event in answer]
                assert sorted(told, key=itemgetter("sequence")) == there
                assert await store.last_sequence(name) == len(there)

        store_venue.play(scene, empty=TABLES)

    def test_append_of_more_than_a_statement_holds_is_one_append(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            large = "ä" * 2_000_000
            await store.append("s", [{"type": "large", "data": large} for _ in range(5)])
            assert [event["data"] == large for event in await store.get("s")] == [True] * 5

        store_venue.play(scene, empty=TABLES)
