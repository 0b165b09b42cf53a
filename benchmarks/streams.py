"""A stream of 100,000 entries: what an entry costs to write and to read, at the beginning and at the end of it.

Beside it the same rows by the raw driver, as many a commit, into a table of the same key. Promised: linear, that is,
the last tenth costs what the first does, in time and in this process's work (with SQLite that is all of it), each taken
from the round in which it was least disturbed. Besides: how long a live entry takes to its reader in the same process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from typing import Any

import asyncmy
import asyncpg
from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.table import print_table

from holdfast import AsyncHoldfast
from holdfast.db import DatabaseURL

_PARTS = 10
_A_STEP = 1_000
_LIVE = 200
_WHOLE_STEPS = range(_PARTS * _A_STEP, 1_000_000_001, _PARTS * _A_STEP)  # each part is so many of them
_VALUE = {"part": 17, "done": 0.5, "text": "a line of progress"}
_TEXT = '{"part":17,"done":0.5,"text":"a line of progress"}'


class Stopwatch:
    """Time and processor time since it was last asked."""

    def __init__(self) -> None:
        self._since = time.perf_counter(), time.process_time()

    def lap(self) -> tuple[float, float]:
        """Return both, and begin again."""
        now = time.perf_counter(), time.process_time()
        (time_then, work_then), self._since = self._since, now
        return now[0] - time_then, now[1] - work_then


class Streams:
    """An application that writes a long stream, a part at a time, and one that talks live."""

    def __init__(self, url: str, entries: int) -> None:
        self.app = app = AsyncHoldfast(url)
        self.took: list[tuple[float, float]] = []
        self.said: list[float] = []
        part = entries // _PARTS

        @app.step
        async def write(count: int) -> None:
            for _ in range(count):
                await app.write_stream("long", _VALUE)

        @app.workflow
        async def fill() -> None:
            watch = Stopwatch()
            for _ in range(_PARTS):
                for _ in range(part // _A_STEP):
                    await write(_A_STEP)
                self.took.append(watch.lap())

        @app.step
        async def talk() -> None:
            for _ in range(_LIVE):
                self.said.append(time.perf_counter())
                await app.write_stream("live", 1, live=True)
                await asyncio.sleep(0.003)

        @app.workflow
        async def chat() -> None:
            await talk()

        self.fill, self.chat = fill, chat


async def _read(app: AsyncHoldfast, run: str, entries: int) -> list[tuple[float, float]]:
    """Return how long each tenth took to read, and how much work."""
    took: list[tuple[float, float]] = []
    watch = Stopwatch()
    number = 0
    async for _ in app.read_stream(run, "long"):
        number += 1
        if number % (entries // _PARTS) == 0:
            took.append(watch.lap())
    return took


async def _latency(streams: Streams) -> float:
    """Return the median of the milliseconds from a live write to its reader."""
    handle = await streams.chat.start()
    late: list[float] = []
    async for _ in streams.app.read_stream(handle.workflow_id, "live"):
        late.append(time.perf_counter() - streams.said[len(late)])
    return statistics.median(late) * 1000


def _raw_sqlite(path: str, entries: int) -> tuple[float, float]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE raw_stream (run TEXT, name TEXT, at INTEGER, value TEXT, PRIMARY KEY (run, name, at))"
    )
    begun = time.perf_counter()
    for first in range(0, entries, _A_STEP):
        connection.execute("BEGIN IMMEDIATE")
        rows = [("run", "long", first + n, _TEXT) for n in range(_A_STEP)]
        connection.executemany("INSERT INTO raw_stream VALUES (?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    written = time.perf_counter() - begun
    begun = time.perf_counter()
    found = connection.execute(
        "SELECT at, value FROM raw_stream WHERE run = 'run' AND name = 'long' ORDER BY at"
    ).fetchall()
    read = time.perf_counter() - begun
    connection.close()
    assert len(found) == entries
    return written, read


async def _raw_postgres(url: str, entries: int) -> tuple[float, float]:
    connection = await asyncpg.connect(url)
    await connection.execute("DROP TABLE IF EXISTS raw_stream")
    await connection.execute(
        "CREATE TABLE raw_stream (run TEXT, name TEXT, at INT, value TEXT, PRIMARY KEY (run, name, at))"
    )
    begun = time.perf_counter()
    for first in range(0, entries, _A_STEP):
        rows = [("run", "long", first + n, _TEXT) for n in range(_A_STEP)]
        await connection.executemany("INSERT INTO raw_stream VALUES ($1, $2, $3, $4)", rows)
    written = time.perf_counter() - begun
    begun = time.perf_counter()
    found = await connection.fetch("SELECT at, value FROM raw_stream WHERE run = 'run' AND name = 'long' ORDER BY at")
    read = time.perf_counter() - begun
    await connection.close()
    assert len(found) == entries
    return written, read


async def _raw_mariadb(url: DatabaseURL, entries: int) -> tuple[float, float]:
    connection = await asyncmy.connect(
        host=url.host or "", port=url.port or 3306, user=url.user, password=url.password or "", db=url.database
    )
    async with connection.cursor() as cursor:
        await cursor.execute(
            "CREATE OR REPLACE TABLE raw_stream (run VARCHAR(255), name VARCHAR(255), at INT, value LONGTEXT, "
            "PRIMARY KEY (run, name, at))"
        )
        begun = time.perf_counter()
        for first in range(0, entries, _A_STEP):
            rows = [("run", "long", first + n, _TEXT) for n in range(_A_STEP)]
            await cursor.executemany("INSERT INTO raw_stream VALUES (%s, %s, %s, %s)", rows)
            await connection.commit()
        written = time.perf_counter() - begun
        begun = time.perf_counter()
        await cursor.execute("SELECT at, value FROM raw_stream WHERE run = 'run' AND name = 'long' ORDER BY at")
        found = await cursor.fetchall()
        read = time.perf_counter() - begun
    connection.close()
    assert len(found) == entries
    return written, read


async def _raw(name: str, url: str, entries: int, number: int) -> tuple[float, float]:
    parsed = DatabaseURL.parse(url)
    if name == "sqlite":
        return await asyncio.to_thread(_raw_sqlite, f"{parsed.path}.raw{number}", entries)
    return await (_raw_postgres(url, entries) if name == "postgres" else _raw_mariadb(parsed, entries))


async def _measure(name: str, url: str, entries: int, rounds: int) -> list[tuple[Any, ...]]:
    streams = Streams(url, entries)
    written: list[list[tuple[float, float]]] = []
    read: list[list[tuple[float, float]]] = []
    raws: list[tuple[float, float]] = []
    async with streams.app as app:
        for number in range(rounds):
            streams.took.clear()
            handle = await streams.fill.start()
            await handle.result()
            written.append(list(streams.took))
            read.append(await _read(app, handle.workflow_id, entries))
            raws.append(await _raw(name, url, entries, number))
        late = await _latency(streams)
    rows: list[tuple[Any, ...]] = []
    for verb, found, raw in (
        ("write", written, min(each for each, _ in raws)),
        ("read", read, min(each for _, each in raws)),
    ):
        tenths, work = ([min(each[what] for each in tenth) for tenth in zip(*found, strict=True)] for what in (0, 1))
        whole = sum(tenths)
        linear = tenths[-1] / tenths[0], work[-1] / work[0]
        rows.append((f"{name}, {verb}", entries / whole, entries / raw, whole / raw, *linear, late, load()))
    return rows


def main() -> None:
    """Measure, and print a table."""
    options = Options(__doc__, databases=SQL)
    options.number("entries", 100_000, "entries of the stream", allowed=_WHOLE_STEPS)
    options.number("rounds", 3, "rounds in turn with the raw driver, of which the best counts")
    given = options.parse_args()
    rows: list[tuple[Any, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            rows += asyncio.run(_measure(name, url, given.entries, given.rounds))
    print_table(
        f"A stream of {given.entries:,} entries, {_A_STEP:,} a commit",
        ["database", "entries/s", "raw/s", "times raw", "last / first tenth", "by work", "live, ms p50", "load"],
        rows,
    )


if __name__ == "__main__":
    main()
