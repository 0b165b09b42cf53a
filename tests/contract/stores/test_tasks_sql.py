"""What only a task queue in a database has: tables of its own, letters in one commit, plans, and lost replies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.pipeline.pipeline import Pipeline
from holdfast.errors import InvalidIdentifier
from holdfast.stores import SQLTaskQueue, TaskStatus
from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
from holdfast.stores.tasks.facts import CompleteTasks, ExtendTasks, FailTasks, PutTasks, TakeTasks
from holdfast.stores.tasks.letters import Letters
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_tasks import make_queue, open_queue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import Transaction
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb")
EMPTY = ("holdfast_task_queue", "holdfast_dlq")


def play(venue: StoreVenue, scene: Callable[[Ground], Awaitable[None]]) -> None:
    """Run a scene in the async colour; the sync one differs in nothing that is tried here."""
    if venue.colour is Colour.ASYNC:
        venue.play(scene, empty=EMPTY)  # type: ignore[arg-type]
    else:
        assert venue.is_sql


def test_custom_table_is_made_and_is_apart(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        plain = await make_queue(ground)
        makers = [make_queue(ground, table_name="my_tasks") for _ in range(3)]
        mine, *_ = await asyncio.gather(*makers)
        await mine.purge()
        await plain.enqueue("plain", task_id="same")
        await mine.enqueue("mine", task_id="same")
        task = await mine.dequeue()
        assert task.payload == "mine"
        assert await mine.complete("same")
        assert (await plain.dequeue()).payload == "plain"
        assert await mine.purge() == 1
        columns = [set((await ground.fetch(f"SELECT * FROM {{{name}}}"))[0]) for name in EMPTY[:1]]
        await mine.enqueue("again")
        assert set((await ground.fetch("SELECT * FROM {my_tasks}"))[0]) == columns[0]
        assert len(await mine.dequeue_many(9)) == 1

    play(store_venue, scene)


def test_table_may_have_a_word_of_sql_for_its_name(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        queue = await make_queue(ground, table_name="order")
        ids = await queue.enqueue_many(["complete", "fail", "release"], max_attempts=1)
        assert [task.task_id for task in await queue.dequeue_many(3)] == ids
        assert [await queue.complete(ids[0]), await queue.fail(ids[1], "no"), await queue.release(ids[2])] == [True] * 3
        stats = await queue.get_stats()
        assert (stats["completed"], stats["dead_lettered"], stats["pending"]) == (1, 1, 1)
        task = await queue.dequeue()
        assert await queue.extend(task.task_id, 60)
        assert await queue.complete(task.task_id)
        assert await queue.purge() == 3
        assert await queue.list_tasks() == []

    play(store_venue, scene)


def test_name_of_a_table_is_checked(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        for name in ("a; DROP TABLE x", "1a", "", "x" * 200):
            with pytest.raises(InvalidIdentifier):
                SQLTaskQueue(manager, table_name=name)

    play(store_venue, scene)


def test_letter_and_death_are_one_commit(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        letters = DBDeadLetterQueue(manager, clock_offset_ms=ground.clock_offset_ms)
        queue = SQLTaskQueue(manager, clock_offset_ms=ground.clock_offset_ms, dead_letters=letters)
        failed, lost, stale = await queue.enqueue_many(["a", "b", "c"], max_attempts=1, visibility_timeout=10)
        await queue.dequeue_many(3)
        assert await queue.fail(failed, "boom")
        await ground.advance(11)
        await queue.extend(stale, 10)
        assert await queue.dequeue() is None  # its claim finds the lease of the second over
        await ground.advance(11)
        assert await queue.requeue_stale() == 1
        found = await ground.fetch("SELECT workflow_id, error, payload FROM {holdfast_dlq}")
        assert sorted(row["workflow_id"] for row in found) == sorted([failed, lost, stale])
        assert {row["workflow_id"]: row["error"] for row in found}[failed] == "boom"
        await ground.advance(1000)
        await queue.requeue_stale()
        assert await queue.dequeue() is None
        assert len(await ground.fetch("SELECT workflow_id FROM {holdfast_dlq}")) == 3
        assert await queue.purge() == 3
        await queue.close()
        await letters.close()

    play(store_venue, scene)


def test_letter_that_cannot_be_made_leaves_the_task_alive(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()

        class Full:
            def __init__(self) -> None:
                self.manager = manager

            async def enqueue(self, workflow_id: str, error: str, payload: Any, max_retries: int = 3) -> str:
                raise AssertionError((workflow_id, error, payload, max_retries))

            async def enqueue_in(self, transaction: Transaction, **letter: Any) -> str:
                raise OverflowError(f"no room for {letter['workflow_id']}")

        queue = SQLTaskQueue(manager, clock_offset_ms=ground.clock_offset_ms, dead_letters=Full())
        task_id = await queue.enqueue("x", max_attempts=1)
        task = await queue.dequeue()
        assert task is not None
        with pytest.raises(OverflowError, match=task_id):
            await queue.fail(task_id, "boom")
        found = await queue.get(task_id)
        assert found is not None
        assert found.status == TaskStatus.PROCESSING
        await queue.close()

    play(store_venue, scene)


def test_payload_that_is_no_json_comes_as_its_text_and_stops_no_other_task(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        letters = DBDeadLetterQueue(manager)
        queue = SQLTaskQueue(manager, dead_letters=letters)
        await queue.enqueue({"n": 1}, task_id="ours")
        await queue.enqueue({"n": 2}, task_id="theirs", max_attempts=1)
        await ground.execute("UPDATE {holdfast_task_queue} SET payload = 'plain text' WHERE task_id = 'theirs'")
        assert [task.payload for task in await queue.list_tasks()] == [{"n": 1}, "plain text"]
        assert [task.payload for task in await queue.dequeue_many(9)] == [{"n": 1}, "plain text"]
        assert await queue.complete("ours")
        assert await queue.fail("theirs", "what is this?")
        [letter] = await letters.dequeue_ready()
        assert letter["payload"]["payload"] == "plain text"
        await queue.close()
        await letters.close()

    play(store_venue, scene)


def test_cancelled_dequeue_gives_back_what_it_got(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        queue = await open_queue(ground)
        for number in range(5):
            task_id = await queue.enqueue(number, max_attempts=1)
            taking = asyncio.create_task(queue.dequeue())
            for _ in range(number):
                await asyncio.sleep(0)
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking
            found = await queue.dequeue()
            assert (found.task_id, found.attempts) == (task_id, 1)
            assert await queue.complete(task_id)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await queue.dequeue()

    play(store_venue, scene)


def test_every_write_is_found_again_by_its_key(store_venue: StoreVenue) -> None:
    """After a commit of unknown outcome each kind is asked for its rows, and applies what is not there (I9)."""

    async def scene(ground: Ground) -> None:
        queue = await make_queue(ground)
        letters, queries = Letters(None, None), queue.queries
        put, take = PutTasks(queries), TakeTasks(queries, "q", letters)
        complete, extend = CompleteTasks(queries), ExtendTasks(queries)
        fail = FailTasks(queries, letters, base_ms=1000, cap_ms=9000)

        async def twice(kind: Any, rows: list[tuple[Any, ...]]) -> tuple[Any, Any, Any]:
            """Return what is recalled before, what comes of the writing, and what is recalled after it."""
            before = await queue.manager.run(lambda transaction: kind.recall(transaction, rows))
            done = await queue.manager.run(lambda transaction: kind.apply(transaction, rows))
            return before, done, await queue.manager.run(lambda transaction: kind.recall(transaction, rows))

        rows = [(f"t{n}", "q", str(n), 3, 30, 0, None, f"key {n}") for n in range(4)]
        assert await twice(put, rows) == ([None] * 4, ["t0", "t1", "t2", "t3"], ["t0", "t1", "t2", "t3"])
        again = await queue.manager.run(lambda transaction: put.apply(transaction, rows))
        assert again == ["t0", "t1", "t2", "t3"]  # an earlier attempt's commit had landed after all
        before, done, after = await twice(take, [("w", 1, "claim a"), ("w", 2, "claim b")])
        assert before == [None, None]
        assert [[row["task_id"] for row in taken.rows] for taken in done] == [["t0"], ["t1", "t2"]]
        assert [[row["task_id"] for row in taken.rows] for taken in after] == [["t0"], ["t1", "t2"]]
        assert await twice(extend, [("t0", "claim a", 5000)]) == ([None], [True], [None])
        ends = [("t0", "claim a", "claim a"), ("t3", None, "anyone"), ("t1", "guess", "guess")]
        assert await twice(complete, ends) == ([None] * 3, [True, True, False], [True, True, None])
        assert await queue.manager.run(lambda transaction: complete.apply(transaction, ends)) == [True, True, False]
        fails = [("t1", "claim b.0", "f1", "no", None, 0, 0), ("t2", "claim b.1", "f2", None, 0, 0, 1)]
        before, done, after = await twice(fail, fails)
        assert before == [None, None]
        assert [(row["task_id"], row["attempts"]) for row in done] == [("t1", 1), ("t2", 0)]
        assert [(row["task_id"], row["attempts"]) for row in after] == [("t1", 1), ("t2", 0)]
        again = await queue.manager.run(lambda transaction: fail.apply(transaction, fails))
        assert [(row["task_id"], row["attempts"]) for row in again] == [("t1", 1), ("t2", 0)]  # counted once

    play(store_venue, scene)


def test_task_whose_id_was_made_for_it_counts_as_put_if_an_earlier_try_has_landed(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        queue = await make_queue(ground)
        made, named = [(f"m{n}", "q", str(n), 3, 30, 0, None, None) for n in range(4)], "n0"
        async with Pipeline(queue.manager) as pipeline:
            put = PutTasks(queue.queries)
            assert await pipeline.write(put, made[0]) == "m0"
            assert await pipeline.write(put, made[0]) == "m0"
            theirs = (named, "q", "4", 3, 30, 0, None, "key")
            together = await asyncio.gather(*(pipeline.write(put, row) for row in [*made, theirs]))
        assert together == ["m0", "m1", "m2", "m3", named]
        assert [task.payload for task in await queue.list_tasks("q")] == [0, 1, 2, 3, 4]

    play(store_venue, scene)


@pytest.mark.parametrize("size", ["empty", "full", "analysed"])
def test_claim_reads_no_more_than_it_takes(store_venue: StoreVenue, size: str) -> None:
    async def scene(ground: Ground) -> None:
        queue = await make_queue(ground)
        if size != "empty":
            await queue.enqueue_many(range(3000))
            await queue.enqueue_many(range(1000), delay=60)
            await queue.enqueue_many(range(3000), "other")
        if size == "analysed":
            word = "ANALYZE TABLE" if queue.manager.dialect is DialectName.MYSQL else "ANALYZE"
            await ground.execute(f"{word} {{holdfast_task_queue}}")
        plan = await _plan(queue)
        assert "Seq Scan on holdfast_task_queue" not in plan or size == "empty", plan
        if queue.manager.dialect is not DialectName.POSTGRES or size != "empty":
            assert "idx_holdfast_task_queue_ready" in plan
            assert "idx_holdfast_task_queue_due" in plan
        assert "filesort" not in plan

    play(store_venue, scene)


async def _plan(queue: Any) -> str:
    wanted = {"queue_name": "default", "most": 1, "most_due": 100}
    backend = queue.manager.backend()
    if queue.manager.dialect is DialectName.MYSQL:
        [(text, values)] = queue.queries["tasks_pick"].bind(wanted)
    else:
        [(text, values)] = queue.queries["tasks_claim"].batch([("t", "w")], {**wanted, "lost": "", "owed_ms": None})
    if not isinstance(backend, PooledBackend):
        return "\n".join(row["detail"] for row in await queue.manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values))
    session = await backend.connect_for_lookups()
    try:
        return "\n".join(str(row) for row in await session.fetch(f"EXPLAIN {text}", values))
    finally:
        await session.close()
