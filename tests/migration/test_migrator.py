"""The runner, on each of the three databases."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migrations.files import FOLDER
from holdfast.db.migrations.migrator import (
    Migrator,
    key_collation,
    run_holdfast_migrations,
    should_migrate,
)
from holdfast.db.settings import Settings
from holdfast.errors import (
    InvalidIdentifier,
    NestedTransaction,
    NotInitialized,
    QueryFailed,
    SchemaTooNew,
    SchemaTooOld,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

_TOOL = Path(__file__).parents[2] / "tools" / "schema_snapshot.py"

# Three small migrations; the second has two statements, and neither may be repeated as it stands.
_STEPS = {
    "0001_foundation": None,
    "0002_notes": "CREATE TABLE @notes (id INT PRIMARY KEY); ALTER TABLE @notes ADD COLUMN said {text};",
    "0003_index": "CREATE INDEX idx_notes_said ON @notes (said);",
}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    return fresh_database(request.param)


def steps(place: Path, upto: int = 3) -> Path:
    """Write a folder with the first *upto* of the small migrations."""
    for dialect in DialectName:
        (place / dialect).mkdir(parents=True)
        for name, text in list(_STEPS.items())[:upto]:
            own = (FOLDER / dialect / f"{name}.sql").read_text() if text is None else text
            column = "VARCHAR(40)" if dialect is DialectName.MYSQL else "TEXT"
            (place / dialect / f"{name}.sql").write_text(own.replace("{text}", column))
    return place


def add(folder: Path, name: str, text: str) -> None:
    for dialect in DialectName:
        (folder / dialect / f"{name}.sql").write_text(text)


async def catalog(manager: ConnectionManager, schema: str = "holdfast") -> list[str]:
    spec = importlib.util.spec_from_file_location("schema_snapshot", _TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    lines: list[str] = await tool.catalog(manager, schema)
    return lines


def table(manager: ConnectionManager, name: str, schema: str = "holdfast") -> str:
    return f'"{schema}".{name}' if manager.dialect is DialectName.POSTGRES else name


async def rows(manager: ConnectionManager, schema: str = "holdfast") -> tuple[list[int], str | None]:
    """The version table, and what holdfast_meta says."""
    versions = await manager.fetch(f"SELECT version FROM {table(manager, 'holdfast_migrations', schema)}")
    meta = await manager.fetchone(
        f"SELECT * FROM {table(manager, 'holdfast_meta', schema)} WHERE "
        + ("`key` = ?" if manager.dialect is DialectName.MYSQL else '"key" = ?'),
        "schema_version",
    )
    return [row["version"] for row in versions], None if meta is None else meta["value"]


def use(url: str, work: Callable[[ConnectionManager], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with ConnectionManager(url, **options) as manager:
            await work(manager)

    asyncio.run(main())


def test_migrate_of_an_empty_database_brings_it_to_the_latest_version(database: str) -> None:
    async def work(manager: ConnectionManager) -> None:
        migrator = Migrator(manager)
        assert await migrator.current_version() == 0
        assert await should_migrate(manager)
        applied = await run_holdfast_migrations(manager)
        assert [each.version for each in applied] == list(range(1, migrator.latest + 1))
        assert await migrator.current_version() == migrator.latest
        assert await rows(manager) == ([migrator.latest], str(migrator.latest))
        assert not await should_migrate(manager)
        await migrator.check()
        assert await migrator.migrate() == []

    use(database, work)


def test_migrate_needs_no_more_than_one_connection_of_the_pool(database: str) -> None:
    async def work(manager: ConnectionManager) -> None:
        assert await Migrator(manager).migrate()

    use(database, work, pool_size=1, pool_timeout=1)


def test_migrate_opens_the_manager(database: str) -> None:
    async def main() -> None:
        manager = ConnectionManager(database)
        try:
            assert await Migrator(manager).migrate()
            await manager.fetch("SELECT 1")
        finally:
            await manager.close()

    asyncio.run(main())


def test_check_of_a_manager_that_is_not_open_is_refused() -> None:
    with pytest.raises(NotInitialized):
        asyncio.run(Migrator(ConnectionManager(":memory:")).check())


def test_migrate_inside_a_transaction_is_refused(database: str) -> None:
    async def work(manager: ConnectionManager) -> None:
        async with manager.transaction():
            with pytest.raises(NestedTransaction):
                await Migrator(manager).migrate()
        assert await Migrator(manager).current_version() == 0

    use(database, work)


def test_check_of_an_old_database_names_both_versions_and_the_remedy(database: str, tmp_path: Path) -> None:
    folder = steps(tmp_path / "all")

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager, folder=steps(tmp_path / "first", upto=1)).migrate()
        with pytest.raises(SchemaTooOld, match=r"version 1, .* version 3: run `holdfast migrate`"):
            await Migrator(manager, folder=folder).check()

    use(database, work)


def test_migrate_of_an_old_database_applies_only_what_is_new(database: str, tmp_path: Path) -> None:
    folder = steps(tmp_path / "all")

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager, folder=steps(tmp_path / "first", upto=1)).migrate()
        assert await rows(manager) == ([1], "1")
        applied = await Migrator(manager, folder=folder).migrate()
        assert [each.name for each in applied] == ["0002_notes", "0003_index"]
        assert await rows(manager) == ([3], "3")

    use(database, work)


def test_schema_is_the_same_in_one_go_and_step_by_step(
    tmp_path: Path, fresh_database: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    folders = [steps(tmp_path / str(upto), upto) for upto in (1, 2, 3)]
    for kind in ("sqlite", "postgres", "mariadb"):
        seen: list[list[str]] = []

        async def work(manager: ConnectionManager, kept: list[list[str]] = seen) -> None:
            for folder in folders if not kept else folders[-1:]:
                await Migrator(manager, folder=folder).migrate()
            kept.append(await catalog(manager))

        use(fresh_database(kind), work)
        use(fresh_database(kind), work)
        assert seen[0] == seen[1]
        assert any("idx_notes_said" in line for line in seen[0])


def test_schema_that_is_too_new_is_refused_and_nothing_is_touched(database: str) -> None:
    async def work(manager: ConnectionManager) -> None:
        migrator = Migrator(manager)
        await migrator.migrate()
        await manager.execute(f"DROP TABLE {table(manager, 'holdfast_meta')}")
        await manager.execute(f"UPDATE {table(manager, 'holdfast_migrations')} SET version = 4711")
        before = await catalog(manager)
        for call in (migrator.migrate, migrator.check, migrator.script, migrator.pending):
            with pytest.raises(SchemaTooNew, match=rf"version 4711, .* version {migrator.latest}: install"):
                await call()
        with pytest.raises(SchemaTooNew):
            await should_migrate(manager)
        assert await catalog(manager) == before
        assert await migrator.current_version() == 4711

    use(database, work)


def test_migration_that_fails_leaves_those_before_it_and_the_next_call_goes_on(database: str, tmp_path: Path) -> None:
    folder = steps(tmp_path, upto=2)
    add(folder, "0003_broken", "CREATE TABLE @more (id INTEGER); INSERT INTO @nowhere VALUES (1);")

    async def work(manager: ConnectionManager) -> None:
        with pytest.raises(QueryFailed, match="nowhere"):
            await Migrator(manager, folder=folder).migrate()
        assert await rows(manager) == ([2], "2")
        left = any(line.startswith("table more") for line in await catalog(manager))
        assert left is (manager.dialect is DialectName.MYSQL)
        add(folder, "0003_broken", "CREATE TABLE @more (id INTEGER); DROP TABLE @more;")
        assert [each.version for each in await Migrator(manager, folder=folder).migrate()] == [3]
        assert await rows(manager) == ([3], "3")

    use(database, work)


def test_version_table_left_empty_by_a_crash_gets_its_row(database: str) -> None:
    async def work(manager: ConnectionManager) -> None:
        if manager.dialect is DialectName.POSTGRES:
            await manager.execute("CREATE SCHEMA holdfast")
        await manager.execute(
            f"CREATE TABLE {table(manager, 'holdfast_migrations')} (version BIGINT NOT NULL PRIMARY KEY)"
        )
        migrator = Migrator(manager)
        assert await migrator.current_version() == 0
        assert await migrator.migrate()
        assert (await rows(manager))[0] == [migrator.latest]

    use(database, work)


def test_claim_that_another_process_has_made_is_skipped(database: str, tmp_path: Path) -> None:
    """Both have read version 0; the second one comes to its claim when the first one is done."""
    folder = steps(tmp_path)

    async def work(manager: ConnectionManager) -> None:
        late = Migrator(manager, folder=folder)
        pending = await late.pending()
        assert len(await Migrator(manager, folder=folder).migrate()) == 3
        fragments = await late._fragments()
        applied = [await late._apply(each, late._statements(each, fragments)) for each in pending]
        assert applied == [False, False, False]
        await late._prepare_version_table()
        assert await rows(manager) == ([3], "3")

    use(database, work)


def test_script_run_by_hand_does_what_migrate_does(
    database: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    kinds = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mariadb"}
    other = fresh_database(kinds[database.partition(":")[0]])
    seen: list[list[str]] = []

    async def by_hand(manager: ConnectionManager) -> None:
        migrator = Migrator(manager)
        await _run_script(manager, await migrator.script())
        await migrator.check()
        assert await rows(manager) == ([migrator.latest], str(migrator.latest))
        assert await migrator.script() == (
            f"-- The tables are at version {migrator.latest}: there is nothing to run.\n"
        )
        seen.append(await catalog(manager))

    async def by_migrate(manager: ConnectionManager) -> None:
        await Migrator(manager).migrate()
        seen.append(await catalog(manager))

    use(database, by_hand)
    use(other, by_migrate)
    assert seen[0] == seen[1]


async def _run_script(manager: ConnectionManager, text: str) -> None:
    """Send the whole text at once, as a command-line client does."""
    url = manager.url
    if url.dialect is DialectName.SQLITE:
        import sqlite3

        connection = sqlite3.connect(str(url.path))
        connection.executescript(text)
        connection.close()
    elif url.dialect is DialectName.POSTGRES:
        import asyncpg

        server = await asyncpg.connect(url.secret_text())
        await server.execute(text)
        await server.close()
    else:
        import asyncmy
        from asyncmy.constants import CLIENT

        async with (
            asyncmy.connect(
                host=url.host,
                port=url.port,
                user=url.user,
                password=url.password,
                database=url.database,
                client_flag=CLIENT.MULTI_STATEMENTS,
            ) as client,
            client.cursor() as cursor,
        ):
            await cursor.execute(text)
            while await cursor.nextset():
                pass


@pytest.mark.parametrize("schema", ['a"; DROP TABLE x; --', "with-dash", "", "1st", "x" * 64])
def test_schema_with_a_name_that_is_not_allowed_is_refused(schema: str) -> None:
    with pytest.raises(InvalidIdentifier):
        Migrator(ConnectionManager("postgresql://somebody@127.0.0.1/nowhere"), schema=schema)


def test_schemas_of_one_database_are_migrated_independently(fresh_database: Callable[[str], str]) -> None:
    async def work(manager: ConnectionManager) -> None:
        for schema in ("holdfast", "Select"):
            assert await should_migrate(manager, schema=schema)
            assert await run_holdfast_migrations(manager, schema=schema)
            versions, noted = await rows(manager, schema)
            assert versions == [int(noted or 0)]
        assert await catalog(manager) == [line.replace(' "Select".', " ") for line in await catalog(manager, "Select")]

    use(fresh_database("postgres"), work)


def test_schema_that_is_there_is_used_by_a_role_that_may_not_create_any(
    fresh_database: Callable[[str], str],
) -> None:
    url = fresh_database("postgres")
    role = f"limited_{DatabaseURL.parse(url).database}"

    async def prepare(manager: ConnectionManager) -> None:
        await manager.execute(f"CREATE ROLE {role}")
        await manager.execute(f"CREATE SCHEMA holdfast AUTHORIZATION {role}")

    async def work(manager: ConnectionManager) -> None:
        with pytest.raises(QueryFailed, match="permission denied"):
            await manager.execute("CREATE SCHEMA another")
        assert await Migrator(manager).migrate()

    async def clean(manager: ConnectionManager) -> None:
        await manager.execute(f"DROP OWNED BY {role}")
        await manager.execute(f"DROP ROLE {role}")

    use(url, prepare)
    try:
        use(f"{url}?role={role}", work)
    finally:
        use(url, clean)


def test_migrate_of_a_current_database_writes_nothing(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager).migrate()

    async def look(manager: ConnectionManager) -> None:
        with pytest.raises(Exception, match="read-only transaction"):
            await manager.backend().execute("CREATE TABLE x (y INT)", ())
        assert await Migrator(manager).migrate() == []

    use(url, work)
    use(f"{url}?default_transaction_read_only=on", look)


def test_keys_differ_by_case_accents_and_trailing_spaces(database: str) -> None:
    keys = ["key", "KEY", "kéy", "key ", "ke\u0301y"]

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager).migrate()
        meta, column = table(manager, "holdfast_meta"), '"key"'
        if manager.dialect is DialectName.MYSQL:
            column = "`key`"
        for key in keys:
            await manager.execute(f"INSERT INTO {meta} ({column}) VALUES (?)", key)
        for key in keys:
            found = await manager.fetch(f"SELECT {column} FROM {meta} WHERE {column} = ?", key)
            assert [row["key"] for row in found] == [key]

    use(database, work)


@pytest.mark.parametrize(
    ("version", "collation"),
    [
        ("10.11.6-MariaDB-0+deb12u1", "utf8mb4_nopad_bin"),
        ("11.4.2-mariadb", "utf8mb4_nopad_bin"),
        ("8.0.36", "utf8mb4_0900_bin"),
        ("8.4.0-commercial", "utf8mb4_0900_bin"),
    ],
)
def test_key_collation_is_one_that_the_server_has(version: str, collation: str) -> None:
    assert key_collation(version) == collation


def test_read_goes_on_when_a_pooled_connection_was_closed_by_the_server(
    fresh_database: Callable[[str], str],
) -> None:
    url = fresh_database("postgres")

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager).migrate()
        async with _another(url) as other:
            await other.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
                (),
            )
        await Migrator(manager).check()

    use(url, work)


@asynccontextmanager
async def _another(url: str) -> AsyncIterator[Any]:
    from holdfast.db.postgres.postgres import connect

    session = await connect(Settings(url=DatabaseURL.parse(url)))
    try:
        yield session
    finally:
        await session.close()
