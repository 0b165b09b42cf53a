"""What the small dead letter queue must do, in any colour and on every database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize
from holdfast.testing.contract.store_dead_letters_stage import open_letters, open_queue, play_queue

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_NOTHING = {"pending": 0, "retrying": 0, "succeeded": 0, "permanent_failure": 0, "total": 0}


class SmallQueue:
    """Enqueue, dequeue, mark, count."""

    def test_item_is_due_at_once_and_comes_back_as_it_was(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, _: Ground) -> None:
            item_id = await queue.enqueue("wf-123", "ConnectionTimeout: away", {"input": ["data", 1]}, max_retries=3)
            [item] = await queue.dequeue_ready()
            assert (item["id"], item["workflow_id"], item["error"]) == (item_id, "wf-123", "ConnectionTimeout: away")
            assert item["payload"] == {"input": ["data", 1]}
            assert (item["retry_count"], item["max_retries"], item["status"]) == (0, 3, "retrying")
            assert item["created_at"].utcoffset() == timedelta(0)
            assert await queue.get("nobody") is None

        play_queue(store_venue, scene)

    def test_payload_that_is_not_a_mapping_is_kept_too(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, _: Ground) -> None:
            given = ["text", 17, None, [1], "", {}]
            for payload in given:
                assert (await queue.get(await queue.enqueue("w", "e", payload)))["payload"] == payload
            with pytest.raises(CannotSerialize, match="payload"):
                await queue.enqueue("w", "e", {"a": object()})

        play_queue(store_venue, scene)

    def test_waits_double_up_to_an_hour_and_then_it_is_a_permanent_failure(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, ground: Ground) -> None:
            item_id = await queue.enqueue("w", "e", None, max_retries=9)
            for n in range(1, 9):
                [item] = await queue.dequeue_ready()
                assert item["retry_count"] == n - 1
                assert await queue.mark_failure(item_id)
                read = await queue.get(item_id)
                assert (read["status"], read["retry_count"]) == ("pending", n)
                full = min(3600, 60 * 2 ** (n - 1))
                wait = read["next_retry_at"] - item["next_retry_at"] + timedelta(seconds=300)
                assert full - 0.001 <= wait.total_seconds() <= min(3600, 1.25 * full) + 60
                assert await queue.dequeue_ready() == []
                await ground.advance(1.25 * full)
            await queue.dequeue_ready()
            assert await queue.mark_failure(item_id, "at last")
            read = await queue.get(item_id)
            assert (read["status"], read["retry_count"]) == ("permanent_failure", 9)
            assert (read["next_retry_at"], read["error"]) == (None, "e")

        play_queue(store_venue, scene)

    def test_stats_have_the_words_of_the_queue(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, _: Ground) -> None:
            assert await queue.get_stats() == _NOTHING
            waiting, good, bad = [await queue.enqueue("w", "e", 1, max_retries=1) for _ in range(3)]
            assert await queue.mark_success(good)
            assert await queue.mark_failure(bad)
            assert await queue.mark_retrying(waiting)
            await queue.enqueue("w", "e", 1)
            await queue.enqueue("w", "e", 1, max_retries=0)
            counts = {"pending": 1, "retrying": 1, "succeeded": 1, "permanent_failure": 2, "total": 5}
            assert await queue.get_stats() == counts

        play_queue(store_venue, scene)

    def test_item_without_retries_is_never_handed_out(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, _: Ground) -> None:
            item_id = await queue.enqueue("w", "e", 1, max_retries=0)
            assert await queue.dequeue_ready() == []
            assert not await queue.mark_retrying(item_id)
            assert (await queue.get(item_id))["status"] == "permanent_failure"

        play_queue(store_venue, scene)

    def test_limit_is_obeyed_and_the_longest_due_come_first(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, ground: Ground) -> None:
            given = []
            for _ in range(5):
                given.append(await queue.enqueue("w", "e", 1))
                await ground.advance(1)
            first = await queue.dequeue_ready(limit=2)
            second = await queue.dequeue_ready(limit=100)
            assert [item["id"] for item in first + second] == given
            assert await queue.dequeue_ready(limit=0) == []

        play_queue(store_venue, scene)

    def test_two_workers_never_get_the_same_item(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, ground: Ground) -> None:
            other = await open_queue(ground)
            given = {await queue.enqueue("w", "e", n) for n in range(12)}

            async def worker(door: Any) -> list[str]:
                got: list[str] = []
                while items := await door.dequeue_ready(limit=3):
                    got += [item["id"] for item in items]
                return got

            lots = await asyncio.gather(*(worker(door) for door in (queue, other, queue, other)))
            taken = [item_id for lot in lots for item_id in lot]
            assert len(taken) == len(set(taken))
            left = {item["id"] for item in await queue.dequeue_ready(limit=50)}
            assert {*taken, *left} == given

        play_queue(store_venue, scene)

    def test_marking_retrying_claims_what_is_free_and_keeps_what_is_held(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, _: Ground) -> None:
            item_id = await queue.enqueue("w", "e", 1)
            assert await queue.mark_retrying(item_id)
            held = await queue.get(item_id)
            assert await queue.mark_retrying(item_id)
            assert await queue.get(item_id) == held
            assert not await asyncio.create_task(_in_another(queue, item_id))
            assert await queue.mark_success(item_id)
            assert not await queue.mark_retrying(item_id)
            assert not await queue.mark_retrying("nobody")

        play_queue(store_venue, scene)

    def test_item_of_a_dead_worker_comes_back_and_the_dead_end_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, ground: Ground) -> None:
            item_id = await queue.enqueue("w", "e", 1)
            [dead] = await queue.dequeue_ready()
            await ground.advance(299)
            assert await queue.dequeue_ready() == []
            assert await queue.extend(item_id)
            await ground.advance(200)
            assert await queue.dequeue_ready() == []
            await ground.advance(101)
            [alive] = await queue.dequeue_ready()
            assert (alive["id"], alive["retry_count"]) == (item_id, 1)
            assert not await queue.mark_failure(item_id, token=dead["token"])
            assert not await queue.mark_success(item_id, token=dead["token"])
            assert not await queue.extend(item_id, token=dead["token"])
            assert (await queue.get(item_id))["token"] == alive["token"]
            assert await queue.mark_success(item_id, token=alive["token"])
            assert not await queue.mark_failure(item_id, token=alive["token"])
            assert (await queue.get(item_id))["status"] == "succeeded"

        play_queue(store_venue, scene)

    def test_both_doors_show_the_same_record(self, store_venue: StoreVenue) -> None:
        async def scene(queue: Any, ground: Ground) -> None:
            letters = await open_letters(ground)
            item_id = await queue.enqueue("run-1", "boom", {"a": 1})
            record = await letters.get_by_id(item_id)
            assert (record.workflow_id, record.error_message, record.payload) == ("run-1", "boom", {"a": 1})
            assert (record.domain, record.status, record.max_retries) == ("workflow", "pending", 3)
            taken = await letters.try_acquire_for_replay(item_id, 3)
            assert (await queue.get(item_id))["status"] == "retrying"
            assert await queue.dequeue_ready() == []
            assert await letters.complete_replay(item_id, True, token=taken.replay_token)
            assert (await queue.get_stats())["succeeded"] == 1
            await letters.create("shop", "t", retry_delay=5, payload=[1])
            [item] = await queue.dequeue_ready()
            assert (item["workflow_id"], item["payload"]) == ("", [1])

        play_queue(store_venue, scene)


async def _in_another(queue: Any, item_id: str) -> bool:
    """Try from a task that holds nothing."""
    from holdfast.stores import tokens  # noqa: PLC0415 -- only to forget

    tokens.take_over(tokens.Tokens({}, {}))
    return bool(await queue.mark_retrying(item_id))


__all__ = ["SmallQueue"]
