"""Migrations and processes: many at once, with and without the lock, and some that are killed on the way."""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from holdfast import faults
from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migrations.files import FOLDER
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import NotPermitted, Unavailable
from holdfast.testing.servers import databases_of
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

_POINTS = [name for name in faults.POINTS if name.startswith("migration.")]

_PROGRAM = Path(__file__).parent / "programs" / "migrating.py"


@pytest.fixture
def start(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with a URL and a folder of migrations for a process that migrates when it is told to."""
    with ExitStack() as afterwards:

        def begin(url: str, folder: Path | None, *, lock: bool = True, point: str | None = None, at: int = 1) -> Worker:
            told: dict[str, Any] = {
                "url": url,
                "folder": folder and str(folder),
                "lock": lock,
                "point": point,
                "at": at,
            }
            return afterwards.enter_context(Worker(_PROGRAM, nursery, **told))

        yield begin


def together(children: list[Worker]) -> list[tuple[int, list[int]]]:
    """Let all begin at once; return for each the version it saw in the end and those it applied."""
    for child in children:
        child.hear("ready")
    for child in children:
        child.tell("go")
    for child in children:
        assert child.end() == 0, child.log()
    return [(version, applied) for child in children for _, version, applied in child.heard("migrated")]


def steps(place: Path) -> Path:
    """Write our first migration and two more, of several statements that cannot be repeated as they stand."""
    for dialect in DialectName:
        first = (FOLDER / dialect / "0001_foundation.sql").read_text()
        column = "VARCHAR(40)" if dialect is DialectName.MYSQL else "TEXT"
        texts = {
            "0001_foundation": first,
            "0002_notes": "CREATE TABLE @notes (id INT NOT NULL PRIMARY KEY);"
            f"ALTER TABLE @notes ADD COLUMN said {column}; CREATE INDEX idx_notes_said ON @notes (said);",
            "0003_more": "CREATE TABLE @more (id INT NOT NULL PRIMARY KEY);",
        }
        (place / dialect).mkdir()
        for name, text in texts.items():
            (place / dialect / f"{name}.sql").write_text(text)
    return place


async def state(url: str) -> tuple[list[int], list[Any], set[str]]:
    """The version table, the version in holdfast_meta, and the columns of the table notes."""
    async with ConnectionManager(url) as manager:
        where = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
        versions = await manager.fetch(f"SELECT version FROM {where}holdfast_migrations")
        meta = await manager.fetch(f"SELECT * FROM {where}holdfast_meta")
        await manager.execute(f"INSERT INTO {where}notes (id, said) VALUES (1, 'x')")
        [note] = await manager.fetch(f"SELECT * FROM {where}notes")
        return [row["version"] for row in versions], [row["value"] for row in meta], set(note)


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    return fresh_database(request.param)


@pytest.mark.parametrize("lock", [True, False])
def test_processes_that_start_at_once_on_an_empty_database_all_succeed(
    database: str, tmp_path: Path, start: Callable[..., Worker], lock: bool
) -> None:
    folder = steps(tmp_path)
    told = together([start(database, folder, lock=lock) for _ in range(8)])
    assert [version for version, _ in told] == [3] * 8
    assert sorted(version for _, applied in told for version in applied) == [1, 2, 3]
    assert asyncio.run(state(database)) == ([3], ["3"], {"id", "said"})


@pytest.mark.parametrize("point", _POINTS)
def test_migration_after_a_kill_goes_on_from_what_is_there(
    database: str, tmp_path: Path, start: Callable[..., Worker], point: str
) -> None:
    folder = steps(tmp_path)
    child = start(database, folder, point=point, at=2)
    child.tell("go")
    assert child.end() == -signal.SIGKILL, child.log()
    assert child.heard() == [["ready"]]

    async def look_and_go_on() -> None:
        async with ConnectionManager(database) as manager:
            migrator = Migrator(manager, folder=folder)
            done = 2 if point == "migration.after_commit" else 1
            assert await migrator.current_version() == done
            assert [each.version for each in await migrator.migrate()] == list(range(done + 1, 4))

    asyncio.run(look_and_go_on())
    assert asyncio.run(state(database)) == ([3], ["3"], {"id", "said"})


def test_kill_points_cover_every_moment_of_a_migration() -> None:
    assert _POINTS == ["migration.before", "migration.before_commit", "migration.after_commit"]


def test_missing_database_is_created_by_processes_that_start_at_once(
    postgres_url: str, start: Callable[..., Worker]
) -> None:
    url = databases_of(postgres_url).create(postgres_url)
    databases_of(url).drop(url)
    try:
        told = together([start(url, None) for _ in range(4)])
        latest = told[0][0]
        assert latest >= 1
        assert sorted(version for _, applied in told for version in applied) == list(range(1, latest + 1))
    finally:
        databases_of(url).drop(url)


def test_missing_database_with_an_unusual_name_is_created(postgres_url: str) -> None:
    name = f'a "dash" - {secrets.token_hex(8)} {{schema}}'
    place = DatabaseURL.parse(postgres_url).with_database(name)

    async def main() -> None:
        manager = ConnectionManager(place.secret_text())
        try:
            assert await Migrator(manager).migrate()
        finally:
            await manager.close()
            server = await asyncpg.connect(postgres_url)
            quoted = name.replace('"', '""')
            await server.execute(f'DROP DATABASE IF EXISTS "{quoted}" WITH (FORCE)')
            await server.close()

    asyncio.run(main())


def test_missing_database_is_not_created_unless_wanted(postgres_url: str) -> None:
    url = databases_of(postgres_url).create(postgres_url)
    databases_of(url).drop(url)

    async def main() -> None:
        with pytest.raises(Unavailable, match="has no database"):
            await Migrator(ConnectionManager(url), create_database=False).migrate()
        with pytest.raises(Unavailable, match="has no database"):
            await ConnectionManager(url).initialize()

    asyncio.run(main())


def test_missing_database_that_may_not_be_created_says_what_to_do(postgres_url: str) -> None:
    url = databases_of(postgres_url).create(postgres_url)
    databases_of(url).drop(url)
    role = f"limited_{DatabaseURL.parse(url).database}"

    async def main() -> None:
        server = await asyncpg.connect(postgres_url)
        await server.execute(f"CREATE ROLE {role}")
        try:
            with pytest.raises(Unavailable, match=r"does not let this user create it: have it created"):
                await Migrator(ConnectionManager(f"{url}?role={role}")).migrate()
        finally:
            await server.execute(f"DROP ROLE {role}")
            await server.close()

    asyncio.run(main())


def test_role_that_may_make_no_tables_is_told_what_to_do(postgres_url: str) -> None:
    url = databases_of(postgres_url).create(postgres_url)
    role = f"limited_{DatabaseURL.parse(url).database}"

    async def main() -> None:
        server = await asyncpg.connect(postgres_url)
        await server.execute(f"CREATE ROLE {role}")
        manager = ConnectionManager(f"{url}?role={role}")
        try:
            with pytest.raises(NotPermitted, match=r"may not make or change tables: run `holdfast migrate` as"):
                await Migrator(manager).migrate()
        finally:
            await manager.close()
            await server.execute(f"DROP ROLE {role}")
            await server.close()

    asyncio.run(main())
