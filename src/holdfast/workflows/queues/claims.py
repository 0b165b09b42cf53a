"""Claiming runs from one queue, within its limits and for one executor.

A queue without limits is claimed from in one statement, which takes no lock but on the runs it gets. All others are
claimed from under the lock of the queue's row: lock, count, claim, note, in that order, one statement each, so that
what is counted cannot grow before the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import faults
from holdfast.core.limits import Limits, Room, room, soonest
from holdfast.db.url import DialectName
from holdfast.workflows.enqueueing.claims import ClaimToCome
from holdfast.workflows.queues.claimed import Claimed, claim_query, in_order, seconds_of, use_of
from holdfast.workflows.queues.partitions import Partitions
from holdfast.workflows.queues.passed import Passed
from holdfast.workflows.queues.store import queue_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.db.session import Row, Transaction
    from holdfast.model.queue import Queue
    from holdfast.model.world import World
    from holdfast.workflows.declaring.registry import Registry
    from holdfast.workflows.ownership.executor import Executor
    from holdfast.workflows.queues.store import QueueStore

_BUSY = 0.005, 0.02  # when somebody else claims from the queue at this moment: look again within so many seconds


class Claims:
    """Takes runs for one executor. What it cannot run it passes over, so nothing that others can run is in its way."""

    def __init__(
        self, store: QueueStore, executor: Executor, versions: Sequence[str], registry: Registry, world: World
    ) -> None:
        self._store = store
        self._executor = executor
        self._versions = msgspec.json.encode(list(versions)).decode()
        self._registry = registry
        self._world = world
        self._partitions = Partitions(store.queries, world)
        postgres = store.manager.dialect is DialectName.POSTGRES
        self._passed = Passed(world.monotonic) if postgres else None
        # Counting after the lock must see what was committed before it, whatever the server's default is. The others
        # say so when they connect, or have one writer.
        self._isolation = "READ COMMITTED" if postgres else None

    async def claim(self, queue: Queue, most: int, caps: Mapping[str, int], *, suspects: bool) -> Claimed:
        """Take up to *most* runs from *queue*; *caps* are the functions there are here, and their recovery caps."""
        bound = {} if self._passed is None else self._passed.bound(queue)
        found = await self._claim(queue, most, caps, self._who(queue, caps, suspects=suspects), bound)
        if bound and not found.rows and found.again is None and not found.full:
            bound = {}
            found = await self._claim(queue, most, caps, self._who(queue, caps, suspects=suspects), bound)
        if self._passed is not None:
            self._passed.note(queue, found.rows, bound)
        return found

    def to_come(self, queue: Queue, most: int, caps: Mapping[str, int]) -> ClaimToCome:
        """Return the claim of a queue without limits that somebody else is to carry out; it leaves out suspects."""
        bound = {} if self._passed is None else self._passed.bound(queue)
        who = self._who(queue, caps, suspects=False)
        query = self._store.queries[claim_query("queue_claim", queue)]
        return ClaimToCome(query, {"unlimited": True, "most": most, **who}, bound)

    def came(self, queue: Queue, claim: ClaimToCome, rows: Sequence[Row]) -> None:
        """Take notice of what such a claim has given."""
        if self._passed is not None:
            self._passed.note(queue, in_order(rows, queue), claim.bound)

    async def _claim(
        self, queue: Queue, most: int, caps: Mapping[str, int], who: dict[str, Any], bound: dict[str, Any]
    ) -> Claimed:
        if queue.is_shared:
            return await self._claim_shared(queue.name, most, who, caps, bound)
        query = self._store.queries[claim_query("queue_claim", queue)]
        rows = await self._store.manager.fetch(query, unlimited=True, most=most, **who, **bound)
        return Claimed(in_order(rows, queue), more=len(rows) == most)

    def _who(self, queue: Queue, caps: Mapping[str, int], *, suspects: bool) -> dict[str, Any]:
        """Return what every claim says about this executor, under a claim id of its own."""
        return {
            "claim": self._world.new_id(),
            "incarnation": self._executor.incarnation,
            "executor_id": self._executor.executor_id,
            "application_version": self._executor.application_version,
            "versions": self._versions,
            "caps": msgspec.json.encode({**caps, **dict.fromkeys(self._registry.owners(), 0)}).decode(),
            "queue_name": queue.name,
            "suspects": int(suspects),
        }

    async def _claim_shared(
        self, name: str, most: int, who: dict[str, Any], caps: Mapping[str, int], bound: dict[str, Any]
    ) -> Claimed:
        queries = self._store.queries

        async def work(transaction: Transaction) -> Claimed:
            row = await transaction.fetchone(queries["queue_hold_free"], name=name)
            if row is None:
                return Claimed(again=self._world.random.uniform(*_BUSY))
            queue = queue_of(row)
            if queue.paused:
                return Claimed()
            left = await self._room(transaction, queue, most)
            if not left.free:
                return Claimed(again=seconds_of(left), full=True)
            if queue.partition_queue:
                found = await self._partitions.claim(transaction, queue, left.free, who)
            else:
                query = queries[claim_query("queue_claim", queue)]
                behind = {} if queue.priority_enabled else bound  # it may be set otherwise by now
                rows = in_order(await transaction.fetch(query, most=left.free, **who, **behind), queue)
                found = Claimed(rows, more=len(rows) == left.free)
            await self._note(transaction, queue, [row for row in found.rows if _is_start(row, caps[row["name"]])])
            faults.point("claim.before_commit")
            again = soonest(found.again, seconds_of(left))
            # Where the limit was what ended it, a further look at once would find no room.
            return Claimed(found.rows, again, found.more and left.free == most, found.full or found.more)

        return await self._store.manager.run(work, isolation=self._isolation)

    async def _room(self, transaction: Transaction, queue: Queue, most: int) -> Room:
        limits = limits_of(queue)
        if not limits:
            return Room(most)
        [row] = await transaction.fetch(
            self._store.queries["queue_use"],
            queue_name=queue.name,
            concurrency=limits.concurrency or 0,
            period_ms=limits.period_ms,
        )
        return room(limits, use_of(row), row["now_ms"], most)

    async def _note(self, transaction: Transaction, queue: Queue, rows: Sequence[Row]) -> None:
        """Write what was started into the ledger, and let go of what no period reaches back to."""
        periods = queue.rate_limit_period_sec, queue.partition_rate_limit_period_sec
        keep = max((each for each in periods if each is not None), default=None)
        started = [(row["owner_xid"], row["queue_partition_key"] or "", row["workflow_uuid"]) for row in rows]
        if keep is None or not started:
            return
        queries = self._store.queries
        await transaction.execute(queries["starts_trim"], queue_name=queue.name, keep_ms=int(keep * 1000))
        await transaction.execute_batch(queries["starts_note"], started, queue_name=queue.name)


def _is_start(row: Row, cap: int) -> bool:
    """Whether a claim begins a run: not if it is given up, nor if it was put away and goes on now."""
    goes_on = row["wait_kind"] is not None and row["executions"] > 1 and not row["recovery_attempts"]
    return row["recovery_attempts"] <= cap and not goes_on


def limits_of(queue: Queue) -> Limits:
    """Return the limits of the queue as a whole."""
    return Limits(queue.concurrency, queue.rate_limit_max, int((queue.rate_limit_period_sec or 0) * 1000))


__all__ = ["Claims"]
