"""The yardstick for workflows: what a bare group commit of starts, steps and outcomes could reach on this machine.

Every start, step result and outcome is durable before the workflow goes on, and all that is ready at once shares one
commit. It is no engine: no ownership, no recovery, no retries, no errors. Its tables have what any engine needs: names
beside the values, when a run was made, and an index by which waiting runs would be found.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import uuid
from typing import Any, Protocol

import asyncpg
import msgspec

from holdfast.db import DatabaseURL, DialectName

START, STEP, FINISH = range(3)
_encode = msgspec.json.encode


class Ideal(Protocol):
    """The bare group commit."""

    async def open(self) -> None:
        """Connect and make empty tables."""

    def put(self, kind: int, row: tuple[Any, ...]) -> asyncio.Future[None]:
        """Have a row written with the next commit."""

    async def close(self) -> None:
        """Stop."""


class IdealPostgres:
    """One statement for all that has gathered."""

    _ALL = """
        WITH started AS (
            INSERT INTO ideal_run (id, name, status, input)
            SELECT s.id, s.name, 'PENDING', s.input
            FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s(id, name, input)
        ), stepped AS (
            INSERT INTO ideal_step SELECT * FROM unnest($4::text[], $5::int[], $6::text[], $7::bytea[])
        )
        UPDATE ideal_run SET status = 'SUCCESS', output = f.output
        FROM unnest($8::text[], $9::bytea[]) AS f(id, output) WHERE ideal_run.id = f.id
    """

    def __init__(self, url: DatabaseURL) -> None:
        self._url = url
        self._box: list[tuple[int, tuple[Any, ...], asyncio.Future[None]]] = []
        self._work = asyncio.Event()

    async def open(self) -> None:
        self._connection: Any = await asyncpg.connect(self._url.secret_text())
        await self._connection.execute(
            "DROP TABLE IF EXISTS ideal_run, ideal_step;"
            "CREATE TABLE ideal_run (id TEXT PRIMARY KEY, name TEXT, status TEXT, input BYTEA, output BYTEA,"
            " created TIMESTAMPTZ DEFAULT now());"
            "CREATE INDEX ideal_waiting ON ideal_run (created) WHERE status = 'ENQUEUED';"
            "CREATE TABLE ideal_step (id TEXT, seq INTEGER, name TEXT, output BYTEA, PRIMARY KEY (id, seq))"
        )
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    def put(self, kind: int, row: tuple[Any, ...]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._box.append((kind, row, future))
        self._work.set()
        return future

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._box:
                got, self._box = self._box, []
                columns = _columns(got, START, 3) + _columns(got, STEP, 4) + _columns(got, FINISH, 2)
                await self._connection.execute(self._ALL, *columns)
                for _, _, future in got:
                    future.set_result(None)


def _columns(got: list[Any], wanted: int, width: int) -> list[list[Any]]:
    rows = [row for kind, row, _ in got if kind == wanted]
    return [[row[place] for row in rows] for place in range(width)]


class IdealSqlite:
    """A writer's thread that takes what has gathered."""

    _TEXTS = (
        "INSERT INTO ideal_run (id, name, status, input) VALUES (?, ?, 'PENDING', ?)",
        "INSERT INTO ideal_step VALUES (?, ?, ?, ?)",
        "UPDATE ideal_run SET status = 'SUCCESS', output = ?2 WHERE id = ?1",
    )
    _TABLES = (
        "CREATE TABLE ideal_run (id TEXT PRIMARY KEY, name TEXT, status TEXT, input BLOB, output BLOB) WITHOUT ROWID",
        "CREATE INDEX ideal_waiting ON ideal_run (status) WHERE status = 'ENQUEUED'",
        "CREATE TABLE ideal_step (id TEXT, seq INTEGER, name TEXT, output BLOB, PRIMARY KEY (id, seq)) WITHOUT ROWID",
    )

    def __init__(self, url: DatabaseURL) -> None:
        self._path = str(url.path)
        self._box: list[tuple[int, tuple[Any, ...], asyncio.Future[None]]] = []
        self._wake = threading.Condition()
        self._stopped = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def close(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def put(self, kind: int, row: tuple[Any, ...]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        with self._wake:
            self._box.append((kind, row, future))
            self._wake.notify()
        return future

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("DROP TABLE IF EXISTS ideal_run")
        connection.execute("DROP TABLE IF EXISTS ideal_step")
        for table in self._TABLES:
            connection.execute(table)
        while True:
            with self._wake:
                while not self._box and not self._stopped:
                    self._wake.wait()
                if not self._box:
                    connection.close()
                    return
                got, self._box = self._box, []
            connection.execute("BEGIN IMMEDIATE")
            for wanted, text in enumerate(self._TEXTS):
                connection.executemany(text, [row for kind, row, _ in got if kind == wanted])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [future for _, _, future in got])


def _tell(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


async def ideal_workflow(ideal: Ideal, steps: int) -> None:
    """One workflow of the yardstick."""
    run = str(uuid.uuid4())
    await ideal.put(START, (run, "count", _encode([steps])))
    for number in range(steps):
        await ideal.put(STEP, (run, number, "add", _encode(number)))
    await ideal.put(FINISH, (run, _encode(steps)))


def ideal_engine(url: str) -> Ideal | None:
    """Choose by the URL; there is none for MariaDB."""
    parsed = DatabaseURL.parse(url)
    if parsed.dialect is DialectName.SQLITE:
        return IdealSqlite(parsed)
    return IdealPostgres(parsed) if parsed.dialect is DialectName.POSTGRES else None
