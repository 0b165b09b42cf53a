"""Kailash's stores, taking turns: kailash_stores.py URL, then a JSON line for each thing to do.

``{"case": ..., "calls": n}`` makes calls one after the other, with ``"tasks"`` as many tasks at once make them.
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable

from kailash.db.connection import ConnectionManager
from kailash.infrastructure.checkpoint_store import DBCheckpointStore
from kailash.infrastructure.dlq import DBDeadLetterQueue
from kailash.infrastructure.event_store import DBEventStoreBackend
from kailash.infrastructure.execution_store import DBExecutionStore
from kailash.infrastructure.idempotency_store import DBIdempotencyStore
from kailash.infrastructure.task_queue import SQLTaskQueue

logging.disable(logging.CRITICAL)
url = sys.argv[1]
EVENT = {"type": "step", "data": "x" * 200}
BLOB = os.urandom(1024)
OLD = "2020-01-01T00:00:00+00:00"


class Stores:
    """All of them on one manager, and each measurement as a call with a number."""

    def __init__(self, manager: ConnectionManager) -> None:
        self.manager = manager
        self.events, self.checkpoints = DBEventStoreBackend(manager), DBCheckpointStore(manager)
        self.keys, self.executions = DBIdempotencyStore(manager), DBExecutionStore(manager)
        self.tasks, self.letters = SQLTaskQueue(manager), DBDeadLetterQueue(manager)
        self.number = 0
        self.calls: dict[str, Callable[[int], Awaitable[object]]] = {
            "warm": lambda number: self.checkpoints.save("warm", b"%d" % number),
            "event append": lambda number: self.events.append(f"s{number % 10}", [EVENT]),
            "checkpoint save, 1 KB": lambda number: self.checkpoints.save(f"c{number % 50}", BLOB),
            "checkpoint load, 1 KB": lambda number: self.checkpoints.load(f"c{number % 50}"),
            "key: claim and result": self._key,
            "execution: start and end": self._execution,
            "task: enqueue": lambda number: self.tasks.enqueue({"n": number}),
            "task: dequeue and complete": self._worked,
            "dead letter: enqueue": lambda number: self.letters.enqueue("w", "boom", {"n": number}),
            "dead letter: due among 100,000": lambda _: self.letters.dequeue_ready(),
        }

    async def open(self) -> None:
        await self.manager.initialize()
        for store in (self.events, self.checkpoints, self.keys, self.executions, self.tasks, self.letters):
            await store.initialize()

    async def _key(self, number: int) -> None:
        await self.keys.try_claim(f"k{number}", "f")
        await self.keys.store_result(f"k{number}", {"ok": 1}, 200, {})

    async def _execution(self, number: int) -> None:
        await self.executions.record_start(f"r{number}", "w", {"a": 1})
        await self.executions.record_completion(f"r{number}", {"ok": 1})

    async def _worked(self, _: int) -> None:
        task = await self.tasks.dequeue(worker_id="w")
        await self.tasks.complete(task.task_id)

    async def one_by_one(self, call: Callable[[int], Awaitable[object]], calls: int) -> dict[str, float]:
        begun = time.perf_counter()
        for _ in range(calls):
            self.number += 1
            await call(self.number)
        return {"ms": (time.perf_counter() - begun) * 1000 / calls}

    async def at_once(self, call: Callable[[int], Awaitable[object]], calls: int, tasks: int) -> dict[str, float]:
        """Count the calls that went well in a second, and the share of those that failed."""
        failed = 0

        async def task() -> None:
            nonlocal failed
            for _ in range(calls // tasks):
                self.number += 1
                try:
                    await call(self.number)
                except Exception:  # noqa: BLE001 -- whatever the peer raises: it is counted
                    failed += 1

        begun = time.perf_counter()
        await asyncio.gather(*(task() for _ in range(tasks)))
        done = calls - failed
        return {"rate": done / (time.perf_counter() - begun), "failed": failed / calls}

    async def fill(self, case: str, count: int) -> dict[str, int]:
        """Put in what the measurement takes out."""
        if case == "task: dequeue and complete":
            for number in range(count):
                await self.tasks.enqueue({"n": number})
            return {"filled": count}
        async with self.manager.transaction() as transaction:
            for number in range(count):
                await transaction.execute(
                    f"INSERT INTO {self.letters.TABLE_NAME} (id, workflow_id, error, payload, created_at, retry_count, "
                    "max_retries, next_retry_at, status) VALUES (?, 'w', 'boom', '{}', ?, 0, 3, ?, 'pending')",
                    f"f{number}",
                    OLD,
                    OLD,
                )
        return {"filled": count}


async def main() -> None:
    stores = Stores(ConnectionManager(url))
    await stores.open()
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = json.loads(line)
        if "fill" in told:
            said: dict[str, float] | dict[str, int] = await stores.fill(told["case"], told["fill"])
        elif "tasks" in told:
            said = await stores.at_once(stores.calls[told["case"]], told["calls"], told["tasks"])
        else:
            said = await stores.one_by_one(stores.calls[told["case"]], told["calls"])
        print(json.dumps(said), flush=True)
    await stores.manager.close()


asyncio.run(main())
