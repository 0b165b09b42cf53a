"""What every task queue must do with leases and tokens, in any colour."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.stores import SyncTaskQueue, TaskStatus
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_ground import cancelled_for_good, elsewhere
from holdfast.testing.contract.store_tasks import open_queue, tables_of

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class TaskLeasesContract:
    """Who holds a task, for how long, and what comes of one who is late."""

    def test_late_worker_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue, other = await open_queue(ground), await open_queue(ground)
            task_id = await queue.enqueue("x", visibility_timeout=1000)
            late = await queue.dequeue(worker_id="A")
            await ground.advance(1001)
            now = await elsewhere(other.dequeue(worker_id="B"))
            assert (now.task_id, now.attempts, now.worker_id) == (task_id, 2, "B")
            assert now.token != late.token
            assert not await queue.extend(task_id, 60)
            assert not await queue.complete(task_id)
            assert not await queue.complete(task_id, token=late.token)
            assert not await queue.fail(task_id, "late", token=late.token)
            assert not await queue.release(task_id, token=late.token)
            assert (await queue.get(task_id)).worker_id == "B"
            assert await other.complete(task_id, token=now.token)
            assert not await other.fail(task_id, "after the end", token=now.token)
            assert (await queue.get(task_id)).status == TaskStatus.COMPLETED
            assert await other.complete(task_id, token=now.token)  # the same call again is the same answer

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_late_worker_changes_nothing_of_a_task_that_waits_after_another_had_it(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x", visibility_timeout=1000)
            late = await queue.dequeue()
            await ground.advance(1001)
            now = await elsewhere(queue.dequeue())
            assert await elsewhere(queue.fail(task_id, "again", token=now.token, retry_in=60))
            assert not await queue.complete(task_id, token=late.token)
            assert not await queue.fail(task_id, "late", token=late.token)
            task = await queue.get(task_id)
            assert (task.status, task.error) == (TaskStatus.PENDING, "again")

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_late_worker_is_heard_if_nobody_came_since(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            first, second = await queue.enqueue_many(["a", "b"], visibility_timeout=10)
            await queue.dequeue_many(2)
            await ground.advance(11)
            assert await queue.extend(first, 10)
            assert await queue.complete(first)
            await queue.requeue_stale()
            assert (await queue.get(second)).status == TaskStatus.PENDING
            assert await queue.complete(second)
            assert (await queue.get_stats())["completed"] == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_task_of_somebody_else_needs_the_token(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x")
            task = await queue.dequeue()
            assert not await elsewhere(queue.complete(task_id))
            assert not await elsewhere(queue.fail(task_id, "mine?"))
            assert not await elsewhere(queue.extend(task_id, 10))
            assert not await queue.complete(task_id, token=task_id)  # a guess
            assert await elsewhere(queue.extend(task_id, 10, token=task.token))
            assert await elsewhere(queue.complete(task_id, token=task.token))

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_task_that_nobody_holds_may_be_ended_by_anyone(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            done, failed = await queue.enqueue_many(["not needed", "not now"])
            assert await queue.complete(done)
            assert await queue.fail(failed, "not now", retry_in=60)
            assert await queue.dequeue() is None
            assert (await queue.get(done)).status == TaskStatus.COMPLETED
            assert not await queue.complete(done)
            assert not await queue.complete("nobody")
            assert not await queue.fail("nobody", "x")

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_lease_that_is_over_is_taken_by_dequeue_itself(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("poison", max_attempts=3, visibility_timeout=10)
            for attempt in (1, 2, 3):
                task = await elsewhere(queue.dequeue())
                assert (task.task_id, task.attempts) == (task_id, attempt)
                assert ("lost" in task.error) is (attempt > 1)
                await ground.advance(11)
            assert await queue.dequeue() is None
            dead = await queue.get(task_id)
            assert (dead.status, dead.attempts, dead.worker_id) == (TaskStatus.DEAD_LETTERED, 3, "")
            assert "lost" in dead.error

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_lease_is_counted_from_the_taking(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue("waited long", visibility_timeout=600)
            await ground.advance(700)
            await queue.dequeue()
            assert await queue.requeue_stale() == 0
            assert await elsewhere(queue.dequeue()) is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_extended_lease_is_not_taken(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x", visibility_timeout=1000)
            await queue.dequeue()
            for _ in range(3):
                await ground.advance(800)
                assert await queue.extend(task_id, 1000)
            assert await elsewhere(queue.dequeue()) is None
            await ground.advance(1001)
            assert (await elsewhere(queue.dequeue())).attempts == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_requeue_stale_counts_what_it_did(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue_many(range(120), "a", visibility_timeout=1000)
            last = await queue.enqueue("last try", "b", visibility_timeout=1000, max_attempts=1)
            held = await queue.enqueue("held", "a", visibility_timeout=10_000)
            assert len(await queue.dequeue_many(200, "a")) == 121
            await queue.dequeue("b")
            await queue.enqueue("delayed", "a", delay=5)
            assert await queue.requeue_stale() == 0
            await ground.advance(1001)
            assert await queue.requeue_stale("b") == 1
            assert (await queue.get(last)).status == TaskStatus.DEAD_LETTERED
            assert await queue.requeue_stale() == 120
            assert await queue.requeue_stale() == 0
            assert (await queue.get(held)).status == TaskStatus.PROCESSING
            stats = await queue.get_stats()
            assert (stats["pending"], stats["processing"], stats["dead_lettered"]) == (121, 1, 1)
            assert len(await queue.dequeue_many(200, "a")) == 121

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_requeue_stale_leaves_alone_what_is_taken_meanwhile(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue, other = await open_queue(ground), await open_queue(ground)
            task_id = await queue.enqueue("x", visibility_timeout=1000)
            await elsewhere(queue.dequeue())
            await ground.advance(1001)
            keepers = [elsewhere(each.requeue_stale()) for each in (queue, other) * 3]
            takers = [elsewhere(each.dequeue(worker_id="w")) for each in (queue, other) * 3]
            found: list[Any] = await asyncio.gather(*keepers, *takers)
            assert sum(found[: len(keepers)]) <= 1
            # Who looked while a keeper had it in its hands has found nothing; then it is there to be taken now.
            taken = [task for task in found[len(keepers) :] if task is not None]
            [task] = taken or [await elsewhere(queue.dequeue(worker_id="w"))]
            assert await queue.requeue_stale() == 0
            held = await queue.get(task_id)
            assert (held.status, held.worker_id, held.attempts) == (TaskStatus.PROCESSING, "w", 2)
            assert await queue.complete(task_id, token=task.token)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_dequeue_that_is_cancelled_again_and_again_gives_back_all_it_got(self, store_venue: StoreVenue) -> None:
        if store_venue.colour is Colour.SYNC:
            assert not hasattr(SyncTaskQueue, "cancel")  # a thread cannot be cancelled
            return

        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue_many(range(5), max_attempts=1)
            await cancelled_for_good(queue.dequeue_many(5))
            assert [task.attempts for task in await queue.dequeue_many(9)] == [1] * 5

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_expired_lease_has_one_heir(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            handles = [await open_queue(ground) for _ in range(2)]
            for _ in range(3):
                task_id = await handles[0].enqueue("x", visibility_timeout=1000)
                await elsewhere(handles[0].dequeue())
                await ground.advance(1001)
                found = await asyncio.gather(*[elsewhere(handles[n % 2].dequeue()) for n in range(50)])
                [heir] = [task for task in found if task is not None]
                assert (heir.task_id, heir.attempts) == (task_id, 2)
                assert await handles[0].complete(task_id, token=heir.token)

        store_venue.play(scene, empty=tables_of(store_venue))
