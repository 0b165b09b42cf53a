"""A slot of a Redis Cluster is moved while stores use it: no call runs on half of its keys."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.crc import key_slot

from holdfast.errors import Unavailable
from holdfast.stores import AsyncRedisDLQRepository, RedisLockStore, RedisTaskQueue
from holdfast.stores.flow.redis_shelf import RedisShelf
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.redis import RedisLink
from holdfast.stores.threads.redis_threads import RedisThreads
from holdfast.testing.servers.redis_cluster import RedisCluster
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.servers.server import Server

TASKS = 5


class Move:
    """The slot of a hash tag on its way from the node that has it to the next."""

    def __init__(self, cluster: RedisCluster, tag: str) -> None:
        self._urls = cluster.node_urls
        self._slot = key_slot(tag.encode())
        self._afterwards = ExitStack()
        self._nodes = [self._afterwards.enter_context(Redis.from_url(url)) for url in self._urls]
        self._ids = [node.execute_command("CLUSTER MYID").decode() for node in self._nodes]
        self._source = self._slot * len(self._nodes) // 16384
        self._target = (self._source + 1) % len(self._nodes)

    def __enter__(self) -> Self:
        for node, verb, other in (
            (self._target, "IMPORTING", self._source),
            (self._source, "MIGRATING", self._target),
        ):
            self._nodes[node].execute_command("CLUSTER SETSLOT", self._slot, verb, self._ids[other])
        return self

    def __exit__(self, *_: object) -> None:
        """Move all keys, as ``redis-cli --cluster reshard`` does."""
        target = urlsplit(self._urls[self._target])
        for key in self._nodes[self._source].execute_command("CLUSTER GETKEYSINSLOT", self._slot, 10_000):
            self._nodes[self._source].execute_command(
                *("MIGRATE", target.hostname, target.port, "", 0, 5000, "AUTH", target.password, "KEYS", key)
            )
        for at in (self._target, *range(len(self._nodes))):
            self._nodes[at].execute_command("CLUSTER SETSLOT", self._slot, "NODE", self._ids[self._target])
        self._afterwards.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as made:
        yield made


@pytest.fixture
def link_to(own_server: Callable[..., Server], request: pytest.FixtureRequest) -> Callable[[], RedisLink]:
    own_server("redis")  # skips where there is none
    made: RedisCluster = request.getfixturevalue("cluster")
    return lambda: RedisLink(made.url)


async def _none_runs(*calls: Any) -> None:
    said = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in said] == [Unavailable] * len(calls)


def test_tasks_wait_until_their_slot_has_moved(link_to: Callable[[], RedisLink], cluster: RedisCluster) -> None:
    async def main() -> None:
        async with link_to() as link:
            queue = RedisTaskQueue(link, prefix="tasks")
            for number in range(TASKS):
                await queue.enqueue(number, task_id=f"{number}")
            with Move(cluster, "{tasks}"):
                await _none_runs(queue.dequeue(), queue.enqueue("other", task_id="0"), queue.enqueue("new"))
            taken = await queue.dequeue_many(TASKS + 2)
            assert [task.payload for task in taken] == list(range(TASKS))

    asyncio.run(main())


def test_letters_wait_until_their_slot_has_moved(link_to: Callable[[], RedisLink], cluster: RedisCluster) -> None:
    async def main() -> None:
        async with link_to() as link:
            letters = AsyncRedisDLQRepository(link, prefix="letters")
            letter = await letters.create("d", "t")
            with Move(cluster, "{letters}"):
                await _none_runs(letters.create("d", "t"), letters.get_by_id(letter.id), letters.find())
            assert [each.id for each in await letters.find()] == [letter.id]

    asyncio.run(main())


def test_listings_of_checkpoints_and_threads_wait_until_their_slot_has_moved(
    link_to: Callable[[], RedisLink], cluster: RedisCluster
) -> None:
    async def main() -> None:
        async with link_to() as link:
            shelf = RedisShelf(link, VirtualWorld(), prefix="{flow}:", ttl=None)
            threads = RedisThreads(link, prefix="{threads}:")
            with Move(cluster, "{flow}"), Move(cluster, "{threads}"):
                await _none_runs(
                    *(shelf.query(Wanted()), shelf.delete("x"), threads.delete_thread("x")),
                    *(threads.copy_thread("x", "y"), threads.find("x", "", None), threads.prune(["x"])),
                )
            assert await shelf.query(Wanted()) == []
            assert await threads.find("x", "", None) is None

    asyncio.run(main())


def test_checkpoint_that_is_changed_while_its_slot_is_moved_is_changed_whole_or_not_at_all(
    link_to: Callable[[], RedisLink], cluster: RedisCluster
) -> None:
    made = "2026-01-01T00:00:00.000000+00:00"
    card = Card("c", "flow", "run", "run", "active", None, made, made, None, 1, b"{}")
    ended = card._replace(status="completed", revision=2)

    async def main() -> None:
        async with link_to() as link:
            shelf = RedisShelf(link, VirtualWorld(), prefix="{cards}:", ttl=None)
            assert await shelf.put(card, 0) is Put.STORED
            with Move(cluster, "{cards}"):
                await _none_runs(shelf.put(ended, 1))
            assert [each.status for each in await shelf.query(Wanted(flow_id="flow"))] == ["active"]
            assert await shelf.put(ended, 1) is Put.STORED
            assert [each.status for each in await shelf.query(Wanted(flow_id="flow"))] == ["completed"]

    asyncio.run(main())


def test_lock_that_is_held_is_extended_while_its_slot_is_moved(
    link_to: Callable[[], RedisLink], cluster: RedisCluster
) -> None:
    async def main() -> None:
        async with link_to() as link:
            locks = RedisLockStore(link, prefix="locks")
            lease = await locks.acquire("x")
            assert lease is not None
            with Move(cluster, "{locks}"):
                assert await locks.extend(lease, 60)
                assert await locks.acquire("x", blocking=False) is None
            assert await locks.release(lease)

    asyncio.run(main())
