"""Kailash's stores, one call after the other and a hundred tasks at once: kailash_stores.py URL CALLS."""

import asyncio
import json
import logging
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import asyncpg
from kailash.db.connection import ConnectionManager
from kailash.infrastructure.checkpoint_store import DBCheckpointStore
from kailash.infrastructure.dlq import DBDeadLetterQueue
from kailash.infrastructure.event_store import DBEventStoreBackend
from kailash.infrastructure.execution_store import DBExecutionStore
from kailash.infrastructure.idempotency_store import DBIdempotencyStore
from kailash.infrastructure.task_queue import SQLTaskQueue

logging.disable(logging.CRITICAL)
url, calls = sys.argv[1], int(sys.argv[2])
TASKS = 100
EVENT = {"type": "step", "data": "x" * 200}
WARM = 1500  # commits before anything is measured: SQLite's log costs more while it grows
BLOB = os.urandom(1024)
Call = Callable[[int], Awaitable[object]]


class Anchor:
    """One small commit on the raw driver, by which what is measured at different moments is compared."""

    async def open(self) -> None:
        table = "CREATE TABLE raw_anchor (id BIGINT PRIMARY KEY, note TEXT NOT NULL)"
        self._number = 0
        is_sqlite = url.startswith("sqlite")
        file = url.removeprefix("sqlite:///") + ".anchor" if is_sqlite else ":memory:"
        self._sqlite = sqlite3.connect(file, isolation_level=None)
        self._postgres = None if is_sqlite else await asyncpg.connect(url)
        if self._postgres is not None:
            await self._postgres.execute(table)
            return
        self._sqlite.execute("PRAGMA journal_mode = WAL")
        self._sqlite.execute("PRAGMA synchronous = FULL")
        self._sqlite.execute(table)

    async def ms(self, count: int) -> float:
        """Return its milliseconds."""
        begun = time.perf_counter()
        for _ in range(count):
            self._number += 1
            if self._postgres is not None:
                await self._postgres.fetch("INSERT INTO raw_anchor VALUES ($1, 'x')", self._number)
            else:
                self._sqlite.execute("INSERT INTO raw_anchor VALUES (?, 'x')", (self._number,))
        return (time.perf_counter() - begun) * 1000 / count


anchor = Anchor()


async def measured(name: str, call: Call) -> None:
    """Print the milliseconds of a call, the calls a second of a hundred tasks, and how many of these failed."""
    rounds, anchors = [], []
    for turn in range(3):
        anchors.append(await anchor.ms(calls))
        begun = time.perf_counter()
        for number in range(calls):
            await call(turn * calls + number)
        rounds.append((time.perf_counter() - begun) / calls)
    failed = 0

    async def task(which: int) -> None:
        nonlocal failed
        for number in range(each):
            try:
                await call(10_000_000 + which * each + number)
            except Exception:  # noqa: BLE001 -- whatever the peer raises: it is counted
                failed += 1

    each = max(1, calls // 20)
    begun = time.perf_counter()
    await asyncio.gather(*(task(which) for which in range(TASKS)))
    rate = (each * TASKS - failed) / (time.perf_counter() - begun)
    print(
        json.dumps(
            {
                "case": name,
                "ms": statistics.median(rounds) * 1000,
                "anchor": statistics.median(anchors),
                "rate": rate,
                "failed": failed / (each * TASKS),
            }
        ),
        flush=True,
    )


async def main() -> None:
    manager = ConnectionManager(url)
    await manager.initialize()
    events, checkpoints, keys = DBEventStoreBackend(manager), DBCheckpointStore(manager), DBIdempotencyStore(manager)
    executions, tasks, letters = DBExecutionStore(manager), SQLTaskQueue(manager), DBDeadLetterQueue(manager)
    for store in (events, checkpoints, keys, executions, tasks, letters):
        await store.initialize()
    await anchor.open()
    await anchor.ms(WARM)
    for number in range(WARM):
        await checkpoints.save("warm", b"%d" % number)

    async def key(number: int) -> None:
        await keys.try_claim(f"k{number}", "f")
        await keys.store_result(f"k{number}", {"ok": 1}, 200, {})

    async def execution(number: int) -> None:
        await executions.record_start(f"r{number}", "w", {"a": 1})
        await executions.record_completion(f"r{number}", {"ok": 1})

    async def worked(_: int) -> None:
        task = await tasks.dequeue(worker_id="w")
        await tasks.complete(task.task_id)

    await measured("event append", lambda number: events.append(f"s{number % 10}", [EVENT]))
    await measured("checkpoint save, 1 KB", lambda number: checkpoints.save(f"c{number % 50}", BLOB))
    await measured("checkpoint load, 1 KB", lambda number: checkpoints.load(f"c{number % 50}"))
    await measured("key: claim and result", key)
    await measured("execution: start and end", execution)
    await measured("task: enqueue", lambda number: tasks.enqueue({"n": number}))
    for number in range(calls * 3):
        await tasks.enqueue({"n": number})
    await measured("task: dequeue and complete", worked)
    await measured("dead letter: enqueue", lambda number: letters.enqueue("w", "boom", {"n": number}))
    await manager.execute(f"DELETE FROM {letters.TABLE_NAME}")
    async with manager.transaction() as transaction:
        for number in range(100_000):
            await transaction.execute(
                f"INSERT INTO {letters.TABLE_NAME} (id, workflow_id, error, payload, created_at, retry_count, "
                "max_retries, next_retry_at, status) VALUES (?, 'w', 'boom', '{}', ?, 0, 3, ?, 'pending')",
                f"f{number}",
                "2020-01-01T00:00:00+00:00",
                "2020-01-01T00:00:00+00:00",
            )
    begun = time.perf_counter()
    for _ in range(3):
        await letters.dequeue_ready()
    took = (time.perf_counter() - begun) * 1000 / 3
    print(json.dumps({"case": "dead letter: due among 100,000", "ms": took, "anchor": await anchor.ms(calls)}))
    await manager.close()


asyncio.run(main())
