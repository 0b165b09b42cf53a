"""Connections that break, statements that are cancelled: what is lost is replaced, and nothing leaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import ConnectionLost, Retryable, UnknownCommit
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.relay import Relay

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.testing.servers import Server

FreshDatabase = Callable[[str], str]
SERVERS = pytest.mark.parametrize("kind", ["postgres", "mariadb"])
_OWN_ID = {"postgres": "SELECT pg_backend_pid() AS id", "mariadb": "SELECT CONNECTION_ID() AS id"}
_KILL = {"postgres": "SELECT pg_terminate_backend(?)", "mariadb": "KILL CONNECTION ?"}
_SESSIONS = {
    "postgres": "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = current_database()",
    "mariadb": "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE db = DATABASE()",
}
_SLOW = {"postgres": "SELECT pg_sleep({})", "mariadb": "SELECT SLEEP({})"}
_AT_WORK = {
    "postgres": "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = ?",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE info = ?",
}
_COMMIT = {"postgres": b"COMMIT\x00", "mariadb": b"\x03COMMIT"}


async def table(manager: ConnectionManager) -> None:
    await manager.execute("CREATE TABLE t (k VARCHAR(40) NOT NULL PRIMARY KEY, v INTEGER NOT NULL)")


async def keys(manager: ConnectionManager) -> list[str]:
    return [row["k"] for row in await manager.fetch("SELECT k FROM t ORDER BY k")]


async def raw_insert(url: str, key: str) -> None:
    """Write with the driver alone."""
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        await connection.execute("INSERT INTO t VALUES ($1, 0)", key)
        await connection.close()
        return
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password, database=parts.path[1:]
    )
    async with connection.cursor() as cursor:
        await cursor.execute("INSERT INTO t VALUES (%s, 0)", (key,))
    await connection.commit()
    await connection.ensure_closed()


@SERVERS
def test_read_sees_what_a_bare_driver_committed(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            await table(manager)
            for number in range(3):
                assert len(await keys(manager)) == number
                await raw_insert(url, f"k{number}")
            assert await keys(manager) == ["k0", "k1", "k2"]

    asyncio.run(scene())


@SERVERS
def test_killed_connection_is_replaced(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        async with ConnectionManager(url, pool_size=1) as manager, ConnectionManager(url) as killer:
            await table(manager)
            for number in range(3):
                [own] = await manager.fetch(_OWN_ID[kind])
                await killer.execute(_KILL[kind], own["id"])
                assert len(await keys(manager)) == number
                await manager.execute("INSERT INTO t VALUES (?, 0)", f"k{number}")
                assert await manager.fetch(_OWN_ID[kind]) != [own]

    asyncio.run(scene())


@SERVERS
def test_connection_killed_inside_a_transaction_is_lost_with_it(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        async with ConnectionManager(url) as manager, ConnectionManager(url) as killer:
            await table(manager)
            with pytest.raises(ConnectionLost) as loss:
                async with manager.transaction() as transaction:
                    await transaction.execute("INSERT INTO t VALUES ('a', 0)")
                    [own] = await transaction.fetch(_OWN_ID[kind])
                    await killer.execute(_KILL[kind], own["id"])
                    await transaction.execute("INSERT INTO t VALUES ('b', 0)")
            assert loss.value.kind == "retry"
            assert loss.value.__cause__ is not None
            with pytest.raises((ConnectionLost, UnknownCommit)):
                async with manager.transaction() as transaction:
                    await transaction.execute("INSERT INTO t VALUES ('c', 0)")
                    [own] = await transaction.fetch(_OWN_ID[kind])
                    await killer.execute(_KILL[kind], own["id"])
            assert await keys(manager) == []

    asyncio.run(scene())


@SERVERS
def test_run_begins_again_when_its_connection_is_killed(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> int:
        async with ConnectionManager(url) as manager, ConnectionManager(url) as killer:
            await table(manager)
            tries = 0

            async def work(transaction: Transaction) -> None:
                nonlocal tries
                tries += 1
                [own] = await transaction.fetch(_OWN_ID[kind])
                await transaction.execute("INSERT INTO t VALUES (?, 0)", f"try-{tries}")
                if tries == 1:
                    await killer.execute(_KILL[kind], own["id"])
                    await transaction.execute("INSERT INTO t VALUES ('after', 0)")

            await manager.run(work)
            assert await keys(manager) == ["try-2"]
            return tries

    assert asyncio.run(scene()) == 2


@SERVERS
def test_server_restarted_under_a_manager_is_found_again(kind: str, own_server: Callable[..., Server]) -> None:
    server = own_server(kind)

    async def scene() -> None:
        async with ConnectionManager(server.url, pool_size=5) as manager:
            await table(manager)
            await asyncio.gather(*(keys(manager) for _ in range(20)))
            await asyncio.to_thread(server.restart, immediate=True)
            assert await asyncio.gather(*(keys(manager) for _ in range(20))) == [[]] * 20
            await asyncio.gather(*(manager.execute("INSERT INTO t VALUES (?, 0)", f"k{n}") for n in range(20)))
            assert len(await keys(manager)) == 20

    asyncio.run(scene())


@SERVERS
@pytest.mark.parametrize("cut", list(Cut))
def test_connection_cut_in_commit_is_of_unknown_outcome(kind: str, cut: Cut, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    parts = urlsplit(url)

    async def scene() -> None:
        async with Proxy("127.0.0.1", parts.port or 0) as proxy, ConnectionManager(url) as direct:
            through = url.replace(f":{parts.port}/", f":{proxy.port}/")
            async with ConnectionManager(through) as manager:
                await table(manager)
                proxy.arm(_COMMIT[kind], cut)
                with pytest.raises(UnknownCommit) as failure:
                    async with manager.transaction() as transaction:
                        await transaction.execute("INSERT INTO t VALUES ('a', 0)")
                assert proxy.cuts == 1
                assert failure.value.kind == "unknown commit"
                assert failure.value.__cause__ is not None
                if cut is not Cut.DURING:
                    assert await keys(direct) == ([] if cut is Cut.BEFORE else ["a"])
                assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
@pytest.mark.parametrize("seed", [1, 2])
def test_cancelled_calls_leave_the_pool_healthy_and_transactions_whole(
    kind: str, seed: int, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    chance = random.Random(seed)  # noqa: S311 -- a schedule that can be repeated

    async def pair(manager: ConnectionManager, number: int) -> None:
        await manager.fetch("SELECT k FROM t WHERE k = ?", f"{number}-a")
        async with manager.transaction() as transaction:
            await transaction.execute("INSERT INTO t VALUES (?, 0)", f"{number}-a")
            await transaction.fetch("SELECT COUNT(*) AS n FROM t")
            await transaction.execute("INSERT INTO t VALUES (?, 0)", f"{number}-b")

    async def scene() -> None:
        async with ConnectionManager(url, pool_size=4) as manager:
            await table(manager)
            for start in range(0, 150, 15):
                tasks = [asyncio.create_task(pair(manager, start + n)) for n in range(15)]
                for task in chance.sample(tasks, 12):
                    await asyncio.sleep(chance.random() * 0.003)
                    task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(outcome is None or isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            found = await keys(manager)
            assert {key[:-2] for key in found if key.endswith("a")} == {key[:-2] for key in found if key.endswith("b")}
            await asyncio.gather(*(pair(manager, 1000 + number) for number in range(12)))
            if kind != "sqlite":
                await _sessions_settle(manager, kind, 4)

    asyncio.run(scene())


@SERVERS
def test_cancelled_slow_statement_frees_its_place_at_once(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        async with ConnectionManager(url, pool_size=1) as manager, ConnectionManager(url, pool_size=1) as watcher:
            for turn in range(3):
                slow = _SLOW[kind].format(600 + turn)  # seconds; nobody waits for a connection of the pool so long
                task = asyncio.create_task(manager.fetch(slow))
                await _is_carried_out(watcher, kind, slow)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

    asyncio.run(scene())


async def _is_carried_out(watcher: ConnectionManager, kind: str, statement: str) -> None:
    """Wait until the server is at the statement."""
    async with asyncio.timeout(60):
        while not await watcher.fetch(_AT_WORK[kind], statement):
            pass


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_cancelled_transaction_is_rolled_back(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind), pool_size=1) as manager:
            await table(manager)
            inside = asyncio.Event()

            async def stuck() -> None:
                async with manager.transaction() as transaction:
                    await transaction.execute("INSERT INTO t VALUES ('a', 0)")
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(stuck())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await keys(manager) == []
            await manager.execute("INSERT INTO t VALUES ('b', 0)")

    asyncio.run(scene())


@SERVERS
def test_unpooled_connections_end_with_their_use(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        async with ConnectionManager(url, pooled=False) as manager, ConnectionManager(url, pool_size=1) as watcher:
            await asyncio.gather(*(manager.fetch("SELECT 1 AS one") for _ in range(10)))
            await _sessions_settle(watcher, kind, 1)

    asyncio.run(scene())


async def _sessions_settle(manager: ConnectionManager, kind: str, most: int) -> None:
    """Wait until the server has at most *most* sessions in this database; it ends them in its own time."""
    count = most + 1

    async def look() -> None:
        nonlocal count
        [row] = await manager.fetch(_SESSIONS[kind])
        count = row["n"]

    async with asyncio.timeout(20):
        while count > most:
            await look()


def test_until_is_bounded() -> None:
    async def scene() -> None:
        async with asyncio.timeout(0.01):
            await until(lambda: False)

    with pytest.raises(TimeoutError):
        asyncio.run(scene())


@SERVERS
def test_lone_write_cut_on_its_way_is_of_unknown_outcome(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    parts = urlsplit(url)

    async def scene() -> None:
        async with (
            Proxy("127.0.0.1", parts.port or 0) as proxy,
            ConnectionManager(url.replace(f":{parts.port}/", f":{proxy.port}/")) as manager,
        ):
            await table(manager)
            proxy.arm(b"the-key", Cut.AFTER)
            with pytest.raises(UnknownCommit):
                await manager.execute("INSERT INTO t VALUES (?, 0)", "the-key")
            assert await keys(manager) == ["the-key"]
            proxy.arm(b"the-key", Cut.AFTER)
            assert await manager.fetch("SELECT v FROM t WHERE k = ?", "the-key") == [{"v": 0}]
            assert proxy.cuts == 2
            proxy.refusing = True
            proxy.cut_all()
            with pytest.raises((Retryable, ConnectionError)):
                await manager.fetch("SELECT 1 AS one")
            proxy.refusing = False
            assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

    asyncio.run(scene())


@SERVERS
def test_close_says_goodbye_to_a_silent_server_on_all_connections_at_once(
    kind: str, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    busy = {"postgres": "SELECT pg_sleep(0.3)", "mariadb": "SELECT SLEEP(0.3)"}[kind]

    async def scene() -> None:
        with Relay(urlsplit(url).port or 0) as relay:
            manager = ConnectionManager(relay.url(url), pool_size=8)
            await manager.initialize()
            await asyncio.gather(*(manager.fetch(busy) for _ in range(8)))
            with relay.silent():
                async with asyncio.timeout(10):  # one after the other they would take 16 s
                    await manager.close()

    asyncio.run(scene())
