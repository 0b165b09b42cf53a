"""Every store, one call after the other and a hundred tasks at once, beside the raw driver and beside Kailash.

Promised: each call at least as fast as the peer's and at most 1.5 times the raw statements; a hundred tasks at once at
least 10 times the peer's rate, where the peer survives it; due dead letters among 100,000 found in under 5 ms; with
``--large``: appending to a stream of a million events, and reading its end, is not slower than to an empty one.

Ours and the raw statements take turns. The peer runs in a process of its own afterwards; both are set against a small
commit on the raw driver that was made at the same moment. ``--no-peer`` leaves the peer out, ``--calls N`` makes it
shorter; names of databases may be given.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from yard.databases import databases
from yard.machine import load
from yard.peers import peer
from yard.raw_stores import ANCHOR, RawStores
from yard.table import alternating, print_table

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, SQLLockStore, SQLTaskQueue
from holdfast.stores.checkpoints.database import DBCheckpointStore
from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
from holdfast.stores.events.store import DBEventStoreBackend
from holdfast.stores.executions.database import DBExecutionStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

KAILASH = ["kailash[db-postgres,db-sqlite]==2.65.0"]
TASKS = 100
DUE = "dead letter: due among 100,000"
EVENT = {"type": "step", "data": "x" * 200}
BLOB = os.urandom(1024)
_ROUNDS = 3
_WARM = 1500  # commits before anything is measured: SQLite's log costs more while it grows


class Ours:
    """Our stores on one manager, each with its own pipeline."""

    def __init__(self, manager: ConnectionManager) -> None:
        self.events = DBEventStoreBackend(manager)
        self.checkpoints = DBCheckpointStore(manager)
        self.keys = DBIdempotencyStore(manager)
        self.executions = DBExecutionStore(manager)
        self.tasks = SQLTaskQueue(manager)
        self.letters = DBDeadLetterQueue(manager)
        self.locks = SQLLockStore(manager)
        self.calls: dict[str, Callable[[int], Awaitable[Any]]] = {
            "event append": lambda number: self.events.append(f"s{number % 10}", [EVENT]),
            "checkpoint save, 1 KB": lambda number: self.checkpoints.save(f"c{number % 50}", BLOB),
            "checkpoint load, 1 KB": lambda number: self.checkpoints.load(f"c{number % 50}"),
            "key: claim and result": self._key,
            "execution: start and end": self._execution,
            "task: enqueue": lambda number: self.tasks.enqueue({"n": number}),
            "task: dequeue and complete": self._worked,
            "dead letter: enqueue": lambda number: self.letters.enqueue("w", "boom", {"n": number}),
            "lock: acquire and release": self._locked,
        }

    async def open(self, afterwards: AsyncExitStack) -> None:
        """Make all of them ready."""
        stores: list[Any] = [self.events, self.checkpoints, self.keys, self.executions]
        for store in [*stores, self.tasks, self.letters, self.locks]:
            await store.initialize()
            afterwards.push_async_callback(store.close)

    async def _key(self, number: int) -> None:
        await self.keys.try_claim(f"k{number}", "f")
        await self.keys.store_result(f"k{number}", {"ok": 1}, 200, {})

    async def _execution(self, number: int) -> None:
        await self.executions.record_start(f"r{number}", "w", {"a": 1})
        await self.executions.record_completion(f"r{number}", {"ok": 1})

    async def _worked(self, _: int) -> None:
        task = await self.tasks.dequeue(worker_id="w")
        assert task is not None
        await self.tasks.complete(task.task_id)

    async def _locked(self, number: int) -> None:
        lease = await self.locks.acquire(f"l{number}")
        assert lease is not None
        await self.locks.release(lease)


class Numbers:
    """Numbers that no call has had."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        """Return so many."""
        self._next += count
        return range(self._next - count, self._next)


async def _one_by_one(call: Callable[[int], Awaitable[Any]], numbers: Numbers, calls: int) -> float:
    """Milliseconds of a call."""
    begun = time.perf_counter()
    for number in numbers.take(calls):
        await call(number)
    return (time.perf_counter() - begun) * 1000 / calls


async def _at_once(call: Callable[[int], Awaitable[Any]], numbers: Numbers, calls: int) -> float:
    """How many calls a hundred tasks make in a second."""
    each = max(1, calls // 20)

    async def task(mine: range) -> None:
        for number in mine:
            await call(number)

    begun = time.perf_counter()
    await asyncio.gather(*(task(numbers.take(each)) for _ in range(TASKS)))
    return each * TASKS / (time.perf_counter() - begun)


async def _measure(url: str, raw_url: str, calls: int) -> dict[str, tuple[float, float, float, float]]:
    """Return, by measurement: ms of ours, of the raw statements, of the anchor, and calls a second at once."""
    found: dict[str, tuple[float, float, float, float]] = {}
    async with AsyncExitStack() as afterwards:
        manager = await afterwards.enter_async_context(ConnectionManager(url))
        ours, raw = Ours(manager), RawStores(raw_url, BLOB)
        await ours.open(afterwards)
        await raw.open()
        mine, theirs = Numbers(), Numbers()
        anchor = partial(_one_by_one, partial(raw.call, ANCHOR), theirs, calls)
        await _one_by_one(partial(raw.call, ANCHOR), theirs, _WARM)
        await _one_by_one(lambda number: ours.checkpoints.save("warm", b"%d" % number), mine, _WARM)
        for name, call in ours.calls.items():
            if name == "task: dequeue and complete":
                await ours.tasks.enqueue_many(range(calls * (_ROUNDS + 6)))
            one = partial(_one_by_one, call, mine, calls)
            raw_one = partial(_one_by_one, partial(raw.call, name), theirs, calls)
            await one()
            took, raw_took, anchor_took = await alternating(_ROUNDS, one, raw_one, anchor)
            found[name] = took, raw_took, anchor_took, await _at_once(call, mine, calls)
        found[DUE] = await _due(ours), 0.0, await anchor(), 0.0
    return found


async def _due(ours: Ours) -> float:
    """Milliseconds to claim ten due letters, of 100,000."""
    for _ in range(100):
        await asyncio.gather(*(ours.letters.enqueue("w", "boom", {}) for _ in range(1000)))
    begun = time.perf_counter()
    for _ in range(10):
        assert len(await ours.letters.dequeue_ready()) == 10
    return (time.perf_counter() - begun) * 100


async def _large(url: str) -> tuple[float, float, float, float]:
    """Milliseconds to append to, and to read the end of, a short stream and one of a million events."""
    async with ConnectionManager(url) as manager:
        events = DBEventStoreBackend(manager)
        await events.initialize()
        for _ in range(500):
            await events.append("long", [{"type": "e", "data": 1}] * 2000)
        last = await events.last_sequence("long")
        await events.append("short", [EVENT] * 10)
        numbers = Numbers()
        found = [
            await _one_by_one(call, numbers, 100)
            for call in (
                lambda _: events.append("short", [EVENT]),
                lambda _: events.append("long", [EVENT]),
                lambda _: events.get_after("short", 0, limit=10),
                lambda _: events.get_after("long", last, limit=10),
            )
        ]
        await events.close()
    return found[0], found[1], found[2], found[3]


def _rows(
    name: str, ours: dict[str, tuple[float, float, float, float]], peers: dict[str, dict[str, Any]]
) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for case, (took, raw, anchor, rate) in ours.items():
        theirs = peers.get(case)
        # How much slower the machine was when the peer had its turn.
        slower = theirs["anchor"] / anchor if theirs else 1.0
        peer_took = theirs["ms"] / slower if theirs else None
        peer_rate = theirs["rate"] * slower if theirs and theirs.get("rate") else None
        rows.append(
            (
                name,
                case,
                took,
                took / raw if raw else "-",
                peer_took / took if peer_took else "-",
                rate or "-",
                rate / peer_rate if rate and peer_rate else "-",
                f"{theirs['failed']:.0%}" if theirs and "failed" in theirs else "-",
            )
        )
    return rows


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("databases", nargs="*", default=["sqlite", "postgres"])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    large: list[tuple[object, ...]] = []
    for name in given.databases:
        # Each has a database of its own, so that nobody's tables slow the others down.
        with databases(name) as ours, databases(name) as raw, databases(name) as theirs:
            found = asyncio.run(_measure(ours[name], raw[name], given.calls))
            printed = (
                [] if given.no_peer else peer("kailash", KAILASH, "kailash_stores.py", theirs[name], str(given.calls))
            )
            rows += _rows(name, found, {line["case"]: line for line in printed})
            if given.large:
                large.append((name, *asyncio.run(_large(ours[name]))))
    print_table(
        f"Stores, load {load()}",
        ["database", "call", "ms", "x raw", "peer / ours", f"{TASKS} tasks: calls/s", "x peer", "peer's failures"],
        rows,
    )
    if large:
        columns = ["database", "append", "append, 1,000,000 there", "get_after", "get_after, 1,000,000 there"]
        print_table("A long stream of events, ms", columns, large)


if __name__ == "__main__":
    main()
