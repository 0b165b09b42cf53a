"""What every task queue must do, in any colour."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, MisuseError, TaskConflict, TooLong
from holdfast.stores import RedisTaskQueue, SQLTaskQueue, SyncTaskQueue, TaskStatus
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.contract.store_wrong_values import NO_NUMBERS, NO_TEXTS, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.stores import Task
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_task_queue",)


async def open_queue(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the task queue of *ground*."""
    queue = await make_queue(ground, **options)
    return ground.face(queue, SyncTaskQueue)


async def make_queue(ground: Ground, **options: Any) -> Any:
    """Return one more queue, on the loop that stores of this colour live on."""
    queue: Any
    if ground.venue.is_sql:
        queue = SQLTaskQueue(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    else:
        queue = RedisTaskQueue(await ground.link(), prefix=ground.prefix, **options)
    await ground.on_loop(queue.initialize())
    ground.afterwards.push_async_callback(_closed, ground, queue)
    return queue


async def _closed(ground: Ground, queue: Any) -> None:
    await ground.on_loop(queue.close())


def tables_of(venue: StoreVenue) -> Iterable[str]:
    """Return the tables that a scene begins without a row in."""
    return TABLES if venue.is_sql else ()


class Sink:
    """A dead-letter queue that may refuse."""

    def __init__(self) -> None:
        self.letters: list[tuple[str, str, Any, int]] = []
        self.refuses = 0

    async def enqueue(self, workflow_id: str, error: str, payload: Any, max_retries: int = 3) -> str:
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("nobody there")
        self.letters.append((workflow_id, error, payload, max_retries))
        return str(len(self.letters))


class TaskQueueContract:
    """A task is one worker's at a time, is tried so often and no more, and none is lost."""

    def test_member_of_an_enum_is_the_queue_that_its_text_names(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue({"n": 1}, Word.PAY)
            assert (await queue.dequeue("pay")).task_id == task_id

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_task_goes_from_hand_to_hand(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue({"to": ["a@x", 1, None]}, "mail", max_attempts=2, visibility_timeout=60)
            waiting = await queue.get(task_id)
            assert (waiting.status, waiting.attempts, waiting.token) == (TaskStatus.PENDING, 0, None)
            task = await queue.dequeue("mail", "w1")
            assert (task.task_id, task.payload, task.queue_name) == (task_id, {"to": ["a@x", 1, None]}, "mail")
            assert (task.status, task.attempts, task.max_attempts) == (TaskStatus.PROCESSING, 1, 2)
            assert (task.worker_id, task.visibility_timeout, task.error) == ("w1", 60, "")
            assert abs((task.lease_until - task.updated_at) - timedelta(seconds=60)) < timedelta(seconds=1)
            assert await queue.dequeue("mail") is None
            assert await queue.complete(task_id) is True
            done = await queue.get(task_id)
            assert (done.status, done.worker_id, done.lease_until) == (TaskStatus.COMPLETED, "", None)
            assert await queue.get("nobody") is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_smallest_priority_then_oldest_goes_first(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue_many(["c", "d"])
            await queue.enqueue("late but urgent", priority=-5)
            await queue.enqueue("e")
            await queue.enqueue("never mind", priority=10)
            await queue.enqueue("urgent when due", priority=-6, delay=100)
            first = await queue.dequeue()
            assert first.payload == "late but urgent"
            await ground.advance(101)
            rest = [task.payload for task in await queue.dequeue_many(10)]
            assert rest == ["urgent when due", "c", "d", "e", "never mind"]

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_queues_are_apart(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue(1, "a")
            assert await queue.dequeue("b") is None
            assert await queue.dequeue("A") is None  # names differ by case
            assert (await queue.get_stats("b"))["total"] == 0
            assert (await queue.dequeue("a")).payload == 1

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_delay_holds_a_task_back(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("later", delay=timedelta(minutes=5))
            assert await queue.dequeue() is None
            assert (await queue.get(task_id)).available_at is not None
            await ground.advance(301)
            assert (await queue.dequeue()).task_id == task_id

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_id_is_given_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            assert await queue.enqueue(1, task_id="order:17") == "order:17"
            with pytest.raises(TaskConflict, match="order:17"):
                await queue.enqueue(1, task_id="order:17")
            with pytest.raises(TaskConflict, match="order:17"):
                await queue.enqueue_many([1, 2], task_ids=["order:18", "order:17"])
            assert await queue.get("order:18") is None  # all or none
            claims = [queue.enqueue(number, task_id="same") for number in range(20)]
            answers = await asyncio.gather(*claims, return_exceptions=True)
            assert Counter(map(type, answers)) == {str: 1, TaskConflict: 19}
            assert (await queue.get_stats())["total"] == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_what_cannot_be_kept_is_refused_at_the_door(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            with pytest.raises(CannotSerialize, match="b"):
                await queue.enqueue({"a": 1, "b": object()})
            with pytest.raises(TooLong, match="8388608"):
                await queue.enqueue("x" * (8 * 1024 * 1024))
            for wrong in ("", "a b", "ä", "x" * 129):
                with pytest.raises(ValueError, match="task id"):
                    await queue.enqueue(1, task_id=wrong)
            with pytest.raises(ValueError, match="max_attempts"):
                await queue.enqueue(1, max_attempts=0)
            with pytest.raises(ValueError, match="delay"):
                await queue.enqueue(1, delay=-1)
            with pytest.raises(ValueError, match="empty"):
                await queue.enqueue(1, "")
            with pytest.raises(ValueError, match="different task ids"):
                await queue.enqueue_many([1, 2], task_ids=["a", "a"])
            for single in ({"to": "ann"}, "ann", b"ann"):  # not its keys, nor its letters
                with pytest.raises(MisuseError, match=r"pass \[payload\]"):
                    await queue.enqueue_many(single)
            assert (await queue.get_stats())["total"] == 0

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_id_or_queue_that_is_none_finds_and_deletes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue_many([1, 2], "mail", task_ids=["7", "seven"])
            await queue.complete("7")
            for wrong in NO_TEXTS:
                for call in (queue.get, queue.complete, queue.release, queue.extend):
                    with pytest.raises(TypeError, match="task id"):
                        await call(wrong)
                with pytest.raises(TypeError, match="task id"):
                    await queue.fail(wrong, "why")
                with pytest.raises(TypeError, match="task id"):
                    await queue.list_tasks(after=wrong)
                for call in (queue.get_stats, queue.list_tasks, queue.requeue_stale):
                    with pytest.raises(TypeError, match="queue name"):
                        await call(wrong)
                for call in (queue.purge, queue.purge_completed):
                    with pytest.raises(TypeError, match="queue name"):
                        await call(0, wrong)
                with pytest.raises(TypeError, match="token"):
                    await queue.complete("seven", token=wrong)
            for wrong in (*NO_NUMBERS, 10_001):
                with pytest.raises(ValueError, match="limit"):
                    await queue.list_tasks(limit=wrong)
                with pytest.raises(ValueError, match="n is a whole number"):
                    await queue.dequeue_many(wrong)
            with pytest.raises(ValueError, match="task id"):
                await queue.get("a\0b")
            with pytest.raises(ValueError, match="token"):
                await queue.complete("seven", token="")
            assert [task.status for task in await queue.list_tasks()] == ["completed", "pending"]

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_failed_task_waits_longer_each_time(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground, retry_interval=100, retry_cap=350)
            task_id = await queue.enqueue("x", max_attempts=9)
            for full in (100, 200, 350, 350):
                task = await queue.dequeue()
                assert await queue.fail(task_id, ValueError("no \x00 luck")) is True
                failed = await queue.get(task_id)
                assert (failed.status, failed.worker_id) == (TaskStatus.PENDING, "")
                assert failed.error == "ValueError: no \ufffd luck"
                wait = (failed.available_at - failed.updated_at).total_seconds()
                assert full / 2 - 0.01 <= wait <= full + 0.01
                assert await queue.dequeue() is None
                await ground.advance(full + 1)
            assert task.attempts == 4

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_wait_may_be_said(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue("x")
            task = await queue.dequeue()
            assert await queue.fail(task.task_id, "at once", retry_in=0)
            again = await queue.dequeue()
            assert (again.attempts, again.error) == (2, "at once")
            assert await queue.fail(task.task_id, "in an hour", retry_in=3600)
            await ground.advance(3500)
            assert await queue.dequeue() is None
            await ground.advance(101)
            assert (await queue.dequeue()).attempts == 3

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_last_attempt_ends_in_dead_lettered_for_good(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x", max_attempts=2)
            for number in (1, 2):
                task = await queue.dequeue()
                assert await queue.fail(task_id, f"try {number}", retry_in=0)
            dead = await queue.get(task_id)
            assert (dead.status, dead.attempts, dead.error) == (TaskStatus.DEAD_LETTERED, 2, "try 2")
            assert await queue.dequeue() is None
            assert not await queue.complete(task_id, token=task.token)
            assert not await queue.complete(task_id)
            assert not await queue.release(task_id, token=task.token)
            assert not await queue.extend(task_id, token=task.token)
            assert (await queue.get(task_id)).status == TaskStatus.DEAD_LETTERED

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_task_that_fails_lets_the_others_go_first(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            bad, good = await queue.enqueue_many(["bad", "good"])
            assert (await queue.dequeue()).task_id == bad
            assert await queue.fail(bad, "again")
            assert (await queue.dequeue()).task_id == good
            assert await queue.dequeue() is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_released_task_was_not_tried(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x", max_attempts=1)
            for _ in range(3):
                assert (await queue.dequeue()).attempts == 1
                assert await queue.release(task_id)
            assert (await queue.get(task_id)).attempts == 0
            assert (await queue.dequeue()).task_id == task_id

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_release_of_a_task_that_nobody_holds_uncounts_no_attempt(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            task_id = await queue.enqueue("x", max_attempts=2, delay=100)
            assert await queue.release(task_id)  # it need not wait any more, and that is all
            assert (await queue.get(task_id)).attempts == 0
            for number in (1, 2):
                assert (await queue.dequeue()).attempts == number
                assert await queue.fail(task_id, "broken")
                assert await queue.release(task_id) is (number == 1)
            assert (await queue.get(task_id)).status == TaskStatus.DEAD_LETTERED

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_stats_and_purge_tell_the_truth(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            await queue.enqueue_many(range(6), max_attempts=1)
            first, second, third, *_ = await queue.dequeue_many(4)
            await queue.complete(first.task_id)
            await queue.fail(third.task_id, "x")
            await ground.advance(100)
            await queue.complete(second.task_id)
            counts = {"pending": 2, "processing": 1, "completed": 2, "failed": 0, "dead_lettered": 1, "total": 6}
            assert await queue.get_stats() == counts
            assert await queue.get_stats("default") == counts
            assert await queue.purge_completed(older_than=50) == 1
            assert await queue.get(first.task_id) is None
            assert await queue.purge_completed(queue_name="other") == 0
            assert await queue.purge_completed() == 1
            assert await queue.purge() == 1
            assert await queue.purge() == 0
            assert (await queue.get_stats())["total"] == 3

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_tasks_are_listed_page_by_page(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            made = await queue.enqueue_many(range(7), task_ids=[f"t{number}" for number in range(7)])
            await queue.enqueue("x", "other", task_id="u")
            await queue.complete("t3")
            page = await queue.list_tasks(limit=3)
            assert [task.task_id for task in page] == made[:3]
            rest = await queue.list_tasks("default", limit=100, after="t2")
            assert [task.task_id for task in rest] == made[3:]
            assert [task.task_id for task in await queue.list_tasks(status="completed")] == ["t3"]
            assert [task.task_id for task in await queue.list_tasks("other", status="pending")] == ["u"]
            assert await queue.list_tasks(limit=0) == []
            with pytest.raises(ValueError, match="no status 'done'; there are pending, processing, completed"):
                await queue.list_tasks(status="done")

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_hundred_workers_take_each_task_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue, other = await open_queue(ground), await open_queue(ground)
            ids = await asyncio.gather(*[queue.enqueue(number) for number in range(100)])
            assert len(set(ids)) == 100
            taken = await asyncio.gather(*[elsewhere((queue, other)[n % 2].dequeue()) for n in range(130)])
            got = [task.task_id for task in taken if task is not None]
            assert sorted(got) == sorted(ids)
            done = [queue.complete(task.task_id, token=task.token) for task in taken if task is not None]
            assert Counter(await asyncio.gather(*done)) == {True: 100}

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_dead_letter_is_made_even_if_its_keeper_was_away(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            sink = Sink()
            queue = await open_queue(ground, dead_letters=sink)
            task_id = await queue.enqueue({"n": 1}, max_attempts=1, visibility_timeout=10)
            await queue.dequeue()
            await queue.fail(task_id, "boom")
            whole = {"task_id": task_id, "queue_name": "default", "payload": {"n": 1}, "attempts": 1}
            assert sink.letters == [(task_id, "boom", whole, 1)]
            sink.refuses = 2
            second, third = await queue.enqueue_many([2, 3], max_attempts=1, visibility_timeout=10)
            await queue.dequeue_many(2)
            await queue.fail(second, "boom")
            await ground.advance(11)
            assert await queue.dequeue() is None  # the lease of the third was over, and its letter is refused
            assert len(sink.letters) == 1
            assert await queue.purge() == 1  # not those whose letters are owed
            await ground.advance(61)
            assert await queue.dequeue() is None
            assert {letter[0] for letter in sink.letters} == {task_id, second, third}
            await ground.advance(61)
            await queue.requeue_stale()
            assert len(sink.letters) == 3
            assert await queue.purge() == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_odd_values_come_back_as_they_were(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await open_queue(ground)
            odd: list[Any] = ["\x00", "'\"\\", "日本 🐙", "%s ? :x @y {z}", "", None, True, 10**15, -0.5, {"": [[]]}]
            ids = await queue.enqueue_many([*odd, "x" * 200_000], "naïve %s ? queue")
            taken: list[Task] = await queue.dequeue_many(10_000, "naïve %s ? queue", "w '%' ?")
            assert [task.task_id for task in taken] == ids
            assert [task.payload for task in taken[:-1]] == odd
            assert len(taken[-1].payload) == 200_000
            assert {task.worker_id for task in taken} == {"w '%' ?"}

        store_venue.play(scene, empty=tables_of(store_venue))


__all__ = ["Sink", "TaskQueueContract", "elsewhere", "make_queue", "open_queue", "tables_of"]
