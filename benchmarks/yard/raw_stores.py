"""The statements of the stores by hand on the raw drivers: documented tables and indexes, one durable commit each.

There are no tokens, no keys for lost replies, no sequences without gaps: the least that could be called the same.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_TABLES = """
CREATE TABLE raw_events (stream_key TEXT NOT NULL, sequence BIGINT NOT NULL, event_type TEXT NOT NULL,
    data TEXT NOT NULL, timestamp TEXT NOT NULL, UNIQUE (stream_key, sequence));
CREATE INDEX raw_events_stream ON raw_events (stream_key);
CREATE INDEX raw_events_time ON raw_events (timestamp);
CREATE TABLE raw_checkpoints (id TEXT PRIMARY KEY, data {bytes} NOT NULL, accessed_at TEXT NOT NULL);
CREATE TABLE raw_keys (id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, response TEXT NOT NULL, status INTEGER NOT NULL,
    created_at TEXT NOT NULL, expires_at TEXT NOT NULL);
CREATE INDEX raw_keys_expires ON raw_keys (expires_at);
CREATE TABLE raw_executions (id TEXT PRIMARY KEY, workflow_id TEXT, status TEXT NOT NULL, parameters TEXT, result TEXT,
    started_at TEXT, completed_at TEXT);
CREATE INDEX raw_executions_status ON raw_executions (status);
CREATE INDEX raw_executions_workflow ON raw_executions (workflow_id);
CREATE INDEX raw_executions_started ON raw_executions (started_at);
CREATE TABLE raw_tasks (id TEXT PRIMARY KEY, queue_name TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, attempts INTEGER NOT NULL);
CREATE INDEX raw_tasks_created ON raw_tasks (status, created_at);
CREATE INDEX raw_tasks_updated ON raw_tasks (status, updated_at);
CREATE TABLE raw_letters (id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, error TEXT NOT NULL, payload TEXT NOT NULL,
    created_at TEXT NOT NULL, next_retry_at TEXT, status TEXT NOT NULL);
CREATE INDEX raw_letters_status ON raw_letters (status);
CREATE INDEX raw_letters_next ON raw_letters (next_retry_at);
CREATE INDEX raw_letters_created ON raw_letters (created_at);
CREATE TABLE raw_locks (id TEXT PRIMARY KEY, owner TEXT, token BIGINT NOT NULL, expires_at TEXT NOT NULL);
CREATE TABLE raw_anchor (id BIGINT PRIMARY KEY, note TEXT NOT NULL)
"""
_NOW = "2030-01-01T00:00:00.000000+00:00"
_EVENT = '{"type":"step","data":"' + "x" * 200 + '"}'


def _moment(number: int) -> str:
    """Return another moment for each call: SQLite writes nothing where nothing changes."""
    return f"2030-01-01T00:00:{number // 10**6:02d}.{number % 10**6:06d}+00:00"


# One small commit. What is measured at different moments is compared by it: the machine is not always equally quick.
ANCHOR = "anchor"
Statement = tuple[str, tuple[Any, ...]]


def statements(blob: bytes, *, skip_locked: str) -> dict[str, Callable[[int], list[Statement]]]:
    """Return, by measurement, the statements of a call with a number; each is a commit of its own."""
    taking = (
        "UPDATE raw_tasks SET status = '{is_now}', updated_at = ?, attempts = attempts + 1 WHERE id = (SELECT id FROM "
        "raw_tasks WHERE status = '{was}' AND queue_name = 'default' ORDER BY created_at LIMIT 1" + skip_locked + ") "
        "RETURNING id, payload"
    )
    saving = (
        "INSERT INTO raw_checkpoints VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET data = excluded.data, accessed_at = excluded.accessed_at"
    )
    locking = (
        "INSERT INTO raw_locks VALUES (?, 'me', 1, ?) ON CONFLICT (id) DO UPDATE SET owner = 'me', "
        "token = raw_locks.token + 1 WHERE raw_locks.owner IS NULL RETURNING token"
    )
    return {
        ANCHOR: lambda n: [("INSERT INTO raw_anchor VALUES (?, 'x')", (n,))],
        "event append": lambda n: [
            ("INSERT INTO raw_events VALUES (?, ?, 'step', ?, ?)", (f"s{n % 10}", n, _EVENT, _NOW))
        ],
        "checkpoint save, 1 KB": lambda n: [(saving, (f"c{n % 50}", blob, _moment(n)))],
        "checkpoint load, 1 KB": lambda n: [
            ("UPDATE raw_checkpoints SET accessed_at = ? WHERE id = ? RETURNING data", (_moment(n), f"c{n % 50}"))
        ],
        "key: claim and result": lambda n: [
            ("INSERT INTO raw_keys VALUES (?, 'f', '', 0, ?, ?) ON CONFLICT DO NOTHING", (f"k{n}", _NOW, _NOW)),
            (
                "UPDATE raw_keys SET response = ?, status = 200, expires_at = ? WHERE id = ?",
                ('{"ok":1}', _NOW, f"k{n}"),
            ),
        ],
        "execution: start and end": lambda n: [
            ("INSERT INTO raw_executions VALUES (?, 'w', 'pending', ?, NULL, ?, NULL)", (f"r{n}", '{"a":1}', _NOW)),
            (
                "UPDATE raw_executions SET status = 'completed', result = ?, completed_at = ? WHERE id = ?",
                ('{"ok":1}', _NOW, f"r{n}"),
            ),
        ],
        "task: enqueue": lambda n: [
            ("INSERT INTO raw_tasks VALUES (?, 'default', ?, 'pending', ?, ?, 0)", (f"t{n}", '{"n":1}', _NOW, _NOW))
        ],
        "task: dequeue and complete": lambda n: [
            (taking.format(was="pending", is_now="processing"), (_moment(n),)),
            (taking.format(was="processing", is_now="completed"), (_moment(n),)),
        ],
        "dead letter: enqueue": lambda n: [
            ("INSERT INTO raw_letters VALUES (?, 'w', 'boom', ?, ?, ?, 'pending')", (f"d{n}", '{"n":1}', _NOW, _NOW))
        ],
        "lock: acquire and release": lambda n: [
            (locking, (f"l{n % 50}", _NOW)),
            ("UPDATE raw_locks SET owner = NULL WHERE id = ? AND owner = 'me'", (f"l{n % 50}",)),
        ],
    }


class RawStores:
    """The raw driver of a database: ``call`` runs the statements of a measurement."""

    def __init__(self, url: str, blob: bytes) -> None:
        self._url = url
        self._is_sqlite = url.startswith("sqlite")
        self.calls = statements(blob, skip_locked="" if self._is_sqlite else " FOR UPDATE SKIP LOCKED")
        self._run: Callable[[str, tuple[Any, ...]], Awaitable[Any]]

    async def open(self) -> None:
        """Connect, and make the tables."""
        tables = _TABLES.replace("{bytes}", "BLOB" if self._is_sqlite else "BYTEA")
        if self._is_sqlite:
            own = sqlite3.connect(self._url.removeprefix("sqlite:///"), isolation_level=None)
            own.execute("PRAGMA journal_mode = WAL")
            own.execute("PRAGMA synchronous = FULL")
            own.executescript(tables)

            async def run(sql: str, values: tuple[Any, ...]) -> Any:
                return own.execute(sql, values).fetchall()

            self._run = run
            return
        connection: Any = await asyncpg.connect(self._url)
        await connection.execute(tables)

        async def fetch(sql: str, values: tuple[Any, ...]) -> Any:
            numbers = iter(range(1, len(values) + 1))
            return await connection.fetch(re.sub(r"\?", lambda _: f"${next(numbers)}", sql), *values)

        self._run = fetch

    async def call(self, name: str, number: int) -> None:
        """Carry out one call of the measurement *name*."""
        for sql, values in self.calls[name](number):
            await self._run(sql, values)


__all__ = ["ANCHOR", "RawStores"]
