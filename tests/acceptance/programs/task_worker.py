"""A worker of tasks, or a holder of locks, for tests that kill it. It speaks lines of JSON.

Every effect goes into a file that outlives it, one line each, before the task is ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.stores import RedisLink, RedisLockStore, RedisTaskQueue, SQLLockStore, SQLTaskQueue, Task, TaskWorker
from holdfast.testing.program import say


class Letters:
    """A dead-letter queue in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def enqueue(self, workflow_id: str, error: str, payload: Any, max_retries: int = 3) -> str:
        """Keep a letter."""
        note(self._path, workflow_id, bool(error), payload["attempts"], max_retries)
        return workflow_id


def note(path: Path, *words: Any) -> None:
    """Write down an effect; one write a line, so that processes do not mix theirs."""
    with path.open("ab", buffering=0) as file:
        file.write((json.dumps(words) + "\n").encode())


async def main(given: dict[str, Any]) -> None:
    """Do what *given* says: "work", "put", "race" or "lock"."""
    url, folder = given["url"], Path(given["folder"])
    async with RedisLink(url) if url.startswith("redis") else ConnectionManager(url) as base:
        letters = Letters(folder / "letters")
        queue: Any = (
            RedisTaskQueue(base, dead_letters=letters)
            if isinstance(base, RedisLink)
            else SQLTaskQueue(base, dead_letters=letters)
        )
        locks: Any = RedisLockStore(base) if isinstance(base, RedisLink) else SQLLockStore(base)
        await queue.initialize()
        say("ready")
        if given.get("point"):
            faults.arm(given["point"], at=given["at"])
        if given["do"] == "work":
            await work(queue, folder)
        elif given["do"] == "put":
            for number in range(given["count"]):
                say("put", await queue.enqueue(number, task_id=f"t{number}", visibility_timeout=1, max_attempts=9))
        elif given["do"] == "race":
            await race(queue, locks, given["rounds"], given["claimers"])
        else:
            await lock(locks, folder, given["rounds"], given["ttl"])
        await queue.close()
        await locks.close()


async def work(queue: Any, folder: Path) -> None:
    """Work until a task says stop."""

    async def handler(task: Task) -> None:
        if task.payload == "fail":
            raise ValueError("as asked")
        note(folder / "effects", task.task_id, task.token)
        await asyncio.sleep(0)

    worker = TaskWorker(queue, {"default": handler}, concurrency=5, poll_interval=0.05)
    asyncio.get_running_loop().add_reader(0, worker.stop)
    await worker.run(signals=True)
    say("stopped")


async def race(queue: Any, locks: Any, rounds: int, claimers: int) -> None:
    """When told to, want one task and one lock a round with many tasks at once; say which were had here."""
    await asyncio.to_thread(sys.stdin.readline)
    tasks: list[int] = []
    leases: list[int] = []
    for number in range(rounds):
        name = f"race-{number}"
        taken = asyncio.gather(*(queue.dequeue(name) for _ in range(claimers)))
        acquired = asyncio.gather(*(locks.acquire(name, ttl=3600, blocking=False) for _ in range(claimers)))
        tasks += [number] * sum(task is not None for task in await taken)
        leases += [number] * sum(lease is not None for lease in await acquired)
    say("won", tasks, leases)


async def lock(locks: Any, folder: Path, rounds: int, ttl: float) -> None:
    """Hold a lock again and again; say when inside, with the token."""
    for _ in range(rounds):
        async with locks.lease("the lock", ttl) as lease:
            note(folder / "held", "in", lease.token, os.getpid())
            await asyncio.sleep(0)
            note(folder / "held", "out", lease.token, os.getpid())
    say("done")


asyncio.run(main(json.loads(sys.argv[1])))
