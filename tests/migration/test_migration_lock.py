"""The lock around migrations: taken only when needed, waited for within reason, and always given back."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migrations.files import FOLDER
from holdfast.db.migrations.lock import lock_id
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.mysql import mysql as mysql_driver
from holdfast.db.postgres import postgres as postgres_driver
from holdfast.db.settings import Settings
from holdfast.errors import QueryFailed
from holdfast.model.world import RealWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

SERVERS = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


class HastyWorld(RealWorld):
    """A world in which no time passes, and a sleep is over at once; *then* happens in it."""

    monotonic = staticmethod(lambda: 0.0)

    def __init__(self, then: Callable[[int], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.slept: list[float] = []
        self._then = then

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._then is not None:
            await self._then(len(self.slept))


class Holder:
    """Somebody else's connection, who may hold the lock."""

    def __init__(self, url: str, session: Any, schema: str = "holdfast") -> None:
        self._mysql = url.startswith("mysql")
        self._session = session
        self._lock = lock_id(DatabaseURL.parse(url).database, schema)

    async def take(self) -> bool:
        if self._mysql:
            return bool(await self._ask(f"SELECT GET_LOCK('holdfast.migrations.{self._lock}', 0) AS x"))
        return bool(await self._ask(f"SELECT pg_try_advisory_lock({self._lock}) AS x"))

    async def give_back(self) -> None:
        if self._mysql:
            assert await self._ask(f"SELECT RELEASE_LOCK('holdfast.migrations.{self._lock}') AS x") == 1
        else:
            assert await self._ask(f"SELECT pg_advisory_unlock({self._lock}) AS x") is True

    async def _ask(self, sql: str) -> Any:
        return (await self._session.fetch(sql, ()))[0]["x"]


@asynccontextmanager
async def holder_of(url: str, schema: str = "holdfast") -> AsyncIterator[Holder]:
    settings = Settings(url=DatabaseURL.parse(url))
    driver = mysql_driver if settings.url.dialect is DialectName.MYSQL else postgres_driver
    session = await driver.connect(settings)
    try:
        yield Holder(url, session, schema)
    finally:
        await session.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "holdfast.migrations" and record.levelno >= logging.WARNING
    ]


@SERVERS
def test_lock_held_elsewhere_is_waited_for_half_a_minute_and_then_done_without(
    kind: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url, world = fresh_database(kind), HastyWorld()

    async def main() -> None:
        async with holder_of(url) as holder, ConnectionManager(url, world=world) as manager:
            assert await holder.take()
            migrator = Migrator(manager)
            assert len(await migrator.migrate()) == migrator.latest
            await migrator.check()

    asyncio.run(main())
    assert world.slept == [1.0] * 30
    [warning] = warnings(caplog)
    assert "for 30 s; they run without it" in warning
    assert (DatabaseURL.parse(url).password or "?") not in warning


@SERVERS
def test_lock_given_back_while_waiting_is_taken(
    kind: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database(kind)

    async def main() -> None:
        async with holder_of(url) as holder:
            assert await holder.take()

            async def then(count: int) -> None:
                if count == 3:
                    await holder.give_back()

            world = HastyWorld(then)
            async with ConnectionManager(url, world=world) as manager:
                assert await Migrator(manager).migrate()
            assert world.slept == [1.0] * 3

    asyncio.run(main())
    assert warnings(caplog) == []


@SERVERS
def test_wait_for_the_lock_ends_when_another_process_has_migrated(
    kind: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database(kind)

    async def main() -> None:
        async with holder_of(url) as holder, ConnectionManager(url, world=HastyWorld()) as other:
            assert await holder.take()

            async def then(count: int) -> None:
                if count == 2:
                    await Migrator(other).migrate()

            world = HastyWorld(then)
            async with ConnectionManager(url, world=world) as manager:
                assert await Migrator(manager).migrate() == []
            assert world.slept == [1.0] * 2

    asyncio.run(main())
    assert len(warnings(caplog)) == 1, "only the other one warns, who went on without the lock"


@SERVERS
def test_lock_held_elsewhere_does_not_matter_to_a_current_database(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url, world = fresh_database(kind), HastyWorld()

    async def main() -> None:
        async with ConnectionManager(url, world=world) as manager, holder_of(url) as holder:
            await Migrator(manager).migrate()
            assert await holder.take()
            assert await Migrator(manager).migrate() == []

    asyncio.run(main())
    assert world.slept == []


def test_write_lock_held_elsewhere_does_not_matter_to_a_current_sqlite_file(tmp_path: Path) -> None:
    path = tmp_path / "current.sqlite"

    async def main() -> None:
        async with ConnectionManager(path) as manager:
            await Migrator(manager).migrate()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            async with ConnectionManager(path, busy_timeout=0.2, world=HastyWorld()) as manager:
                assert await Migrator(manager).migrate() == []
        finally:
            other.close()

    asyncio.run(main())


def test_write_lock_held_elsewhere_is_waited_for_on_an_empty_sqlite_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"

    async def main() -> None:
        async with ConnectionManager(path, busy_timeout=0.05) as manager:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")

            async def then(count: int) -> None:
                if count == 2:
                    other.execute("ROLLBACK")

            manager.world = HastyWorld(then)
            migrator = Migrator(manager)
            assert len(await migrator.migrate()) == migrator.latest
            other.close()

    asyncio.run(main())


@SERVERS
def test_lock_is_free_again_after_a_migration_that_succeeded_or_failed(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    for dialect in DialectName:
        (tmp_path / dialect).mkdir()
        for file in (FOLDER / dialect).glob("*.sql"):
            (tmp_path / dialect / file.name).write_text(file.read_text())

    async def main() -> None:
        async with ConnectionManager(url, world=HastyWorld()) as manager, holder_of(url) as holder:
            await Migrator(manager).migrate()
            assert await holder.take()
            await holder.give_back()
            latest = Migrator(manager).latest
            for dialect in DialectName:
                (tmp_path / dialect / f"{latest + 1:04}_broken.sql").write_text("SELECT 1 FROM @nowhere;")
            with pytest.raises(QueryFailed):
                await Migrator(manager, folder=tmp_path).migrate()
            assert await holder.take()

    asyncio.run(main())


@SERVERS
def test_lock_of_another_schema_or_database_is_another_one(kind: str, fresh_database: Callable[[str], str]) -> None:
    url, other = fresh_database(kind), fresh_database(kind)

    async def main() -> None:
        world = HastyWorld()
        async with holder_of(other) as first, holder_of(url, "another") as second:
            assert await first.take()
            assert await second.take()
            async with ConnectionManager(url, world=world) as manager:
                assert await Migrator(manager).migrate()
        assert world.slept == []

    asyncio.run(main())


def test_server_without_advisory_locks_is_migrated_without_one(
    fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database("postgres")
    function = (
        "CREATE FUNCTION without.pg_try_advisory_lock(bigint) RETURNS boolean AS"
        " $$ BEGIN RAISE EXCEPTION 'advisory locks are not supported'; END $$ LANGUAGE plpgsql"
    )

    async def main() -> None:
        async with ConnectionManager(url) as manager:
            await manager.execute("CREATE SCHEMA without")
            await manager.execute(function)
        async with ConnectionManager(f"{url}?search_path=without,pg_catalog", world=HastyWorld()) as manager:
            assert await Migrator(manager).migrate()

    asyncio.run(main())
    [warning] = warnings(caplog)
    assert "run without a lock" in warning
    assert "advisory locks are not supported" in warning


_WAITING = {
    "postgres": "SELECT count(*) AS x FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mariadb": "SELECT count(*) AS x FROM information_schema.innodb_trx AS t"
    " JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id"
    " WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
}


@SERVERS
@pytest.mark.parametrize("further", [False, True])
def test_version_table_filled_by_two_at_once_has_one_row(
    kind: str, further: bool, fresh_database: Callable[[str], str]
) -> None:
    """Without the lock. The other one has filled the table, perhaps gone on, and not yet committed."""
    url = fresh_database(kind)

    async def main() -> list[int]:
        async with ConnectionManager(url) as manager, ConnectionManager(url) as other:
            migrator = Migrator(manager)
            versions = "holdfast.holdfast_migrations" if kind == "postgres" else "holdfast_migrations"
            if kind == "postgres":
                await manager.execute("CREATE SCHEMA holdfast")
            await manager.execute(f"CREATE TABLE {versions} (version BIGINT NOT NULL PRIMARY KEY)")
            async with other.transaction(isolation="SERIALIZABLE") as transaction:
                await transaction.execute(f"INSERT INTO {versions} VALUES (0)")
                if further:
                    await transaction.execute(f"UPDATE {versions} SET version = 1")
                late = asyncio.create_task(migrator._prepare_version_table())
                async with asyncio.timeout(20):
                    while not (await manager.fetch(_WAITING[kind]))[0]["x"]:  # noqa: ASYNC110 -- a server tells nobody who waits
                        await asyncio.sleep(0.15)  # MariaDB shows an older answer to who asks more often
            await late
            return [row["version"] for row in await manager.fetch(f"SELECT version FROM {versions}")]

    assert asyncio.run(main()) == [1 if further else 0]


def test_lock_ids_fit_a_bigint_and_differ() -> None:
    ids = {lock_id(database, schema) for database in ("a", "b", None) for schema in ("x", "y")}
    assert len(ids) == 6
    assert all(0 <= each < 2**63 for each in ids)
