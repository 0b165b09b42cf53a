"""Scripts of dead letters in Redis that run twice, as after a lost reply: they change nothing the second time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores import AsyncRedisDLQRepository
from holdfast.stores.locks.redis import RedisLockStore
from holdfast.stores.redis import RedisLink
from holdfast.stores.tasks.redis import RedisTaskQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path


class Twice(RedisLink):
    """Runs every script twice, and tells the second answer; *meanwhile* happens once, after the first ``write``."""

    meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def run(self, script: Path, keys: Sequence[str], args: Sequence[Any] = (), *, again: bool = False) -> Any:
        await super().run(script, keys, args, again=again)
        if self.meanwhile is not None and script.stem == "write":
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        return await super().run(script, keys, args, again=again)


def test_scripts_that_run_twice_do_once_what_they_do(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with Twice(fresh_database("redis")) as link, AsyncRedisDLQRepository(link) as letters:
            one, two, three = [(await letters.create("d", "t", retry_delay=0)).id for _ in range(3)]
            assert await letters.try_acquire_for_replay(one, 2) is not None
            assert await letters.return_replay_attempt(one)
            assert await letters.increment_retry_count(one)
            assert [each.retry_count for each in await letters.acquire_many([one, two], 9)] == [2, 1]
            assert await letters.complete_replay(one, True)
            assert await letters.evict_oldest(1) == 1  # never what somebody replays
            assert (await letters.get_statistics())["by_status"]["replaying"] == 1
            assert {each.id for each in await letters.find()} == {two, three}
            assert await letters.count_all() == 2

    asyncio.run(play())


def test_change_is_told_as_it_was_though_somebody_has_changed_the_record_since(
    fresh_database: Callable[[str], str],
) -> None:
    async def play() -> None:
        url = fresh_database("redis")
        async with Twice(url) as link, RedisLink(url) as plain:
            mine, others = AsyncRedisDLQRepository(link), AsyncRedisDLQRepository(plain)
            entry = (await mine.create("d", "t")).id
            link.meanwhile = lambda: others.increment_retry_count(entry)
            assert await mine.increment_retry_count(entry)
            read = await mine.get_by_id(entry)
            assert read is not None
            assert read.retry_count == 2

            taken = await mine.try_acquire_for_replay(entry, 9)
            assert taken is not None
            link.meanwhile = lambda: others.try_acquire_for_replay(entry, 9)
            assert await mine.return_replay_attempt(entry, token=taken.replay_token)

            link.meanwhile = lambda: others.create("d", "t")
            assert await mine.evict_oldest(1) == 0  # it is being replayed
            assert await others.update_status(entry, "resolved")
            assert await mine.evict_oldest(1) == 1

    asyncio.run(play())


CHANGES: dict[str, Callable[[AsyncRedisDLQRepository, str, str], Awaitable[Any]]] = {
    "one": lambda others, entry, _: others.update_status(entry, "rejected"),
    "several": lambda others, entry, other: others.bulk_update_status([entry, other], "rejected"),
    "swept": lambda others, _entry, _other: others.release_stale_replaying(-1),
    "deleted": lambda others, entry, _: others.delete(entry),
}


@pytest.mark.parametrize("change", CHANGES)
def test_lost_answer_is_left_by_whatever_changes_the_record_next(
    fresh_database: Callable[[str], str], change: str
) -> None:
    async def play() -> None:
        url = fresh_database("redis")
        async with Twice(url) as link, RedisLink(url) as plain:
            mine, others = AsyncRedisDLQRepository(link), AsyncRedisDLQRepository(plain)
            entry, other = [(await mine.create("d", "t")).id for _ in range(2)]
            taken = await mine.try_acquire_for_replay(entry, 9)
            assert taken is not None

            link.meanwhile = lambda: CHANGES[change](others, entry, other)
            assert await mine.extend_replay(entry, token=taken.replay_token)  # it was, when it was carried out
            assert not await mine.extend_replay(entry, token=taken.replay_token)

    asyncio.run(play())


def test_answer_to_several_changes_is_told_though_one_of_them_was_followed_by_another(
    fresh_database: Callable[[str], str],
) -> None:
    async def play() -> None:
        url = fresh_database("redis")
        async with Twice(url) as link, RedisLink(url) as plain:
            mine, others = AsyncRedisDLQRepository(link), AsyncRedisDLQRepository(plain)
            ids = [(await mine.create("d", "t")).id for _ in range(3)]
            link.meanwhile = lambda: others.update_status(ids[1], "rejected")
            assert [each.id for each in await mine.acquire_many(ids, 9)] == ids

    asyncio.run(play())


class Counting(RedisLink):
    """Counts what is read: a record is, before it is changed, where the time was taken for another than it is."""

    reads = 0

    async def run(self, script: Path, keys: Sequence[str], args: Sequence[Any] = (), *, again: bool = False) -> Any:
        self.reads += script.stem == "read"
        return await super().run(script, keys, args, again=again)


def test_answers_that_have_arrived_are_not_kept(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with Counting(fresh_database("redis")) as link, AsyncRedisDLQRepository(link) as letters:
            await letters.create("d", "t")
            before = await link.client.dbsize()
            entry = (await letters.create("d", "t")).id
            for _ in range(2):
                assert await letters.try_acquire_for_replay(entry, 9) is not None
                assert await letters.complete_replay(entry, False)
            assert await letters.update_status(entry, "pending")
            assert await link.client.dbsize() <= before + 1 + link.reads

    asyncio.run(play())


def test_lock_whose_scripts_run_twice_is_acquired_and_released_once(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with Twice(fresh_database("redis")) as link:
            locks = RedisLockStore(link)
            for token in (1, 2):
                lease = await locks.acquire("k", blocking=False)
                assert lease is not None
                assert lease.token == token
                assert await locks.acquire("k", blocking=False) is None
                assert await locks.release(lease)

    asyncio.run(play())


def test_task_whose_scripts_run_twice_is_taken_and_ended_once(fresh_database: Callable[[str], str]) -> None:
    async def play() -> None:
        async with Twice(fresh_database("redis")) as link:
            queue = RedisTaskQueue(link)
            given = [await queue.enqueue(n, max_attempts=2) for n in range(2)]
            one, two = await queue.dequeue_many(5)
            assert [one.task_id, two.task_id] == given
            assert await queue.dequeue() is None
            assert one.attempts == two.attempts == 1
            assert await queue.fail(one.task_id, "why", retry_in=0, token=one.token)
            assert await queue.complete(two.task_id, token=two.token)
            again = await queue.dequeue()
            assert again is not None
            assert (again.task_id, again.attempts) == (one.task_id, 2)

    asyncio.run(play())
