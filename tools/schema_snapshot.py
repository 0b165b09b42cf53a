"""Write what the migrations make, as the databases' own catalogs tell it, to ``docs/reference/schema``.

One page a dialect: tables with their columns, keys, checks and indexes, and functions. ``--check`` writes
nothing and exits with 1 if a page does not say what a freshly migrated database has. Servers are started for
the purpose, or those named by ``HOLDFAST_TEST_POSTGRES_URL`` and ``HOLDFAST_TEST_MARIADB_URL`` are used.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import Migrator
from holdfast.testing.servers import Fleet, databases_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGES = Path(__file__).parents[1] / "docs" / "reference" / "schema"
SERVERS = {DialectName.POSTGRES: "postgres", DialectName.MYSQL: "mariadb"}

_SQLITE_TABLES = """
SELECT name, sql FROM sqlite_master
WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY name
"""
_SQLITE_COLUMNS = """
SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) ORDER BY cid
"""
_SQLITE_INDEXES = """
SELECT i.name, i.origin, i."unique", m.sql,
       (SELECT group_concat(c.name, ', ') FROM pragma_index_info(i.name) AS c) AS columns
FROM pragma_index_list(?) AS i LEFT JOIN sqlite_master AS m ON m.type = 'index' AND m.name = i.name
ORDER BY i.name
"""
_SQLITE_FOREIGN_KEYS = """
SELECT "table" AS target, on_delete, group_concat("from", ', ') AS columns,
       group_concat("to", ', ') AS targets
FROM pragma_foreign_key_list(?) GROUP BY id ORDER BY columns
"""
_POSTGRES_TABLES = """
SELECT c.relname AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY c.relname COLLATE "C"
"""
_POSTGRES_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       pg_get_expr(d.adbin, d.adrelid) AS preset, a.attidentity::text AS identity
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname = ? AND c.relname = ? AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_POSTGRES_RULES = """
SELECT x.conname AS name, pg_get_constraintdef(x.oid) AS text
FROM pg_constraint AS x JOIN pg_class AS c ON c.oid = x.conrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relname = ? AND x.contype <> 'n' ORDER BY x.conname COLLATE "C"
"""
_POSTGRES_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) AS text
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relname = ?
  AND NOT EXISTS (SELECT 1 FROM pg_constraint AS x WHERE x.conindid = i.indexrelid AND x.contype <> 'f')
ORDER BY 1
"""
_POSTGRES_FUNCTIONS = """
SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS takes, pg_get_function_result(p.oid) AS gives
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = ? ORDER BY 1, 2
"""
_MYSQL_TABLES = """
SELECT table_name AS name, engine AS engine, table_collation AS collation
FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name
"""
_MYSQL_COLUMNS = """
SELECT column_name AS name, column_type AS type, is_nullable AS nullable,
       column_default AS preset, extra AS extra, collation_name AS collation
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position
"""
_MYSQL_INDEXES = """
SELECT index_name AS name, non_unique AS repeats,
       GROUP_CONCAT(CONCAT(column_name, IF(sub_part IS NULL, '', CONCAT('(', sub_part, ')')),
                           IF(collation = 'D', ' DESC', '')) ORDER BY seq_in_index SEPARATOR ', ') AS columns
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ?
GROUP BY index_name, non_unique ORDER BY index_name
"""
_MYSQL_FOREIGN_KEYS = """
SELECT k.constraint_name AS name, r.delete_rule AS on_delete, k.referenced_table_name AS target,
       GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position SEPARATOR ', ') AS columns,
       GROUP_CONCAT(k.referenced_column_name ORDER BY k.ordinal_position SEPARATOR ', ') AS targets
FROM information_schema.key_column_usage AS k JOIN information_schema.referential_constraints AS r
  ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
WHERE k.table_schema = DATABASE() AND k.table_name = ? AND k.referenced_table_name IS NOT NULL
GROUP BY k.constraint_name, r.delete_rule, k.referenced_table_name ORDER BY k.constraint_name
"""
_MYSQL_CHECKS = """
SELECT c.constraint_name AS name, c.check_clause AS text
FROM information_schema.check_constraints AS c JOIN information_schema.table_constraints AS t
  ON t.constraint_schema = c.constraint_schema AND t.constraint_name = c.constraint_name
WHERE t.table_schema = DATABASE() AND t.table_name = ? AND t.constraint_type = 'CHECK'
ORDER BY c.constraint_name
"""


async def catalog(manager: ConnectionManager, schema: str = "holdfast") -> list[str]:
    """Return the lines that describe every table of *manager*'s database (of *schema*, on PostgreSQL)."""
    describe = {
        DialectName.SQLITE: _sqlite,
        DialectName.POSTGRES: lambda manager: _postgres(manager, schema),
        DialectName.MYSQL: _mysql,
    }
    return await describe[manager.dialect](manager)


async def _sqlite(manager: ConnectionManager) -> list[str]:
    lines: list[str] = []
    for table in await manager.fetch(_SQLITE_TABLES):
        columns = await manager.fetch(_SQLITE_COLUMNS, table["name"])
        indexes = await manager.fetch(_SQLITE_INDEXES, table["name"])
        keys = [row["name"] for row in sorted(columns, key=lambda row: row["pk"]) if row["pk"]]
        lines += _table(
            table["name"],
            (_column(row["name"], row["type"], bool(row["notnull"]), row["dflt_value"]) for row in columns),
            [
                *([f"primary key ({', '.join(keys)})"] if keys else []),
                *(f"unique ({row['columns']})" for row in indexes if row["origin"] == "u"),
                *map(_foreign_key, await manager.fetch(_SQLITE_FOREIGN_KEYS, table["name"])),
                *_checks(table["sql"]),
                *(_one_line(row["sql"]) for row in indexes if row["sql"] is not None),
            ],
        )
    return lines


async def _postgres(manager: ConnectionManager, schema: str) -> list[str]:
    lines: list[str] = []
    for row in await manager.fetch(_POSTGRES_TABLES, schema):
        place = schema, row["name"]
        columns = await manager.fetch(_POSTGRES_COLUMNS, *place)
        rules = await manager.fetch(_POSTGRES_RULES, *place)
        indexes = await manager.fetch(_POSTGRES_INDEXES, *place)
        lines += _table(
            row["name"],
            (
                _column(each["name"], each["type"], each["required"], each["preset"], bool(each["identity"]))
                for each in columns
            ),
            [*(f"{each['name']}: {each['text']}" for each in rules), *(each["text"] for each in indexes)],
        )
    for row in await manager.fetch(_POSTGRES_FUNCTIONS, schema):
        lines += [f"function {row['name']}({row['takes']}) returns {row['gives']}", ""]
    # Whether PostgreSQL writes the schema before a name depends on who asks.
    return [line.replace(f" {schema}.", " ") for line in lines]


async def _mysql(manager: ConnectionManager) -> list[str]:
    lines: list[str] = []
    for table in await manager.fetch(_MYSQL_TABLES):
        name = table["name"]
        columns = await manager.fetch(_MYSQL_COLUMNS, name)
        indexes = await manager.fetch(_MYSQL_INDEXES, name)
        checks = await manager.fetch(_MYSQL_CHECKS, name)
        lines += _table(
            f"{name} ({table['engine']}, {table['collation']})",
            (
                _column(
                    row["name"],
                    _mysql_type(row["type"], row["collation"], table["collation"]),
                    row["nullable"] == "NO",
                    None if row["preset"] == "NULL" else row["preset"],
                    "auto_increment" in row["extra"],
                )
                for row in columns
            ),
            [
                *(f"{row['name']}: {'index' if row['repeats'] else 'unique'} ({row['columns']})" for row in indexes),
                *map(_foreign_key, await manager.fetch(_MYSQL_FOREIGN_KEYS, name)),
                *(f"{row['name']}: check ({row['text']})" for row in checks),
            ],
        )
    return lines


def _mysql_type(type_: str, collation: str | None, usual: str) -> str:
    """Leave out the width MariaDB shows for whole numbers, which means nothing, and the usual collation."""
    plain = re.sub(r"\b(tinyint|smallint|mediumint|int|bigint)\(\d+\)", r"\1", type_)
    return plain if collation in {None, usual} else f"{plain} collate {collation}"


def _table(name: str, columns: Iterable[str], rules: Iterable[str]) -> list[str]:
    return [f"table {name}", *(f"    {line}" for line in columns), *(f"    - {rule}" for rule in rules), ""]


def _column(name: str, type_: str, required: bool, preset: str | None, numbered: bool = False) -> str:
    return (
        f"{name} {type_.lower()}{' not null' if required else ''}{' auto' if numbered else ''}"
        f"{'' if preset is None else f' default {preset}'}"
    )


def _foreign_key(row: dict[str, str]) -> str:
    target = f"{row['target']} ({row['targets']})"
    return f"foreign key ({row['columns']}) references {target} on delete {row['on_delete']}"


def _checks(create: str) -> Iterator[str]:
    """Yield the checks in a CREATE TABLE of SQLite, whose catalog keeps them only there."""
    for match in re.finditer(r"(?:CONSTRAINT\s+(\w+)\s+)?CHECK\s*\(", create, re.IGNORECASE):
        depth, at = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(create[at], 0)
            at += 1
        yield f"{f'{match[1]}: ' if match[1] else ''}check ({_one_line(create[match.end() : at - 1])})"


def _one_line(text: str) -> str:
    return " ".join(text.split())


async def page(url: str) -> str:
    """Migrate the empty database at *url* and return the page about it."""
    async with ConnectionManager(url) as manager:
        migrator = Migrator(manager)
        await migrator.migrate()
        head = f"# What the migrations up to version {migrator.latest} make on {manager.dialect}."
        return "\n".join([head, "# Written by tools/schema_snapshot.py; do not edit.", "", *await catalog(manager)])


def pages(servers: dict[str, str], folder: str) -> Iterator[tuple[Path, str]]:
    """Yield the file of each page and what it should say."""
    yield PAGES / "sqlite.txt", asyncio.run(page(f"sqlite:///{folder}/snapshot.sqlite"))
    for dialect, kind in SERVERS.items():
        databases = databases_of(servers[kind])
        url = databases.create(servers[kind])
        try:
            yield PAGES / f"{dialect}.txt", asyncio.run(page(url))
        finally:
            databases.drop(url)


def differences(written: Iterable[tuple[Path, str]]) -> list[str]:
    """Return, as a diff, where the files do not say what they should."""
    rows: list[str] = []
    for path, text in written:
        said = path.read_text(encoding="utf-8") if path.exists() else ""
        rows += difflib.unified_diff(
            said.splitlines(), text.splitlines(), str(path.name), "the migrations", lineterm="", n=1
        )
    return rows


def main() -> int:
    """Write the pages, or with ``--check`` compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    with ExitStack() as afterwards:
        fleet = afterwards.enter_context(Fleet())
        folder = afterwards.enter_context(TemporaryDirectory())
        written = list(pages(fleet.urls, folder))
    rows = differences(written)
    if check:
        print("\n".join(rows) or "The pages say what the migrations make.")
        return int(bool(rows))
    PAGES.mkdir(parents=True, exist_ok=True)
    for path, text in written:
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
