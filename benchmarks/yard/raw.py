"""Group commit by hand on the raw drivers: the least code that writes many callers' rows in one durable commit.

Each writer keeps the rows that come while a commit is in flight and writes them together in the next, as the
pipeline does. The table and the insert are those of the ledger that the pipeline writes: an entry that is there is
left as it is. There are no keys to ask for, no splits, no limits and no retries.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any, Protocol

import asyncmy
import asyncpg

from holdfast.db import DatabaseURL, DialectName

Entry = tuple[str, str, int]

_INSERT = "INSERT INTO raw_ledger VALUES (?, ?, ?) ON CONFLICT (entry_key) DO NOTHING"


class RawWriter(Protocol):
    """A group commit on one connection."""

    async def open(self) -> None:
        """Connect and make an empty table."""

    async def single(self, entry: Entry) -> None:
        """Write one entry and commit."""

    def put(self, entry: Entry) -> asyncio.Future[None]:
        """Have an entry written with the next commit."""

    async def close(self) -> None:
        """Stop."""


class _LoopWriter:
    """A task that writes what has gathered."""

    def __init__(self, url: DatabaseURL) -> None:
        self._url = url
        self._box: list[tuple[Entry, asyncio.Future[None]]] = []
        self._work = asyncio.Event()

    async def open(self) -> None:
        await self._connect()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def put(self, entry: Entry) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._box.append((entry, future))
        self._work.set()
        return future

    async def single(self, entry: Entry) -> None:
        await self._write([entry])

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._box:
                got, self._box = self._box, []
                await self._write([entry for entry, _ in got])
                for _, future in got:
                    future.set_result(None)

    async def _connect(self) -> None:
        raise NotImplementedError

    async def _write(self, entries: list[Entry]) -> None:
        raise NotImplementedError


class RawPostgres(_LoopWriter):
    """asyncpg, one array statement a batch."""

    async def _connect(self) -> None:
        self._connection: Any = await asyncpg.connect(self._url.secret_text())
        await self._connection.execute("DROP TABLE IF EXISTS raw_ledger")
        await self._connection.execute(
            "CREATE TABLE raw_ledger "
            "(entry_key TEXT PRIMARY KEY, note TEXT NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0))"
        )

    async def _write(self, entries: list[Entry]) -> None:
        await self._connection.execute(
            "INSERT INTO raw_ledger SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) "
            "ON CONFLICT (entry_key) DO NOTHING",
            *map(list, zip(*entries, strict=True)),
        )


class RawMariaDB(_LoopWriter):
    """asyncmy, one statement of many rows a batch."""

    async def _connect(self) -> None:
        url = self._url
        self._connection: Any = await asyncmy.connect(
            host=url.host, port=url.port, user=url.user, password=url.password, database=url.database, autocommit=True
        )
        cursor = self._connection.cursor()
        await cursor.execute("DROP TABLE IF EXISTS raw_ledger")
        await cursor.execute(
            "CREATE TABLE raw_ledger "
            "(entry_key VARCHAR(255) PRIMARY KEY, note LONGTEXT NOT NULL, amount BIGINT NOT NULL)"
        )

    async def _write(self, entries: list[Entry]) -> None:
        cursor = self._connection.cursor()
        values = ", ".join(["(%s, %s, %s)"] * len(entries))
        await cursor.execute(f"INSERT INTO raw_ledger VALUES {values}", [value for entry in entries for value in entry])


class RawSqlite:
    """sqlite3 in WAL mode with full durability, on a thread that takes what has gathered."""

    def __init__(self, url: DatabaseURL) -> None:
        self._path = str(url.path)
        self._box: list[tuple[Entry, asyncio.Future[None]]] = []
        self._wake = threading.Condition()
        self._stopped = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._own = self._connect()
        self._own.execute("DROP TABLE IF EXISTS raw_ledger")
        self._own.execute(
            "CREATE TABLE raw_ledger "
            "(entry_key TEXT PRIMARY KEY, note TEXT NOT NULL, amount BIGINT NOT NULL CHECK (amount >= 0))"
        )
        self._thread.start()

    async def close(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)
        self._own.close()

    async def single(self, entry: Entry) -> None:
        self._own.execute(_INSERT, entry)

    def put(self, entry: Entry) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        with self._wake:
            self._box.append((entry, future))
            self._wake.notify()
        return future

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _run(self) -> None:
        connection = self._connect()
        while True:
            with self._wake:
                while not self._box and not self._stopped:
                    self._wake.wait()
                if not self._box:
                    connection.close()
                    return
                got, self._box = self._box, []
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, [entry for entry, _ in got])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [future for _, future in got])


def _tell(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


def raw_writer(url: str) -> RawWriter:
    """Choose by the URL."""
    parsed = DatabaseURL.parse(url)
    if parsed.dialect is DialectName.SQLITE:
        return RawSqlite(parsed)
    return RawPostgres(parsed) if parsed.dialect is DialectName.POSTGRES else RawMariaDB(parsed)
