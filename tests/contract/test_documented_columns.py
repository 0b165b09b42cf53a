"""The documented tables are there on every database: what its catalog tells, and what it does with their rows."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from holdfast import Holdfast
from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migration_files import FOLDER
from holdfast.db.migrations import Migrator
from holdfast.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from collections.abc import Set as AbstractSet

T = TypeVar("T")

_TOOL = Path(__file__).parents[2] / "tools" / "schema_snapshot.py"
_COLUMN = re.compile(r"    (?P<name>\w+) (?P<type>.+?)(?P<required> not null)?(?: default .*)?")
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])

# How a catalog names a documented type. MariaDB has no index over TEXT, so its keys and names have a length.
SAID = {
    DialectName.SQLITE: {
        "TEXT": "text",
        "VARCHAR(255)": r"varchar\(255\)",
        "INTEGER": "integer",
        "BIGINT": "bigint",
        "BOOLEAN": "boolean",
    },
    DialectName.POSTGRES: {
        "TEXT": "text",
        "VARCHAR(255)": r"character varying\(255\)",
        "INTEGER": "integer",
        "BIGINT": "bigint",
        "BOOLEAN": "boolean",
    },
    DialectName.MYSQL: {
        "TEXT": r"longtext|varchar\(\d+\)",
        "VARCHAR(255)": r"varchar\(255\)",
        "INTEGER": "int",
        "BIGINT": "bigint",
        "BOOLEAN": "tinyint",
    },
}

WORKFLOW_STATUS = {
    "workflow_uuid": "TEXT",
    "status": "TEXT",
    "name": "TEXT",
    "inputs": "TEXT",
    "output": "TEXT",
    "error": "TEXT",
    "authenticated_user": "TEXT",
    "assumed_role": "TEXT",
    "authenticated_roles": "TEXT",
    "executor_id": "TEXT",
    "created_at": "BIGINT",
    "updated_at": "BIGINT",
    "started_at_epoch_ms": "BIGINT",
    "application_version": "TEXT",
    "application_id": "TEXT",
    "class_name": "VARCHAR(255)",
    "config_name": "VARCHAR(255)",
    "parent_workflow_id": "TEXT",
    "forked_from": "TEXT",
    "was_forked_from": "BOOLEAN",
    "owner_xid": "TEXT",
    "queue_name": "TEXT",
    "deduplication_id": "TEXT",
    "priority": "INTEGER",
    "queue_partition_key": "TEXT",
    "recovery_attempts": "BIGINT",
    "delay_until_epoch_ms": "BIGINT",
    "workflow_timeout_ms": "BIGINT",
    "workflow_deadline_epoch_ms": "BIGINT",
    "serialization": "TEXT",
}
OPERATION_OUTPUTS = {
    "workflow_uuid": "TEXT",
    "function_id": "INTEGER",
    "function_name": "TEXT",
    "output": "TEXT",
    "error": "TEXT",
    "child_workflow_id": "TEXT",
    "started_at_epoch_ms": "BIGINT",
    "completed_at_epoch_ms": "BIGINT",
    "serialization": "TEXT",
}
APPLICATION_VERSIONS = {
    "version_id": "TEXT",
    "version_name": "TEXT",
    "version_timestamp": "BIGINT",
    "created_at": "BIGINT",
}
TABLES = {"workflow_status", "operation_outputs", "application_versions", "holdfast_meta", "holdfast_migrations"}

# The documented indexes that are kept: their columns, the rows they are limited to, and their columns on MariaDB,
# which cannot limit them.
INDEXES = {
    "workflow_status_created_at_index": ("created_at", None, "created_at"),
    "idx_workflow_status_forked_from": ("forked_from, created_at", "forked_from IS NOT NULL", "forked_from"),
    "idx_workflow_status_parent_workflow_id": (
        "parent_workflow_id, created_at",
        "parent_workflow_id IS NOT NULL",
        "parent_workflow_id",
    ),
    "idx_workflow_status_delayed": ("delay_until_epoch_ms", "status = 'DELAYED'", "status, delay_until_epoch_ms"),
}


@dataclass(frozen=True)
class Column:
    """A column as the catalog tells it."""

    type: str
    required: bool


@dataclass(frozen=True)
class Table:
    """A table as the catalog tells it; *rules* are its keys, constraints and indexes."""

    columns: dict[str, Column] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)


async def tables(manager: ConnectionManager, schema: str = "holdfast") -> dict[str, Table]:
    """Read the catalog, through the tool that writes the pages of the schema."""
    spec = importlib.util.spec_from_file_location("schema_snapshot", _TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    found: dict[str, Table] = {}
    table = Table()
    for line in await tool.catalog(manager, schema):
        if line.startswith("table "):
            table = found[line.split()[1]] = Table()
        elif line.startswith("    - "):
            table.rules.append(line.removeprefix("    - "))
        elif column := _COLUMN.fullmatch(line):
            table.columns[column["name"]] = Column(column["type"], column["required"] is not None)
    return found


def use(url: str, work: Callable[[ConnectionManager], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        async with ConnectionManager(url) as manager:
            return await work(manager)

    return asyncio.run(main())


def migrated(url: str) -> str:
    """Migrate the database at *url*, and return *url*."""

    async def work(manager: ConnectionManager) -> None:
        await Migrator(manager).migrate()

    use(url, work)
    return url


def place(manager: ConnectionManager, table: str) -> str:
    return f"holdfast.{table}" if manager.dialect is DialectName.POSTGRES else table


def primary_key(dialect: DialectName, *columns: str) -> re.Pattern[str]:
    """Return what a catalog says of a primary key."""
    listed = re.escape(", ".join(columns))
    words = {
        DialectName.SQLITE: rf"primary key \({listed}\)",
        DialectName.POSTGRES: rf"\w+: PRIMARY KEY \({listed}\)",
        DialectName.MYSQL: rf"PRIMARY: unique \({listed}\)",
    }
    return re.compile(words[dialect])


def assert_documented(
    url: str, name: str, documented: dict[str, str], key: tuple[str, ...], required: AbstractSet[str] = frozenset()
) -> Table:
    """Check that a table has its documented columns and key; return it."""
    table = use(migrated(url), tables)[name]
    dialect = DatabaseURL.parse(url).dialect
    assert documented.keys() <= table.columns.keys()
    for column, type_ in documented.items():
        assert re.fullmatch(SAID[dialect][type_], table.columns[column].type), column
    assert {column for column in required if not table.columns[column].required} == set()
    assert [rule for rule in table.rules if primary_key(dialect, *key).fullmatch(rule)]
    return table


async def insert_run(manager: ConnectionManager, run_id: str, **more: str) -> None:
    """Insert a run with nothing but what it cannot do without, and *more*."""
    columns = {"workflow_uuid": run_id, "status": "ENQUEUED", "name": "f", "created_at": 1, "updated_at": 1} | more
    await manager.execute(
        f"INSERT INTO {place(manager, 'workflow_status')} ({', '.join(columns)})"
        f" VALUES ({', '.join('?' * len(columns))})",
        *columns.values(),
    )


async def insert_step(manager: ConnectionManager, run_id: str, number: int) -> None:
    await manager.execute(
        f"INSERT INTO {place(manager, 'operation_outputs')} (workflow_uuid, function_id, function_name, identity)"
        " VALUES (?, ?, 'step', ?)",
        *(run_id, number, f"unlike-{time.monotonic_ns()}"),
    )


@EVERY_KIND
def test_workflow_status_has_its_documented_columns(kind: str, fresh_database: Callable[[str], str]) -> None:
    assert_documented(
        fresh_database(kind),
        "workflow_status",
        WORKFLOW_STATUS,
        ("workflow_uuid",),
        {"workflow_uuid", "was_forked_from"},
    )


@EVERY_KIND
def test_operation_outputs_has_its_documented_columns(kind: str, fresh_database: Callable[[str], str]) -> None:
    assert_documented(fresh_database(kind), "operation_outputs", OPERATION_OUTPUTS, ("workflow_uuid", "function_id"))


@EVERY_KIND
def test_application_versions_has_its_documented_columns(kind: str, fresh_database: Callable[[str], str]) -> None:
    assert_documented(
        fresh_database(kind),
        "application_versions",
        APPLICATION_VERSIONS,
        ("version_id",),
        {"version_name", "version_timestamp", "created_at"},
    )


@EVERY_KIND
def test_holdfast_meta_has_its_documented_columns(kind: str, fresh_database: Callable[[str], str]) -> None:
    assert_documented(fresh_database(kind), "holdfast_meta", {"key": "TEXT", "value": "TEXT"}, ("key",))


@EVERY_KIND
def test_holdfast_migrations_has_its_documented_column(kind: str, fresh_database: Callable[[str], str]) -> None:
    type_ = "INTEGER" if kind == "sqlite" else "BIGINT"
    table = assert_documented(
        fresh_database(kind), "holdfast_migrations", {"version": type_}, ("version",), {"version"}
    )
    assert list(table.columns) == ["version"]


@EVERY_KIND
def test_run_of_which_nothing_is_said_has_the_documented_defaults(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    async def work(manager: ConnectionManager) -> dict[str, Any] | None:
        await insert_run(manager, "run")
        return await manager.fetchone(f"SELECT * FROM {place(manager, 'workflow_status')}")

    row = use(migrated(fresh_database(kind)), work)
    assert row is not None
    assert (row["was_forked_from"], row["priority"], row["recovery_attempts"]) == (False, 0, 0)
    said = {"workflow_uuid", "status", "name", "created_at", "updated_at"}
    preset = {"was_forked_from", "priority", "recovery_attempts"}
    assert {column for column in WORKFLOW_STATUS.keys() - said - preset if row[column] is not None} == set()


@EVERY_KIND
def test_deduplication_id_is_unique_in_its_queue_and_none_is_not(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    async def work(manager: ConnectionManager) -> int:
        await insert_run(manager, "first", queue_name="q", deduplication_id="d")
        with pytest.raises(Conflict):
            await insert_run(manager, "second", queue_name="q", deduplication_id="d")
        await insert_run(manager, "third", queue_name="other", deduplication_id="d")
        for run_id in ("fourth", "fifth"):
            await insert_run(manager, run_id, queue_name="q")
        return len(await manager.fetch(f"SELECT 1 AS x FROM {place(manager, 'workflow_status')}"))

    assert use(migrated(fresh_database(kind)), work) == 4


@EVERY_KIND
def test_steps_have_one_place_each_and_go_with_their_run(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def work(manager: ConnectionManager) -> list[tuple[str, int]]:
        for run_id in ("kept", "gone"):
            await insert_run(manager, run_id)
            await insert_step(manager, run_id, 1)
            await insert_step(manager, run_id, 2)
        with pytest.raises(Conflict):
            await insert_step(manager, "gone", 2)
        await manager.execute(f"DELETE FROM {place(manager, 'workflow_status')} WHERE workflow_uuid = 'gone'")
        rows = await manager.fetch(f"SELECT * FROM {place(manager, 'operation_outputs')} ORDER BY function_id")
        return [(row["workflow_uuid"], row["function_id"]) for row in rows]

    assert use(migrated(fresh_database(kind)), work) == [("kept", 1), ("kept", 2)]


@EVERY_KIND
def test_version_names_are_unique(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def work(manager: ConnectionManager) -> None:
        insert = f"INSERT INTO {place(manager, 'application_versions')} VALUES (?, ?, 1, 1)"
        await manager.execute(insert, "1", "v")
        with pytest.raises(Conflict):
            await manager.execute(insert, "2", "v")
        await manager.execute(insert, "2", "V")

    use(migrated(fresh_database(kind)), work)


@EVERY_KIND
@pytest.mark.parametrize("name", list(INDEXES))
def test_documented_index_of_workflow_status_is_kept(
    kind: str, name: str, fresh_database: Callable[[str], str]
) -> None:
    columns, limit, unlimited = INDEXES[name]
    [rule] = [
        rule
        for rule in use(migrated(fresh_database(kind)), tables)["workflow_status"].rules
        if name in rule.split("(")[0]
    ]
    if kind == "mariadb":
        assert rule == f"{name}: index ({unlimited})"
    else:
        _, _, after = rule.partition(f" ({columns})")
        where = after.replace("(", "").replace(")", "").replace("::text", "")
        assert where == ("" if limit is None else f" WHERE {limit}")


@EVERY_KIND
def test_launch_makes_the_tables_without_being_told_to(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    with Holdfast(url, application_version="tested"):
        assert use(url, tables).keys() >= TABLES


@EVERY_KIND
def test_launch_brings_an_older_database_up_to_date(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    url = fresh_database(kind)
    for dialect in DialectName:
        (tmp_path / dialect).mkdir()
        first = "0001_foundation.sql"
        (tmp_path / dialect / first).write_text((FOLDER / dialect / first).read_text())

    async def begin(manager: ConnectionManager) -> None:
        await Migrator(manager, folder=tmp_path).migrate()
        assert await Migrator(manager).current_version() == 1

    async def look(manager: ConnectionManager) -> None:
        await Migrator(manager).check()

    use(url, begin)
    with Holdfast(url, application_version="tested"):
        use(url, look)


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_tables_lie_directly_in_a_database_without_schemas(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def work(manager: ConnectionManager) -> list[Any]:
        return [await manager.fetch(f"SELECT * FROM {table} WHERE 1 = 0") for table in sorted(TABLES)]

    assert use(migrated(fresh_database(kind)), work) == [[]] * len(TABLES)


@EVERY_KIND
def test_new_version_has_a_uuid_and_both_times_from_the_clock_of_the_database(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    hour = 3_600_000
    with Holdfast(fresh_database(kind), application_version="tested", clock_offset_ms=f"SELECT {hour}") as app:
        version = app.get_latest_application_version()
    assert str(uuid.UUID(version.version_id)) == version.version_id
    assert version.version_timestamp == version.created_at
    assert abs(version.created_at - time.time() * 1000 - hour) < hour / 2
