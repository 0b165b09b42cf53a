"""Prove that every named query means the same on the three databases, and that each of them understands it.

A fresh database of each kind is migrated; then its server prepares (SQLite: explains) every statement of
every named query. Before that the dialects are compared: the same names, parameters and rows. And no SQL may
stand in Python files, save the modules that are listed here. Servers are started for the purpose, or those
named by ``HOLDFAST_TEST_POSTGRES_URL`` and ``HOLDFAST_TEST_MARIADB_URL`` are used.

Exit code 1 and one line a problem.
"""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from holdfast.cli.doctor import doctor_queries
from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.migrations.migrator import SCHEMA, Migrator, schema_fragments
from holdfast.db.mysql.mysql import connect as connect_mysql
from holdfast.db.queries.identifiers import quote
from holdfast.db.queries.queries import Queries, Query, compare
from holdfast.db.settings import Settings
from holdfast.errors import DatabaseError
from holdfast.stores.breakers.queries import breakers_queries
from holdfast.stores.checkpoints.queries import checkpoint_queries
from holdfast.stores.dead_letters.queries import dead_letter_queries
from holdfast.stores.events.queries import event_queries
from holdfast.stores.executions.queries import execution_queries
from holdfast.stores.flow.queries import flow_queries
from holdfast.stores.flow.sql_shelf import SQLShelf
from holdfast.stores.idempotency.queries import idempotency_queries
from holdfast.stores.locks.queries import lock_queries
from holdfast.stores.tasks.queries import tasks_queries
from holdfast.stores.threads.queries import thread_queries
from holdfast.testing.servers import Fleet, databases_of
from holdfast.workflows.queries import (
    control_queries,
    dispatch_state_queries,
    looking_queries,
    messaging_queries,
    parking_queries,
    queue_queries,
    retention_queries,
    schedule_queries,
    stream_queries,
    workflow_queries,
)
from holdfast.workflows.transactions.elsewhere import prepared
from holdfast.workflows.transactions.queries import transaction_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PACKAGE = Path(__file__).parents[1] / "src" / "holdfast"

# What a driver says to its server about the session, and how a batch is spelled for it.
MAY_HOLD_SQL = frozenset({"db/mysql/mysql.py", "db/queries/text.py", "db/sqlite/checkpoint.py", "db/sqlite/sqlite.py"})
# Nothing in production imports it. Its server classes speak to servers, its queries to tables of their own.
_TESTING = "testing/"

_SQL = re.compile(
    r"""
    \b(?: SELECT\s+[\w*"'`(] | INSERT\s+INTO\s | UPDATE\s+["`@\w]+\s+SET\s | DELETE\s+FROM\s
        | (?:CREATE|ALTER|DROP)\s+(?:UNIQUE\s+)?(?:TABLE|INDEX|SCHEMA|DATABASE|FUNCTION|VIEW)\b
        | PRAGMA\s+\w | SET\s+(?:SESSION|LOCAL|TRANSACTION)\s | START\s+TRANSACTION\b )
    """,
    re.VERBOSE,
)


# MariaDB/MySQL: what is compared with a column is compared in the collation of that column. What is compared with its
# like alone has that of the connection, or in a JSON_TABLE that of the database, where "a", "A" and "a " may be one.
_JSON_TEXT = re.compile(r"\w+ (?:VAR)?CHAR\(\d+\) (?!CHARACTER SET utf8mb4 /\*M! COLLATE)[^,)]*")
_DERIVED = re.compile(r"\) AS `?(\w+)`?")
_GATHERED = re.compile(r"\b(?:GROUP BY|PARTITION BY|DISTINCT)\b(.*?)(?:\bORDER BY\b|\bHAVING\b|\bFROM\b|\)|$)")
_AS_BYTES = re.compile(r"CAST\(\w+\.\w+ AS BINARY\)")
_NUMBER_OF_ROW = "n"
_ROWS = f"SELECT 0 AS `{_NUMBER_OF_ROW}`"  # how a batch begins


def _database_queries(dialect: DialectName, schema: str) -> Queries:
    names = schema_fragments(dialect, schema) | {"database": quote("holdfast", dialect, "database")}
    return Queries.load(dialect, schema, fragments=names)


# How each folder of queries is loaded.
LOADERS: dict[str, Callable[[DialectName, str], Queries]] = {
    "cli/sql": doctor_queries,
    "db/queries/sql": _database_queries,
    "stores/breakers/sql": breakers_queries,
    "stores/checkpoints/sql": checkpoint_queries,
    "stores/dead_letters/sql": dead_letter_queries,
    "stores/events/sql": event_queries,
    "stores/executions/sql": execution_queries,
    "stores/flow/sql": lambda dialect, _schema: flow_queries(dialect),
    "stores/idempotency/sql": idempotency_queries,
    "stores/locks/sql": lock_queries,
    "stores/tasks/sql": tasks_queries,
    "stores/threads/sql": thread_queries,
    "workflows/control/sql": control_queries,
    "workflows/looking/sql": looking_queries,
    "workflows/messaging/sql": messaging_queries,
    "workflows/parking/sql": parking_queries,
    "workflows/sql": workflow_queries,
    "workflows/queues/sql": queue_queries,
    "workflows/retention/sql": retention_queries,
    "workflows/schedules/sql": schedule_queries,
    "workflows/dispatch_state/sql": dispatch_state_queries,
    "workflows/streams/sql": stream_queries,
    "workflows/transactions/sql": transaction_queries,
}


def unknown_folders(package: Path) -> Iterator[str]:
    """Yield each folder of queries that nothing here loads."""
    for folder in sorted({file.parent.relative_to(package).as_posix() for file in package.rglob("sql/*.sql")}):
        if folder not in LOADERS and not folder.startswith(_TESTING):
            yield f"{folder} is not checked: say in LOADERS of tools/check_queries.py how it is loaded"


def sql_in_python(package: Path) -> Iterator[str]:
    """Yield each place where a Python file that should not holds a string with SQL in it."""
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package).as_posix()
        if inside in MAY_HOLD_SQL or inside.startswith(_TESTING):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        prose = {id(text) for text in _docstrings(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
                continue
            if found := _SQL.search(node.value):
                yield f"{inside}:{node.lineno} has SQL ({found[0].strip()!r}): move it to a file of queries"


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def variants(query: Query) -> Iterator[Query]:
    """Yield the query as it is with all its optional parts, without any, and with what each of them needs alone."""
    yield query
    if query.optional:
        yield query.variant(())
        yield from (query.variant({name}) for name in sorted(query.optional))


def in_another_collation(query: Query) -> Iterator[str]:
    """Yield each text that MariaDB/MySQL would compare otherwise than it compares keys."""
    for statement in query.statements:
        text = _AS_BYTES.sub("", " ".join(statement.text.split()))
        for found in _JSON_TEXT.findall(text) if "JSON_TABLE" in text else ():
            yield f"mysql: {query.name} has a JSON_TABLE without the collation of the keys: {found}"
        given = {found[1] for found in _DERIVED.finditer(text) if _ROWS in _enclosed(text, found.start())}
        for gathered in _GATHERED.findall(text):
            for alias, column in re.findall(r"(\w+)\.`?(\w+)`?", gathered):
                if alias in given and column != _NUMBER_OF_ROW:
                    yield f"mysql: {query.name} gathers {alias}.{column} as the connection compares it, not the table"


def _enclosed(text: str, end: int) -> str:
    """Return what stands in the brackets that close at *end*."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[at:end]
    return text[:end]


async def refused(url: DatabaseURL, queries: Sequence[Query]) -> list[str]:
    """Return what the empty database at *url*, once it is migrated, does not understand."""
    prepare = {
        DialectName.SQLITE: _explain,
        DialectName.POSTGRES: _prepare,
        DialectName.MYSQL: _prepare_by_name,
    }
    async with ConnectionManager(url.secret_text()) as manager:
        await Migrator(manager).migrate()
        await prepared(manager)  # the table of outputs, which is in no migration: it belongs to other databases
        await SQLShelf(manager, manager.world).initialize()  # nor is this one: its name is the user's
    return await prepare[url.dialect](url, queries)


async def _explain(url: DatabaseURL, queries: Sequence[Query]) -> list[str]:
    rows: list[str] = []
    async with ConnectionManager(url.secret_text()) as manager:
        for query in queries:
            for statement in query.statements:
                try:
                    await manager.backend().fetch(f"EXPLAIN {statement.text}", [None] * len(statement.order))
                except DatabaseError as error:
                    rows.append(f"sqlite does not understand {query.name}: {error}")
    return rows


async def _prepare(url: DatabaseURL, queries: Sequence[Query]) -> list[str]:
    import asyncpg  # noqa: PLC0415 -- an extra that only this function needs

    rows: list[str] = []
    connection = await asyncpg.connect(url.secret_text(), statement_cache_size=0)
    try:
        for query in queries:
            for statement in (*query.statements, *query.alone):
                try:
                    await connection.prepare(statement.text)
                except asyncpg.PostgresError as error:
                    rows.append(f"postgres does not understand {query.name}: {error}")
                    break  # its text for one row would be refused for the same reason
    finally:
        await connection.close()  # with it ends whatever preparing has left open
    return rows


async def _prepare_by_name(url: DatabaseURL, queries: Sequence[Query]) -> list[str]:
    rows: list[str] = []
    session = await connect_mysql(Settings(url=url))
    try:
        for query in queries:
            for statement in query.statements:
                try:
                    plain = re.sub(r"%(s|%)", lambda mark: "?" if mark[1] == "s" else "%", statement.text)
                    await session.execute("PREPARE checked FROM %s", (plain,))
                    await session.execute("DEALLOCATE PREPARE checked", ())
                except DatabaseError as error:
                    rows.append(f"mysql does not understand {query.name}: {error}")
    finally:
        await session.close()
    return rows


def problems(servers: dict[str, str], folder: str) -> Iterator[str]:
    """Yield every problem there is."""
    yield from sql_in_python(PACKAGE)
    yield from unknown_folders(PACKAGE)
    loaded: dict[DialectName, list[Query]] = {dialect: [] for dialect in DialectName}
    for load in LOADERS.values():
        sides = [load(dialect, SCHEMA) for dialect in DialectName]
        yield from compare(*sides)
        for side in sides:
            loaded[side.dialect] += [variant for query in side for variant in variants(query)]
    for query in loaded[DialectName.MYSQL]:
        yield from in_another_collation(query)
    sqlite = DatabaseURL.parse(f"{folder}/queries.sqlite")
    yield from asyncio.run(refused(sqlite, loaded[DialectName.SQLITE]))
    for dialect, kind in {DialectName.POSTGRES: "postgres", DialectName.MYSQL: "mariadb"}.items():
        if kind not in servers:
            yield f"{dialect}: no {kind} server is installed, so its queries were not prepared"
            continue
        databases = databases_of(servers[kind])
        url = databases.create(servers[kind])
        try:
            yield from asyncio.run(refused(DatabaseURL.parse(url), loaded[dialect]))
        finally:
            databases.drop(url)


def main() -> int:
    """Print what is wrong."""
    with Fleet() as fleet, TemporaryDirectory() as folder:
        found = list(problems(fleet.urls, folder))
    print("\n".join(found) or "Every query is understood by every database, and means the same to each.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
