"""Hints between managers of one database: heard, coalesced, lost and found again, and not there when not wanted."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import InvalidIdentifier
from holdfast.model.world import RealWorld
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Proxy
from holdfast.workflows.wakeups import postgres as wakeups_postgres
from holdfast.workflows.wakeups.wakeups import NoWakeUps, WakeUps, wakeups_for

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.servers import Server

FreshDatabase = Callable[[str], str]
_LISTENERS = "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
_KILL_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)
_SCHEMA = "holdfast"


class Ear:
    """Counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def __call__(self) -> None:
        self.woken += 1

    async def hears_more_than(self, times: int) -> int:
        await until(lambda: self.woken > times)
        return self.woken


@asynccontextmanager
async def hints(
    manager: ConnectionManager, ear: Callable[[], None], *, schema: str = _SCHEMA, enabled: bool = True, **options: Any
) -> AsyncIterator[WakeUps]:
    wakeups = wakeups_for(manager, schema, RealWorld(), ear, enabled=enabled, **options)
    await wakeups.start()
    try:
        yield wakeups
    finally:
        await wakeups.stop()


@asynccontextmanager
async def bare_listener(url: str, channel: str = _SCHEMA) -> AsyncIterator[list[str]]:
    """Listen with the driver alone; yield the payloads heard."""
    heard: list[str] = []
    connection = await asyncpg.connect(url)
    await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: heard.append(payload))
    try:
        yield heard
    finally:
        await connection.close()


async def tell_by_hand(url: str, channel: str = _SCHEMA) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT pg_notify($1, '')", channel)
    await connection.close()


def silence(proxy: Proxy) -> None:
    """Pass nothing on any more in the conversations there are, and end none: as a firewall that forgot them."""
    for conversation in proxy._open:
        for end in (conversation._client, conversation._server):
            assert end is not None
            end.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport reads as well


async def heard_so_far(url: str, heard: list[str]) -> int:
    """Return how many notifications were sent before this call: they arrive in order, so one more shows the end."""
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT pg_notify($1, 'last')", _SCHEMA)
    await connection.close()
    await until(lambda: "last" in heard)
    return heard.index("last")


def test_hint_is_heard_by_another_process_of_the_database(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url) as here, ConnectionManager(url) as there:
            ear = Ear()
            async with hints(here, Ear()) as teller, hints(there, ear) as listener:
                await until(lambda: teller.alive and listener.alive)
                for _ in range(5):
                    before = ear.woken
                    teller.tell()
                    assert await ear.hears_more_than(before) == before + 1

    asyncio.run(scene())


def test_listener_wakes_when_it_begins_to_hear(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database("postgres")) as manager:
            ear = Ear()
            async with hints(manager, ear) as wakeups:
                await until(lambda: wakeups.alive)
                assert ear.woken == 1

    asyncio.run(scene())


@pytest.mark.parametrize("spread", [False, True])
def test_thousand_tells_are_a_few_notifications(fresh_database: FreshDatabase, *, spread: bool) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with ConnectionManager(url) as manager, bare_listener(url) as heard, hints(manager, Ear()) as wakeups:
            await until(lambda: wakeups.alive)
            begun = loop.time()
            for _ in range(1000):
                wakeups.tell()
                if spread:
                    await asyncio.sleep(0.0005)
            took = loop.time() - begun
            await wakeups.stop()
            sent = await heard_so_far(url, heard)
            print(f"1,000 tells in {took:.3f} s: {sent} notifications")
            assert set(heard[:sent]) == {""}
            assert sent <= 5 + took / wakeups_postgres._LONGEST  # some at first come faster

    asyncio.run(scene())


def test_what_was_told_last_is_sent_before_the_end(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url) as manager, bare_listener(url) as heard:
            for listens in (True, False):
                async with hints(manager, Ear(), listens=listens) as wakeups:
                    wakeups.tell()
            await until(lambda: len(heard) == 2)
            assert await heard_so_far(url, heard) == 2

    asyncio.run(scene())


def test_killed_listening_connection_comes_back(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            ear = Ear()
            async with hints(manager, ear) as wakeups:
                await until(lambda: wakeups.alive)
                for _ in range(3):
                    before = ear.woken
                    assert await manager.fetch(_KILL_LISTENERS)
                    await until(lambda: not wakeups.alive)
                    await until(lambda: wakeups.alive)
                    assert ear.woken == before + 1  # nobody knows what was told meanwhile
                    await tell_by_hand(url)
                    await ear.hears_more_than(before + 1)
            assert await manager.fetchone(_LISTENERS) == {"n": 0}

    asyncio.run(scene())


def test_listening_survives_a_restart_of_the_server(own_server: Callable[..., Server]) -> None:
    server = own_server("postgres")

    async def scene() -> None:
        async with ConnectionManager(server.url) as manager:
            ear = Ear()
            async with hints(manager, ear) as wakeups:
                await until(lambda: wakeups.alive)
                await asyncio.to_thread(server.stop, immediate=True)
                await until(lambda: not wakeups.alive)
                before = ear.woken
                wakeups.tell()
                await asyncio.to_thread(server.start)
                await until(lambda: wakeups.alive)
                await tell_by_hand(server.url)
                assert await ear.hears_more_than(before + 1) <= before + 3  # back again, one's own tell, and this one

    asyncio.run(scene())


def test_start_does_not_need_the_server(own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture) -> None:
    server = own_server("postgres")

    async def scene() -> None:
        async with ConnectionManager(server.url) as manager:
            await asyncio.to_thread(server.stop, immediate=True)
            async with hints(manager, Ear()) as wakeups:
                await until(lambda: "polling goes on" in caplog.text)
                assert not wakeups.alive
                await asyncio.to_thread(server.start)
                await until(lambda: wakeups.alive)
        warnings = [record for record in caplog.records if "polling goes on" in record.message]
        assert len(warnings) == 1  # once for an outage, not once for every try

    asyncio.run(scene())


def test_stop_does_not_wait_for_a_server_that_is_gone(own_server: Callable[..., Server]) -> None:
    server = own_server("postgres")

    async def scene() -> float:
        async with ConnectionManager(server.url) as manager:
            async with hints(manager, Ear()) as wakeups:
                await until(lambda: wakeups.alive)
                await asyncio.to_thread(server.stop, immediate=True)
                wakeups.tell()
                begun = asyncio.get_running_loop().time()
            return asyncio.get_running_loop().time() - begun

    assert asyncio.run(scene()) < 5


def test_connection_that_has_gone_silent_is_noticed(
    fresh_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups_postgres, "_CHECK_EVERY", 0.1)
    monkeypatch.setattr(wakeups_postgres, "_PATIENCE", 0.5)
    url = fresh_database("postgres")
    server = urlsplit(url)

    async def scene() -> None:
        async with Proxy("127.0.0.1", server.port or 0) as proxy:
            through = urlunsplit(server._replace(netloc=f"{server.netloc.rpartition(':')[0]}:{proxy.port}"))
            async with ConnectionManager(through) as manager:
                ear = Ear()
                async with hints(manager, ear) as wakeups:
                    await until(lambda: wakeups.alive)
                    silence(proxy)
                    await until(lambda: not wakeups.alive)
                    await until(lambda: wakeups.alive)
                    before = ear.woken
                    await tell_by_hand(url)
                    assert await ear.hears_more_than(before) == before + 1

    asyncio.run(scene())


def test_disabled_listens_to_nothing_and_tells_nobody(fresh_database: FreshDatabase, tmp_path: Path) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url) as manager, bare_listener(url) as heard:
            ear = Ear()
            tasks = asyncio.all_tasks()
            async with hints(manager, ear, enabled=False) as wakeups:
                wakeups.tell()
                assert asyncio.all_tasks() == tasks
                await tell_by_hand(url)
                await until(lambda: bool(heard))
                assert (heard, ear.woken, wakeups.alive) == ([""], 0, False)
                assert await manager.fetchone(_LISTENERS) == {"n": 1}  # the bare one

    asyncio.run(scene())
    file = ConnectionManager(f"sqlite:///{tmp_path / 'x.sqlite'}")
    assert isinstance(wakeups_for(file, _SCHEMA, RealWorld(), Ear(), enabled=False), NoWakeUps)


@pytest.mark.parametrize("option", [{"prepared": False}, {"pooled": False}])
def test_behind_a_pooler_others_are_told_and_nothing_is_listened_to(
    option: dict[str, Any], fresh_database: FreshDatabase
) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url, **option) as pooler, ConnectionManager(url) as direct:
            deaf, ear = Ear(), Ear()
            async with hints(pooler, deaf) as teller, hints(direct, ear) as listener:
                await until(lambda: listener.alive)
                teller.tell()
                await ear.hears_more_than(1)
                assert (teller.alive, deaf.woken) == (False, 0)
                assert await direct.fetchone(_LISTENERS) == {"n": 1}

    asyncio.run(scene())


def test_schemas_of_one_database_do_not_wake_each_other(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")
    longest = "S" * 63

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            one, other = Ear(), Ear()
            async with hints(manager, one, schema="One") as here, hints(manager, other, schema=longest) as there:
                await until(lambda: here.alive and there.alive)
                there.tell()
                await until(lambda: other.woken == 2)
                await tell_by_hand(url, "one")
                here.tell()
                await until(lambda: one.woken == 2)
                assert (one.woken, other.woken) == (2, 2)

    asyncio.run(scene())


def test_schema_that_is_no_identifier_is_refused() -> None:
    manager = ConnectionManager("postgresql://u@localhost/db")
    with pytest.raises(InvalidIdentifier):
        wakeups_for(manager, 'a"; DROP', RealWorld(), Ear(), enabled=True)


@pytest.mark.parametrize("url", ["mysql://u@localhost/db", ":memory:"])
def test_databases_without_a_channel_are_polled(url: str) -> None:
    async def scene() -> None:
        ear = Ear()
        async with hints(ConnectionManager(url), ear) as wakeups:
            wakeups.tell()
            assert (wakeups.alive, ear.woken) == (False, 0)

    asyncio.run(scene())


def log_of(manager: ConnectionManager) -> os.stat_result:
    return os.stat(f"{manager.url.path}-wal")  # noqa: PTH116 -- as the watch does


async def table(manager: ConnectionManager) -> None:
    await manager.execute("CREATE TABLE t (n INTEGER)")


def test_commit_of_another_connection_to_the_file_is_heard(fresh_database: FreshDatabase) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        async with ConnectionManager(url) as here, ConnectionManager(url) as there:
            await table(there)
            ear = Ear()
            async with hints(here, ear) as wakeups:
                await until(lambda: ear.woken == 1)
                assert wakeups.alive
                for _ in range(4):
                    before = ear.woken
                    await there.execute("INSERT INTO t VALUES (1)")
                    await ear.hears_more_than(before)
            assert not wakeups.alive

    asyncio.run(scene())


def test_looking_for_work_in_vain_leaves_the_log_as_it_was(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database("sqlite")) as manager:
            await table(manager)
            before = log_of(manager)
            async with manager.transaction() as transaction:
                assert await transaction.execute("UPDATE t SET n = 1 WHERE n = 2") == 0
            assert await manager.fetch("SELECT * FROM t") == []
            after = log_of(manager)
            assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)

    asyncio.run(scene())


def test_many_commits_wake_now_and_then(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        async with ConnectionManager(fresh_database("sqlite")) as manager:
            await table(manager)
            ear = Ear()
            async with hints(manager, ear):
                begun = loop.time()
                for number in range(400):
                    await manager.execute("INSERT INTO t VALUES (?)", number)
                took = loop.time() - begun
                woken = ear.woken
            print(f"400 commits in {took:.3f} s: woken {woken} times")
            assert woken <= 2 + took / 0.04

    asyncio.run(scene())


def test_log_that_begins_anew_is_still_watched(fresh_database: FreshDatabase) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            await table(manager)
            ear = Ear()
            async with hints(manager, ear):
                await manager.execute("INSERT INTO t VALUES (1)")
                await ear.hears_more_than(1)
                other = sqlite3.connect(str(manager.url.path))
                other.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
                other.close()
                size, woken = log_of(manager).st_size, ear.woken
                await manager.execute("INSERT INTO t VALUES (2)")
                assert log_of(manager).st_size == size  # written over: only its time tells
                await ear.hears_more_than(woken)

    asyncio.run(scene())


def test_file_behind_a_link_is_watched_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "real" / "file.sqlite")
    monkeypatch.chdir(tmp_path)

    async def scene() -> None:
        async with ConnectionManager("link.sqlite") as manager:
            await table(manager)
            ear = Ear()
            async with hints(manager, ear) as wakeups:
                monkeypatch.chdir(tmp_path / "real")
                await until(lambda: ear.woken == 1)
                assert wakeups.alive
                await manager.execute("INSERT INTO t VALUES (1)")
                await ear.hears_more_than(1)

    asyncio.run(scene())
