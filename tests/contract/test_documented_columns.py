"""The documented tables are there on every database: what its catalog tells, and what it does with their rows."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import time
import tomllib
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from holdfast import Holdfast
from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migrations.files import FOLDER
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import Conflict, DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

T = TypeVar("T")

_TOOL = Path(__file__).parents[2] / "tools" / "schema_snapshot.py"
_COLUMN = re.compile(r"    (?P<name>\w+) (?P<type>.+?)(?P<required> not null)?(?: default (?P<default>.*))?")
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])

# How a catalog names a documented type. MariaDB has no index over TEXT, so its keys and names have a length.
SAID = {
    DialectName.SQLITE: {
        "TEXT": "text",
        "VARCHAR(255)": r"varchar\(255\)",
        "INTEGER": "integer",
        "BIGINT": "bigint",
        "BOOLEAN": "boolean",
        "DOUBLE PRECISION": "real|double precision",
        "NUMERIC(38,0)": r"numeric\(38, ?0\)",
        "NUMERIC(38,15)": r"numeric\(38, ?15\)",
        "COUNTER": "integer",
        "BYTES": "blob",
    },
    DialectName.POSTGRES: {
        "TEXT": "text",
        "VARCHAR(255)": r"character varying\(255\)",
        "INTEGER": "integer",
        "BIGINT": "bigint",
        "BOOLEAN": "boolean",
        "DOUBLE PRECISION": "double precision",
        "NUMERIC(38,0)": r"numeric\(38,0\)",
        "NUMERIC(38,15)": r"numeric\(38,15\)",
        "COUNTER": "bigint.*",
        "BYTES": "bytea",
    },
    DialectName.MYSQL: {
        "TEXT": r"longtext|varchar\(\d+\)",
        "VARCHAR(255)": r"varchar\(255\)",
        "INTEGER": "int",
        "BIGINT": "bigint",
        "BOOLEAN": "tinyint",
        "DOUBLE PRECISION": "double",
        "NUMERIC(38,0)": r"decimal\(38,0\)",
        "NUMERIC(38,15)": r"decimal\(38,15\)",
        "COUNTER": "bigint.*",
        "BYTES": "longblob",
    },
}

DOCUMENTED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "documented_tables.toml").read_text(encoding="utf-8")
)
TABLES = DOCUMENTED.keys() | {"holdfast_migrations"}

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
    default: str | None = None


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
            table.rules.append(line.removeprefix("    - ").replace('"', ""))
        elif column := _COLUMN.fullmatch(line):
            table.columns[column["name"]] = Column(column["type"], column["required"] is not None, column["default"])
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


def is_default(documented: str, column: Column) -> bool:
    """Tell whether a catalog's words for a default mean the documented value."""
    text = (column.default or "").removesuffix("::text").strip("'")
    words = {"true": "1", "false": "0"} if column.type in {"boolean", "tinyint"} else {}
    same = text == documented or words.get(text.lower(), text) == words.get(documented, documented)
    return same or (column.type.startswith(("real", "double")) and float(text) == float(documented))


def unlike_columns(dialect: DialectName, name: str, table: Table) -> Iterator[str]:
    """Say how the columns of a table differ from what is documented."""
    for column, type_ in DOCUMENTED[name]["columns"].items():
        found = table.columns.get(column)
        if found is None:
            yield f"{name}.{column} is missing"
        elif re.fullmatch(SAID[dialect][type_], found.type) is None:
            yield f"{name}.{column} is {found.type}, not {type_}"
        elif column in DOCUMENTED[name]["required"] and not found.required:
            yield f"{name}.{column} may be NULL"
    for column, value in DOCUMENTED[name].get("defaults", {}).items():
        if not is_default(value, table.columns[column]):
            yield f"{name}.{column} is {table.columns[column].default} if nothing is said, not {value}"


def unlike_rules(dialect: DialectName, name: str, table: Table) -> Iterator[str]:
    """Say which documented key, constraint or index a table lacks."""
    twice = DOCUMENTED[name].get("unique", ())
    indexes = DOCUMENTED[name].get("indexes", {}).items()
    for rule in (
        primary_key(dialect, *DOCUMENTED[name]["key"]),
        *(re.compile(rf"(?i).*\bunique\b.*\({re.escape(', '.join(columns))}\)") for columns in twice),
        *(re.compile(rf".*\b{index}\b.*?\({column}\b.*") for index, column in indexes),
    ):
        if not any(rule.fullmatch(found) for found in table.rules):
            yield f"{name} has no {rule.pattern} among {table.rules}"


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
def test_tables_have_their_documented_columns_keys_and_indexes(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = migrated(fresh_database(kind))
    dialect = DatabaseURL.parse(url).dialect
    found = use(url, tables)
    assert DOCUMENTED.keys() <= found.keys()
    assert [fault for name in DOCUMENTED for fault in unlike_columns(dialect, name, found[name])] == []
    assert [fault for name in DOCUMENTED for fault in unlike_rules(dialect, name, found[name])] == []


@EVERY_KIND
def test_holdfast_migrations_has_its_documented_column(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = migrated(fresh_database(kind))
    table = use(url, tables)["holdfast_migrations"]
    assert table.columns == {"version": Column("integer" if kind == "sqlite" else "bigint", required=True)}
    assert any(primary_key(DatabaseURL.parse(url).dialect, "version").fullmatch(rule) for rule in table.rules)


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
    documented = set(DOCUMENTED["workflow_status"]["columns"])
    assert {column for column in documented - said - preset if row[column] is not None} == set()


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
def test_documented_indexes_of_workflow_status_are_kept(kind: str, fresh_database: Callable[[str], str]) -> None:
    rules = use(migrated(fresh_database(kind)), tables)["workflow_status"].rules
    for name, (columns, limit, unlimited) in INDEXES.items():
        [rule] = [rule for rule in rules if name in rule.split("(")[0]]
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


@EVERY_KIND
def test_registered_queue_has_a_uuid_and_outlives_the_process(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    with Holdfast(url, application_version="tested") as app:
        made = app.register_queue("kept", concurrency=3)
    assert str(uuid.UUID(made.queue_id)) == made.queue_id
    with Holdfast(url, application_version="tested") as app:
        assert app.retrieve_queue("kept") == made


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_functions_of_sql_are_there_on_postgres_alone(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def work(manager: ConnectionManager) -> None:
        for call in ("enqueue_workflow('w', 'q')", "send_message('r', '1')"):
            with pytest.raises(DatabaseError, match=call.partition("(")[0]):
                await manager.fetch(f"SELECT {call}")

    use(migrated(fresh_database(kind)), work)
