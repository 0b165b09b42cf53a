"""Every store, one call after the other and a hundred tasks at once, beside the raw driver and beside Kailash.

Promised: each call at least as fast as the peer's and at most 1.5 times the raw statements; a hundred tasks at once at
least 10 times the peer's rate, where the peer survives it; due dead letters among 100,000 found in under 5 ms; with
``--large``: appending to a stream of a million events, and reading its end, is not slower than to an empty one.

Ours, the raw statements and the peer, which is a process of its own, take turns; of each the best round counts, which
is the one that others on the machine disturbed least. Ours are called by a task and, as sync, by a thread that waits;
on SQLite sync calls stand beside raw statements that block their thread, as they do. Kailash does not start on MariaDB.
At once ours are compared also with what the bare driver comes to when it commits together whatever waits.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.peers import Conversation, conversing
from yard.raw_stores import RawStores
from yard.table import print_table
from yard.together import raw_together

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, SQLLockStore, SQLTaskQueue, SyncStoreFactory
from holdfast.stores.checkpoints.database import DBCheckpointStore
from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
from holdfast.stores.events.store import DBEventStoreBackend
from holdfast.stores.executions.database import DBExecutionStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from yard.together import RawTogether

KAILASH = ["kailash[db-postgres,db-sqlite]==2.65.0"]
TASKS = 100
AT_ONCE = 20  # calls of each task
TAKEN = "task: dequeue and complete"
LOCKED = "lock: acquire and release"
DUE = "dead letter: due among 100,000"
EVENT = {"type": "step", "data": "x" * 200}
BLOB = os.urandom(1024)
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


class Blocking:
    """The same calls from a thread that waits."""

    def __init__(self, url: str, afterwards: AsyncExitStack) -> None:
        factory = SyncStoreFactory(url)
        afterwards.callback(factory.close)
        events, letters = factory.create_event_store(), factory.create_dlq()
        checkpoints, tasks = factory.create_checkpoint_store(), factory.create_task_queue()
        self._keys, self._executions = factory.create_idempotency_store(), factory.create_execution_store()
        self._tasks, self._locks = tasks, factory.create_lock_store()
        assert tasks is not None
        self.calls: dict[str, Callable[[int], Any]] = {
            "event append": lambda number: events.append(f"s{number % 10}", [EVENT]),
            "checkpoint save, 1 KB": lambda number: checkpoints.save(f"c{number % 50}", BLOB),
            "checkpoint load, 1 KB": lambda number: checkpoints.load(f"c{number % 50}"),
            "key: claim and result": self._key,
            "execution: start and end": self._execution,
            "task: enqueue": lambda number: tasks.enqueue({"n": number}),
            "task: dequeue and complete": self._worked,
            "dead letter: enqueue": lambda number: letters.enqueue("w", "boom", {"n": number}),
            "lock: acquire and release": self._locked,
        }

    def ms(self, name: str, numbers: Numbers, calls: int) -> float:
        """Milliseconds of a call."""
        call, begun = self.calls[name], time.perf_counter()
        for number in numbers.take(calls):
            call(number)
        return (time.perf_counter() - begun) * 1000 / calls

    def _key(self, number: int) -> None:
        assert self._keys is not None
        self._keys.try_claim(f"k{number}", "f")
        self._keys.store_result(f"k{number}", {"ok": 1}, 200, {})

    def _execution(self, number: int) -> None:
        self._executions.record_start(f"r{number}", "w", {"a": 1})
        self._executions.record_completion(f"r{number}", {"ok": 1})

    def _worked(self, _: int) -> None:
        assert self._tasks is not None
        task = self._tasks.dequeue(worker_id="w")
        assert task is not None
        self._tasks.complete(task.task_id)

    def _locked(self, number: int) -> None:
        lease = self._locks.acquire(f"l{number}")
        assert lease is not None
        self._locks.release(lease)


class Numbers:
    """Numbers that no call has had."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        """Return so many."""
        self._next += count
        return range(self._next - count, self._next)


async def one_by_one(call: Callable[[int], Awaitable[Any]], numbers: Numbers, calls: int) -> float:
    """Milliseconds of a call."""
    begun = time.perf_counter()
    for number in numbers.take(calls):
        await call(number)
    return (time.perf_counter() - begun) * 1000 / calls


async def at_once(call: Callable[[int], Awaitable[Any]], numbers: Numbers) -> float:
    """How many calls a hundred tasks make in a second."""

    async def task(mine: range) -> None:
        for number in mine:
            await call(number)

    begun = time.perf_counter()
    await asyncio.gather(*(task(numbers.take(AT_ONCE)) for _ in range(TASKS)))
    return AT_ONCE * TASKS / (time.perf_counter() - begun)


@dataclass(slots=True)
class Best:
    """The best round of each: milliseconds a call, and calls a second at once."""

    ours: float = 1e9
    sync: float = 1e9
    raw: float = 1e9
    blocking: float = 1e9
    peer: float = 1e9
    rate: float = 0.0
    bare_rate: float = 0.0
    peer_rate: float = 0.0
    peer_failed: float = 0.0


@dataclass(slots=True)
class Turns:
    """Whoever takes turns at a measurement on one database."""

    ours: Ours
    blocking: Blocking
    raw: list[RawStores]
    together: RawTogether | None
    peer: Conversation | None
    calls: int
    rounds: int
    mine: Numbers = field(default_factory=Numbers)
    by_hand: Numbers = field(default_factory=Numbers)

    async def warm(self) -> None:
        """Have everybody's log grown to its size."""
        save = self.ours.checkpoints.save
        await one_by_one(lambda number: save("warm", b"%d" % number), self.mine, _WARM)
        await one_by_one(partial(self.raw[0].call, "checkpoint save, 1 KB"), self.by_hand, _WARM)
        if self.peer is not None:
            self.peer.ask(case="warm", calls=_WARM)

    async def measure(self, name: str) -> Best:
        """Take the rounds of one measurement."""
        best, call = Best(), self.ours.calls[name]
        peer = None if name == LOCKED else self.peer
        if name == TAKEN:
            wanted = (2 * self.calls + AT_ONCE * TASKS) * (self.rounds + 1)
            await self.ours.tasks.enqueue_many(range(wanted))
            if peer is not None:
                peer.ask(case=name, fill=wanted)
        await one_by_one(call, self.mine, self.calls)
        self.blocking.ms(name, self.mine, self.calls)
        for _ in range(self.rounds):
            best.ours = min(best.ours, await one_by_one(call, self.mine, self.calls))
            best.sync = min(best.sync, self.blocking.ms(name, self.mine, self.calls))
            raw = [await one_by_one(partial(each.call, name), self.by_hand, self.calls) for each in self.raw]
            best.raw, best.blocking = min(best.raw, raw[0]), min(best.blocking, raw[-1])
            best.rate = max(best.rate, await at_once(call, self.mine))
            if self.together is not None and name in self.together.calls:
                bare = partial(self.together.call, name)
                best.bare_rate = max(best.bare_rate, await at_once(bare, self.by_hand))
            if peer is not None:
                best.peer = min(best.peer, peer.ask(case=name, calls=self.calls)["ms"])
                said = peer.ask(case=name, calls=AT_ONCE * TASKS, tasks=TASKS)
                best.peer_rate = max(best.peer_rate, said["rate"])
                best.peer_failed = max(best.peer_failed, said["failed"])
        return best

    async def due(self) -> Best:
        """Take the rounds of claiming ten due letters, of 100,000."""
        letters, best = self.ours.letters, Best()
        for _ in range(100):
            await asyncio.gather(*(letters.enqueue("w", "boom", {}) for _ in range(1000)))
        if self.peer is not None:
            self.peer.ask(case=DUE, fill=100_000)
        for _ in range(self.rounds):
            best.ours = min(best.ours, await one_by_one(lambda _: letters.dequeue_ready(), self.mine, 10))
            if self.peer is not None:
                best.peer = min(best.peer, self.peer.ask(case=DUE, calls=1)["ms"])
        return best


async def _measure(url: str, raw_url: str, peer: Conversation | None, given: argparse.Namespace) -> dict[str, Best]:
    async with AsyncExitStack() as afterwards:
        manager = await afterwards.enter_async_context(ConnectionManager(url))
        ours = Ours(manager)
        await ours.open(afterwards)
        raw = [RawStores(raw_url, BLOB), *([RawStores(raw_url, BLOB, blocking=True)] if "sqlite" in raw_url else [])]
        for each in raw:
            await each.open()
        together = raw_together(raw_url, BLOB)
        if together is not None:
            await together.open()
            afterwards.push_async_callback(together.close)
        turns = Turns(ours, Blocking(url, afterwards), raw, together, peer, given.calls, given.rounds)
        await turns.warm()
        wanted = [name for name in ours.calls if not given.only or any(part in name for part in given.only)]
        found = {name: await turns.measure(name) for name in wanted}
        if not given.only or any(part in DUE for part in given.only):
            found[DUE] = await turns.due()
    return found


async def _large(url: str, rounds: int) -> tuple[float, ...]:
    """Milliseconds to append to, and to read the end of, a short stream and one of a million events."""
    async with ConnectionManager(url) as manager:
        events = DBEventStoreBackend(manager)
        await events.initialize()
        for _ in range(500):
            await events.append("long", [{"type": "e", "data": 1}] * 2000)
        last = await events.last_sequence("long")
        await events.append("short", [EVENT] * 10)
        numbers = Numbers()
        calls: list[Callable[[int], Awaitable[Any]]] = [
            lambda _: events.append("short", [EVENT]),
            lambda _: events.append("long", [EVENT]),
            lambda _: events.get_after("short", 0, limit=10),
            lambda _: events.get_after("long", last, limit=10),
        ]
        found = [[await one_by_one(call, numbers, 100) for call in calls] for _ in range(rounds)]
        await events.close()
    return tuple(map(min, zip(*found, strict=True)))


def _rows(database: str, found: dict[str, Best]) -> list[tuple[object, ...]]:
    return [
        (
            database,
            name,
            best.ours,
            best.ours / best.raw if best.raw < 1e9 else "-",
            best.peer / best.ours if best.peer < 1e9 else "-",
            best.sync if best.sync < 1e9 else "-",
            best.sync / best.blocking if best.sync < 1e9 else "-",
            best.peer / best.sync if max(best.peer, best.sync) < 1e9 else "-",
            best.rate or "-",
            best.rate / best.bare_rate if best.bare_rate else "-",
            best.bare_rate / best.peer_rate if best.bare_rate and best.peer_rate else "-",
            best.rate / best.peer_rate if best.peer_rate else "-",
            f"{best.peer_failed:.0%}" if best.peer < 1e9 and best.rate else "-",
        )
        for name, best in found.items()
    ]


def _given() -> argparse.Namespace:
    options = Options(__doc__, databases=SQL, usual=("sqlite", "postgres"), peers=True)
    options.number("calls", 25, "calls of each kind in a round, one after the other")
    options.number("rounds", 12, "rounds in turn, of which the best counts")
    options.add_argument("--only", action="append", help="measurements with this in their name; may be repeated")
    options.add_argument("--large", action="store_true", help="measure a stream of a million events, too")
    return options.parse_args()


def main() -> None:
    """Measure, and print tables."""
    given = _given()
    columns = [
        "database",
        "call",
        "ms",
        "x raw",
        "peer / ours",
        "sync: ms",
        "sync: x raw",
        "peer / sync",
        "100 tasks: calls/s",
        "x bare",
        "bare: x peer",
        "x peer",
        "failed",
    ]
    lengths = ["database", "append", "append, 1,000,000 there", "get_after", "get_after, 1,000,000 there"]
    for name in given.databases:
        # Each has a database of its own, so that nobody's tables slow the others down.
        with databases(name) as ours, databases(name) as raw, databases(name) as theirs:
            no_peer = given.no_peers or name == "mariadb"
            peer = nullcontext() if no_peer else conversing("kailash", KAILASH, "kailash_stores.py", theirs[name])
            with peer as conversation:
                found = asyncio.run(_measure(ours[name], raw[name], conversation, given))
            print_table(f"Stores, load {load()}", columns, _rows(name, found))
            if given.large:
                row = (name, *asyncio.run(_large(ours[name], given.rounds)))
                print_table(f"A long stream of events, ms, load {load()}", lengths, [row])


if __name__ == "__main__":
    main()
