"""The statements of the stores by hand for many tasks at once, where what waits during a commit is the next one.

A call is a future, a batch one statement a kind (PostgreSQL) or a list for ``executemany`` (SQLite), and nothing is
checked: what a driver and the loop come to together, and so the most that stores could.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from yard.raw_stores import definitions, statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from yard.raw_stores import Statement

_Waiting = dict[str, list[tuple[tuple[Any, ...], "asyncio.Future[None]"]]]


class RawTogether(Protocol):
    """The bare driver, with one commit for whatever waits."""

    calls: dict[str, Callable[[int], list[Statement]]]

    async def open(self) -> None:
        """Connect, and make the tables."""

    async def call(self, name: str, number: int) -> None:
        """Carry out one call of the measurement *name*."""

    async def close(self) -> None:
        """Stop."""


def raw_together(url: str, blob: bytes) -> RawTogether | None:
    """Choose by the URL; there is none for MariaDB."""
    if url.startswith("sqlite"):
        return _Sqlite(url, blob)
    return _Postgres(url, blob) if url.startswith("postgres") else None


class _Sqlite:
    """A thread that writes. The file is *url*'s with another ending, so that nobody's pages are read again for this."""

    def __init__(self, url: str, blob: bytes) -> None:
        self._path = f"{url.removeprefix('sqlite:///')}-together"
        self.calls = statements(blob, "sqlite")
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._waiting: _Waiting = {}
        self._lock = threading.Lock()

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, daemon=True).start()

    async def call(self, name: str, number: int) -> None:
        for sql, values in self.calls[name](number):
            written = self._loop.create_future()
            with self._lock:
                is_first = not self._waiting
                self._waiting.setdefault(sql, []).append((values, written))
            if is_first:
                self._loop.call_soon(self._wanted.put, True)  # when all tasks of this round have said what they want
            await written

    async def close(self) -> None:
        self._wanted.put(False)

    def _work(self) -> None:
        own = sqlite3.connect(self._path, isolation_level=None)
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("PRAGMA synchronous = FULL")
        own.executescript(definitions("sqlite"))
        while self._wanted.get():
            with self._lock:
                batch, self._waiting = self._waiting, {}
            own.execute("BEGIN IMMEDIATE")
            for sql, rows in batch.items():
                if "RETURNING" in sql:
                    for values, _ in rows:
                        own.execute(sql, values).fetchall()
                else:
                    own.executemany(sql, [values for values, _ in rows])
            own.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, batch)
        own.close()


class _Postgres:
    """A task with a connection. Calls whose statements cannot be made of arrays are left out."""

    def __init__(self, url: str, blob: bytes) -> None:
        self._url = url
        made = statements(blob, "postgres")
        self.calls = {name: made[name] for name in made if all(_fits(sql) for sql, _ in made[name](0))}
        self._texts: dict[str, str] = {}
        self._waiting: _Waiting = {}
        self._work = asyncio.Event()

    async def open(self) -> None:
        self._connection: Any = await asyncpg.connect(self._url)
        await self._connection.execute(definitions("postgres").replace("raw_", "together_"))
        self._task = asyncio.create_task(self._run())

    async def call(self, name: str, number: int) -> None:
        for sql, values in self.calls[name](number):
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(sql, []).append((values, written))
            self._work.set()
            await written

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiting:
                batch, self._waiting = self._waiting, {}
                for sql, rows in batch.items():  # each commits by itself
                    columns = list(zip(*(values for values, _ in rows), strict=True))
                    if sql not in self._texts:
                        self._texts[sql] = _of_arrays(sql, rows[0][0])
                    await self._connection.execute(self._texts[sql], *columns)
                    _tell({sql: rows})


def _fits(sql: str) -> bool:
    return not any(word in sql for word in ("RETURNING", "ON CONFLICT"))


def _of_arrays(sql: str, values: tuple[Any, ...]) -> str:
    """Return *sql* for many rows of such values: what was a value is a column of a table of arrays."""
    numbers = iter(range(1, len(values) + 1))
    text = re.sub(r"\?", lambda _: f"r.c{next(numbers)}", sql).replace("raw_", "together_")
    kinds = ["text" if isinstance(value, str) else "bigint" for value in values]
    arrays = [f"${number}::{kind}[]" for number, kind in enumerate(kinds, 1)]
    names = ", ".join(f"c{number}" for number in range(1, len(values) + 1))
    rows = f" FROM unnest({', '.join(arrays)}) AS r({names})"
    if text.startswith("INSERT"):
        return re.sub(r"VALUES \((.*)\)$", r"SELECT \1", text) + rows
    return text.replace(" WHERE ", f"{rows} WHERE ")


def _tell(batch: _Waiting) -> None:
    for rows in batch.values():
        for _, written in rows:
            written.set_result(None)


__all__ = ["RawTogether", "raw_together"]
