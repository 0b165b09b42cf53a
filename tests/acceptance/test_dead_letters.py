"""Processes race for dead letters, die at every write, and lose their server. On every shared backend."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import Unavailable
from holdfast.stores import (
    AsyncFailedOperationRepository,
    AsyncRedisDLQRepository,
    AsyncSQLFailedOperationRepository,
    RedisDLQRepository,
    RedisLink,
)
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from holdfast.testing.nursery import Nursery
    from holdfast.testing.servers import Server

PROGRAM = Path(__file__).parent / "programs" / "replayer.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
PROCESSES, ACQUIRERS, ROUNDS, DUE = 4, 5, 20, 60


@pytest.fixture
def replayer(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with settings for a process that replays; it is killed afterwards."""
    with ExitStack() as afterwards:

        def start(**settings: Any) -> Worker:
            return afterwards.enter_context(Worker(PROGRAM, nursery, **settings))

        yield start


def with_letters(url: str, scene: Callable[[AsyncFailedOperationRepository], Coroutine[Any, Any, Any]]) -> Any:
    """Run *scene* with a repository at *url*, and return what it returns."""

    async def main() -> Any:
        async with AsyncExitStack() as stack:
            letters: AsyncFailedOperationRepository
            if url.startswith("redis"):
                letters = AsyncRedisDLQRepository(await stack.enter_async_context(RedisLink(url)))
            else:
                manager = await stack.enter_async_context(ConnectionManager(url))
                letters = AsyncSQLFailedOperationRepository(manager)
            return await scene(await stack.enter_async_context(letters))

    return asyncio.run(main())


@EVERY_KIND
def test_processes_have_one_winner_each_and_late_completions_are_refused(
    kind: str, fresh_database: Callable[[str], str], replayer: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)

    async def fill(letters: AsyncFailedOperationRepository) -> list[list[str]]:
        races = [letters.create("d", "t") for _ in range(ROUNDS)]
        due = [letters.create("due", "t", retry_delay=60) for _ in range(DUE)]
        made = [record.id for record in await asyncio.gather(*races, *due)]
        return [made[:ROUNDS], made[ROUNDS:]]

    async def read(letters: AsyncFailedOperationRepository) -> Any:
        left = [record.id for record in await letters.acquire_due(DUE)]
        return left, await letters.find(domain="d"), await letters.get_statistics()

    ids, due = with_letters(url, fill)
    workers = [replayer(url=url, name=str(number)) for number in range(PROCESSES)]
    for worker in workers:
        worker.hear("ready")
    for worker in workers:
        worker.tell("race", ids, ACQUIRERS)
        worker.tell("drain", 7)
    won = [(entry, str(number)) for number, worker in enumerate(workers) for entry in worker.hear("won")[1]]
    assert sorted(entry for entry, _ in won) == sorted(ids)
    taken = [entry for worker in workers for entry in worker.hear("took")[1]]
    left, records, statistics = with_letters(url, read)
    assert sorted([*taken, *left]) == sorted(due)
    assert {record.id: record.resolution_note for record in records} == dict(won)
    assert {(record.status, record.retry_count, record.error_message) for record in records} == {("resolved", 1, "")}
    assert statistics["by_status"] == {"resolved": ROUNDS, "replaying": DUE}


_COMMITTED = ("pipeline.after_commit", "dead_letters.changed")
_BEFORE = ("pipeline.before_commit", "dead_letters.before_commit")
_MOST_WRITES = 30


# What is cut off before its commit is for the server to undo; where that is the file's business it is tried as well.
@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("sqlite", _COMMITTED + _BEFORE),
        ("postgres", _COMMITTED),
        ("mariadb", _COMMITTED),
        ("redis", ("dead_letters.changed", "dead_letters.before_commit")),
    ],
)
def test_process_that_dies_at_any_write_leaves_everything_whole(
    kind: str, points: tuple[str, ...], fresh_database: Callable[[str], str], replayer: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)

    async def scene(letters: AsyncFailedOperationRepository) -> int:
        lives = replayer(url=url, lives=True)
        deaths = 0
        for point in points:
            for at in range(1, _MOST_WRITES):
                name = f"{point} {at}"
                lives.tell(name, point, at)
                end = (await asyncio.to_thread(lives.hear, name, "ended"))[2]
                await _is_whole(lives, name, letters)
                if end == 0:
                    break
                assert end == -signal.SIGKILL, lives.log()
                deaths += 1
        heir = await letters.create("d", "t")
        assert await letters.try_acquire_for_replay(heir.id, 1)
        assert await letters.complete_replay(heir.id, True)
        return deaths

    # Thirteen writes, of which some are one commit on their way through the pipeline.
    assert with_letters(url, scene) >= 10


async def _is_whole(lives: Worker, name: str, letters: AsyncFailedOperationRepository) -> None:
    """Check what a life has left, and clear it away."""
    records = await letters.find(limit=100)
    # Counts are of what there is, whatever was cut off.
    statistics = await letters.get_statistics()
    assert statistics["by_status"] == dict(Counter(record.status for record in records))
    known = {record.id for record in records}
    made, archived, resolved = (
        {words[2] for words in lives.heard(name, deed)} for deed in ("made", "archived", "resolved")
    )
    # What was acknowledged is there, or was purged after its archiving, or is in a summary.
    summed = [entry.sample_context["id"] for entry in await letters.get_compressed_entries(limit=1000)]
    assert made - known - archived <= set(summed)
    assert known.isdisjoint(summed)
    assert {record.status for record in records if record.id in resolved} <= {"resolved", "archived"}
    await letters.release_stale_replaying(-1)
    assert await letters.evict_oldest(100) == len(records)


def test_redis_that_is_killed_has_everything_when_it_is_back(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")

    async def main() -> None:
        async with RedisLink(server.url) as link, AsyncRedisDLQRepository(link) as letters:
            held, free = [await letters.create("d", "t", "boom", max_retries=1) for _ in range(2)]
            taken = await letters.try_acquire_for_replay(held.id, 1)
            assert taken is not None
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            assert await letters.get_by_id(held.id) == taken
            assert [record.id for record in await letters.find_by_status("pending")] == [free.id]
            assert not await letters.complete_replay(held.id, False, token="another")
            assert await letters.complete_replay(held.id, False)
            assert (await letters.get_statistics())["by_status"] == {"pending": 1, "requires_review": 1}

    asyncio.run(main())


def test_redis_that_is_killed_is_reached_again_by_threads(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")
    with RedisDLQRepository(server.url) as letters:
        record = letters.create("d", "t", "boom")
        taken = letters.try_acquire_for_replay(record.id, 1)
        assert taken is not None
        server.kill()
        server.start()
        assert letters.complete_replay(record.id, True)
        found = letters.get_by_id(record.id)
        assert found is not None
        assert (found.status, found.version) == ("resolved", taken.version + 1)


def test_redis_that_is_full_refuses_letters_and_lets_go_of_those_it_has(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")

    async def main() -> None:
        async with RedisLink(server.url) as link, AsyncRedisDLQRepository(link) as letters:
            ids = [(await letters.create("d", "t")).id for _ in range(5)]
            await letters.bulk_update_status(ids[3:], "archived")
            await link.client.config_set("maxmemory", 1)
            with pytest.raises(Unavailable, match="did nothing"):
                await letters.create("d", "t")
            with pytest.raises(Unavailable, match="did nothing"):
                await letters.try_acquire_for_replay(ids[0], 2)
            assert await letters.delete(ids[0])
            assert await letters.purge_archived(ids[3:]) == 2
            assert await letters.compress_and_evict_oldest(1) == await letters.evict_oldest(1) == 1
            assert (await letters.get_statistics())["total"] == len(await letters.find()) == 0
            assert (await letters.get_compressed_summary())["total_compressed_items"] == 1

    asyncio.run(main())


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
@pytest.mark.parametrize("kind", ["postgres", "mariadb", "redis"])
def test_lost_reply_makes_nothing_happen_twice(kind: str, cut: Cut, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    parts = urlsplit(url)
    # What is seen on the wire of the write that commits.
    trigger = b"EVALSHA" if kind == "redis" else b"COMMIT"

    async def main() -> None:
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(Proxy("127.0.0.1", parts.port or 0))
            through = url.replace(f":{parts.port}/", f":{proxy.port}/")
            letters: AsyncFailedOperationRepository
            if kind == "redis":
                letters = AsyncRedisDLQRepository(await stack.enter_async_context(RedisLink(through)))
            else:
                manager = await stack.enter_async_context(ConnectionManager(through))
                letters = AsyncSQLFailedOperationRepository(manager)
            await stack.enter_async_context(letters)
            record = await letters.create("d", "t", retry_delay=60)

            async def cut_during(work: Coroutine[Any, Any, Any], *, skip: int = 0) -> Any:
                before = proxy.cuts
                proxy.arm(trigger, cut, skip=skip)
                answer = await work
                assert proxy.cuts == before + 1
                return answer

            async def cut_search(search: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
                # Who searches passes over what is locked, and a server keeps the locks of a connection that was cut
                # until it notices.
                found = await cut_during(search(), skip=int(kind == "redis"))
                while not found:
                    found = await search()
                return found

            if kind != "postgres":  # there one statement commits itself
                again = await cut_during(letters.create("d", "t"))
                assert await letters.get_by_id(again.id) == again
                await letters.delete(again.id)
                spare = await letters.create("d", "t")  # from here on the server knows every script
                assert await letters.increment_retry_count(spare.id)
                await letters.delete(spare.id)
            assert await cut_during(letters.delete((await letters.create("d", "t")).id))
            assert await cut_during(letters.increment_retry_count(record.id))
            read = await letters.get_by_id(record.id)
            assert read is not None
            assert read.retry_count == 1
            [taken] = await cut_search(letters.acquire_due)
            assert taken.retry_count == 2
            assert await cut_during(letters.complete_replay(record.id, True))
            assert await cut_search(lambda: letters.compress_and_evict_oldest(1)) == 1
            assert (await letters.get_compressed_summary())["total_compressed_items"] == 1
            assert await letters.count() == 0

    asyncio.run(main())
