"""The statements of the stores by hand on the raw drivers: documented tables and indexes, one durable commit each.

There are no tokens, no keys for lost replies, no sequences without gaps: the least that could be called the same.
SQLite has no driver that waits without blocking: a program with an event loop gives it a thread, and so it is here. How
long the same takes on the loop's own thread, while everything else there stands still, is measured too.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import asyncmy
import asyncpg

from holdfast.db.url import DatabaseURL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_TABLES = """
CREATE TABLE raw_events (stream_key {word} NOT NULL, sequence BIGINT NOT NULL, event_type TEXT NOT NULL,
    data TEXT NOT NULL, timestamp {word} NOT NULL, UNIQUE (stream_key, sequence));
CREATE INDEX raw_events_stream ON raw_events (stream_key);
CREATE INDEX raw_events_time ON raw_events (timestamp);
CREATE TABLE raw_checkpoints (id {word} PRIMARY KEY, data {bytes} NOT NULL, accessed_at TEXT NOT NULL);
CREATE TABLE raw_keys (id {word} PRIMARY KEY, fingerprint TEXT NOT NULL, response TEXT NOT NULL,
    status INTEGER NOT NULL,
    created_at {word} NOT NULL, expires_at {word} NOT NULL);
CREATE INDEX raw_keys_expires ON raw_keys (expires_at);
CREATE TABLE raw_executions (id {word} PRIMARY KEY, workflow_id {word}, status {word} NOT NULL, parameters TEXT,
    result TEXT,
    started_at {word}, completed_at TEXT);
CREATE INDEX raw_executions_status ON raw_executions (status);
CREATE INDEX raw_executions_workflow ON raw_executions (workflow_id);
CREATE INDEX raw_executions_started ON raw_executions (started_at);
CREATE TABLE raw_tasks (id {word} PRIMARY KEY, queue_name TEXT NOT NULL, payload TEXT NOT NULL, status {word} NOT NULL,
    created_at {word} NOT NULL, updated_at {word} NOT NULL, attempts INTEGER NOT NULL);
CREATE INDEX raw_tasks_created ON raw_tasks (status, created_at);
CREATE INDEX raw_tasks_updated ON raw_tasks (status, updated_at);
CREATE TABLE raw_letters (id {word} PRIMARY KEY, workflow_id {word} NOT NULL, error TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at {word} NOT NULL, next_retry_at {word}, status {word} NOT NULL);
CREATE INDEX raw_letters_status ON raw_letters (status);
CREATE INDEX raw_letters_next ON raw_letters (next_retry_at);
CREATE INDEX raw_letters_created ON raw_letters (created_at);
CREATE TABLE raw_locks (id {word} PRIMARY KEY, owner TEXT, token BIGINT NOT NULL, expires_at TEXT NOT NULL)
"""
_NOW = "2030-01-01T00:00:00.000000+00:00"
_EVENT = '{"type":"step","data":"' + "x" * 200 + '"}'
_WORDS = {"sqlite": ("BLOB", "TEXT"), "postgres": ("BYTEA", "TEXT"), "mariadb": ("LONGBLOB", "VARCHAR(255)")}


def _moment(number: int) -> str:
    """Return another moment for each call: SQLite writes nothing where nothing changes."""
    return f"2030-01-01T00:00:{number // 10**6:02d}.{number % 10**6:06d}+00:00"


def definitions(dialect: str) -> str:
    blob, word = _WORDS[dialect]
    return _TABLES.replace("{bytes}", blob).replace("{word}", word)


Statement = tuple[str, tuple[Any, ...]]


def statements(blob: bytes, dialect: str) -> dict[str, Callable[[int], list[Statement]]]:
    """Return, by measurement, the statements of a call with a number; each is a commit of its own."""
    return {**_WRITTEN, **(_mariadb(blob) if dialect == "mariadb" else _common(blob, dialect))}


# What is the same on every database.
_WRITTEN: dict[str, Callable[[int], list[Statement]]] = {
    "event append": lambda n: [("INSERT INTO raw_events VALUES (?, ?, 'step', ?, ?)", (f"s{n % 10}", n, _EVENT, _NOW))],
    "execution: start and end": lambda n: [
        ("INSERT INTO raw_executions VALUES (?, 'w', 'pending', ?, NULL, ?, NULL)", (f"r{n}", '{"a":1}', _NOW)),
        (
            "UPDATE raw_executions SET status = 'completed', result = ?, completed_at = ? WHERE id = ?",
            ('{"ok":1}', _NOW, f"r{n}"),
        ),
    ],
    "key: claim and result": lambda n: [
        ("INSERT INTO raw_keys VALUES (?, 'f', '', 0, ?, ?)", (f"k{n}", _NOW, _NOW)),
        (
            "UPDATE raw_keys SET response = ?, status = 200, expires_at = ? WHERE id = ?",
            ('{"ok":1}', _NOW, f"k{n}"),
        ),
    ],
    "task: enqueue": lambda n: [
        ("INSERT INTO raw_tasks VALUES (?, 'default', ?, 'pending', ?, ?, 0)", (f"t{n}", '{"n":1}', _NOW, _NOW))
    ],
    "dead letter: enqueue": lambda n: [
        ("INSERT INTO raw_letters VALUES (?, 'w', 'boom', ?, ?, ?, 'pending')", (f"d{n}", '{"n":1}', _NOW, _NOW))
    ],
}


def _common(blob: bytes, dialect: str) -> dict[str, Callable[[int], list[Statement]]]:
    taking = (
        "UPDATE raw_tasks SET status = '{is_now}', updated_at = ?, attempts = attempts + 1 WHERE id = (SELECT id FROM "
        "raw_tasks WHERE status = '{was}' AND queue_name = 'default' ORDER BY created_at LIMIT 1{lock}) "
        "RETURNING id, payload"
    ).replace("{lock}", " FOR UPDATE SKIP LOCKED" if dialect == "postgres" else "")
    saving = (
        "INSERT INTO raw_checkpoints VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET data = excluded.data, accessed_at = excluded.accessed_at"
    )
    locking = (
        "INSERT INTO raw_locks VALUES (?, 'me', 1, ?) ON CONFLICT (id) DO UPDATE SET owner = 'me', "
        "token = raw_locks.token + 1 WHERE raw_locks.owner IS NULL RETURNING token"
    )
    return {
        "checkpoint save, 1 KB": lambda n: [(saving, (f"c{n % 50}", blob, _moment(n)))],
        "checkpoint load, 1 KB": lambda n: [
            ("UPDATE raw_checkpoints SET accessed_at = ? WHERE id = ? RETURNING data", (_moment(n), f"c{n % 50}"))
        ],
        "task: dequeue and complete": lambda n: [
            (taking.format(was="pending", is_now="processing"), (_moment(n),)),
            (taking.format(was="processing", is_now="completed"), (_moment(n),)),
        ],
        "lock: acquire and release": lambda n: [
            (locking, (f"l{n % 50}", _NOW)),
            ("UPDATE raw_locks SET owner = NULL WHERE id = ? AND owner = 'me'", (f"l{n % 50}",)),
        ],
    }


def _mariadb(blob: bytes) -> dict[str, Callable[[int], list[Statement]]]:
    """MariaDB: an UPDATE returns nothing, so what is taken is picked in a transaction."""
    saving = (
        "INSERT INTO raw_checkpoints VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE "
        "data = VALUES(data), accessed_at = VALUES(accessed_at)"
    )
    locking = (
        "INSERT INTO raw_locks VALUES (?, 'me', 1, ?) ON DUPLICATE KEY UPDATE token = token + (owner IS NULL), "
        "owner = 'me'"
    )
    picking = (
        "SELECT @id := id, payload FROM raw_tasks WHERE status = '{was}' AND queue_name = 'default' "
        "ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
    taking = "UPDATE raw_tasks SET status = '{is_now}', updated_at = ?, attempts = attempts + 1 WHERE id = @id"

    def worked(n: int) -> list[Statement]:
        return [
            ("BEGIN", ()),
            (picking.format(was="pending"), ()),
            (taking.format(is_now="processing"), (_moment(n),)),
            ("COMMIT", ()),
            (taking.format(is_now="completed"), (_moment(n),)),
        ]

    return {
        "checkpoint save, 1 KB": lambda n: [(saving, (f"c{n % 50}", blob, _moment(n)))],
        "checkpoint load, 1 KB": lambda n: [
            ("UPDATE raw_checkpoints SET accessed_at = ? WHERE id = ?", (_moment(n), f"c{n % 50}")),
            ("SELECT data FROM raw_checkpoints WHERE id = ?", (f"c{n % 50}",)),
        ],
        "task: dequeue and complete": worked,
        "lock: acquire and release": lambda n: [
            (locking, (f"l{n % 50}", _NOW)),
            ("SELECT token FROM raw_locks WHERE id = ?", (f"l{n % 50}",)),
            ("UPDATE raw_locks SET owner = NULL WHERE id = ? AND owner = 'me'", (f"l{n % 50}",)),
        ],
    }


class RawStores:
    """The raw driver of a database: ``call`` runs the statements of a measurement."""

    def __init__(self, url: str, blob: bytes, *, blocking: bool = False) -> None:
        self._url = url
        self._blocking = blocking
        self._dialect = "mariadb" if url.startswith("mysql") else url.split(":", maxsplit=1)[0].removesuffix("ql")
        self.calls = statements(blob, self._dialect)
        self._run: Callable[[str, tuple[Any, ...]], Awaitable[Any]]

    async def open(self) -> None:
        """Connect, and make the tables unless somebody has."""
        created = definitions(self._dialect).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
        created = created.replace("CREATE INDEX", "CREATE INDEX IF NOT EXISTS")
        open_it = {"sqlite": self._sqlite, "postgres": self._postgres, "mariadb": self._mariadb}[self._dialect]
        self._run = await open_it(created)

    async def call(self, name: str, number: int) -> None:
        """Carry out one call of the measurement *name*."""
        for sql, values in self.calls[name](number):
            await self._run(sql, values)

    async def _sqlite(self, tables: str) -> Callable[[str, tuple[Any, ...]], Awaitable[Any]]:
        own = sqlite3.connect(self._url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("PRAGMA synchronous = FULL")
        own.executescript(tables)

        def run(sql: str, values: tuple[Any, ...]) -> Any:
            return own.execute(sql, values).fetchall()

        async def here(sql: str, values: tuple[Any, ...]) -> Any:
            return run(sql, values)

        async def there(sql: str, values: tuple[Any, ...]) -> Any:
            return await loop.run_in_executor(thread, run, sql, values)

        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
        return here if self._blocking else there

    async def _postgres(self, tables: str) -> Callable[[str, tuple[Any, ...]], Awaitable[Any]]:
        connection: Any = await asyncpg.connect(self._url)
        await connection.execute(tables)

        async def run(sql: str, values: tuple[Any, ...]) -> Any:
            numbers = iter(range(1, len(values) + 1))
            return await connection.fetch(re.sub(r"\?", lambda _: f"${next(numbers)}", sql), *values)

        return run

    async def _mariadb(self, tables: str) -> Callable[[str, tuple[Any, ...]], Awaitable[Any]]:
        url = DatabaseURL.parse(self._url)
        login = {"user": url.user, "password": url.password or "", "database": url.database}
        connection: Any = await asyncmy.connect(host=url.host, port=url.port, autocommit=True, **login)

        async def run(sql: str, values: tuple[Any, ...]) -> Any:
            async with connection.cursor() as cursor:
                await cursor.execute(sql.replace("?", "%s"), values)
                return await cursor.fetchall()

        for table in tables.split(";"):
            await run(table, ())
        return run


__all__ = ["RawStores", "definitions", "statements"]
