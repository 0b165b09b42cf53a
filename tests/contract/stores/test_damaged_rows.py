"""Rows that somebody else has written, and that are no JSON: each is told by its name, and hides none of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotDeserialize
from holdfast.testing.contract import store_dead_letters_stage as letters
from holdfast.testing.contract import store_events, store_executions, store_idempotency
from holdfast.testing.contract.store_events_following import followed

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb")
DAMAGED = ["", "oops", '{"a":1},{"b":2}']


@pytest.mark.parametrize("damaged", [*DAMAGED, "1", "null", "[]"])
def test_row_that_is_no_event_is_named_after_those_before_it(store_venue: StoreVenue, damaged: str) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_events.open_store(ground)
        await store.append("s", [{"type": "e"}] * 4)
        await ground.execute("UPDATE {holdfast_events} SET data = ? WHERE sequence = 3", damaged)
        with pytest.raises(CannotDeserialize, match=r"row 3 of the stream 's'"):
            await store.get("s")
        assert [event["sequence"] for event in await store.get("s", limit=2)] == [1, 2]
        assert [event["sequence"] for event in await store.get_after("s", 3)] == [4]
        assert [event["sequence"] for event in await followed(ground, store, "s", most=2)] == [1, 2]
        with pytest.raises(CannotDeserialize, match=r"row 3 of the stream 's'"):
            await followed(ground, store, "s", most=3)

    store_venue.play(scene, empty=store_events.TABLES)


@pytest.mark.parametrize("damaged", DAMAGED)
def test_execution_with_a_value_that_is_no_json_is_listed_beside_the_others(
    store_venue: StoreVenue, damaged: str
) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_executions.open_store(ground)
        for run_id in "ab":
            await store.record_start(run_id, parameters={"n": 1}, metadata={"m": 1})
            await store.record_completion(run_id, {"r": 1})
        for column in ("parameters", "result", "metadata_json"):
            await ground.execute(f"UPDATE {{holdfast_executions}} SET {column} = ? WHERE run_id = 'a'", damaged)
        whole, hurt = await store.list_executions()
        assert (whole["parameters"], whole["result"], whole["metadata"]) == ({"n": 1}, {"r": 1}, {"m": 1})
        assert {hurt["parameters"], hurt["result"], hurt["metadata"]} == {"<cannot be read: JSON>"}
        assert await store.get_execution("a") == hurt

    store_venue.play(scene, empty=store_executions.TABLES)


@pytest.mark.parametrize("column", ["response_data", "headers"])
def test_result_of_a_key_that_is_no_json_is_told_with_its_key(store_venue: StoreVenue, column: str) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_idempotency.open_store(ground)
        await store.set("k", "f", {"a": 1})
        await ground.execute(f"UPDATE {{holdfast_idempotency}} SET {column} = 'oops'")
        for asking in (store.get("k"), store.claim("k", "f")):
            with pytest.raises(CannotDeserialize, match=r"idempotency key 'k'.*expires at 2"):
                await asking

    store_venue.play(scene, empty=store_idempotency.TABLES)


@pytest.mark.parametrize("damaged", DAMAGED)
def test_dead_letter_that_is_no_json_is_listed_and_claimed_like_the_others(
    store_venue: StoreVenue, damaged: str
) -> None:
    async def scene(queue: Any, ground: Ground) -> None:
        repository = await letters.open_letters(ground)
        first, second = [await queue.enqueue("w", "e", {"n": number}) for number in range(2)]
        for column in ("payload", "metadata", "snapshot_data"):
            await ground.execute(f"UPDATE {{holdfast_dlq}} SET {column} = ? WHERE id = ?", damaged, first)
        found = {record.id: record for record in await repository.find_page()}
        assert found[first].payload == damaged
        assert found[first].metadata == found[first].snapshot_data == {"<cannot be read: JSON>": damaged}
        assert found[second].payload == {"n": 1}
        assert {item["id"] for item in await queue.dequeue_ready()} == {first, second}
        assert await queue.mark_success(first)

    letters.play_queue(store_venue, scene)
