"""Partitions take turns: one run from each, from the one after the last that was served, until the room is used up.

All of it happens under the lock of the queue's row, which also holds whose turn it is. Runs of a partitioned queue that
have no partition key, because the queue had no partitions when they were enqueued perhaps, are a partition of their
own, which comes last in the round: so nothing is left behind, and nothing waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.core.limits import Limits, Room, room, shares, soonest
from holdfast.workflows.queues.claimed import Claimed, claim_query, in_order, seconds_of, use_of

if TYPE_CHECKING:
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.queue import Queue
    from holdfast.model.world import World

_AT_ONCE = 20  # partitions that are looked at in one transaction
_OLDEST = 1000  # runs among which one without a key is looked for
_KEYLESS_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far this process has gone round without taking anything: from *origin*, and on after *after*."""

    origin: str | None
    after: str | None
    wrapped: bool = False


@dataclass(slots=True)
class _Round:
    """The partitions of one transaction: how much each may still give, and what it gave. *done* if no others follow."""

    keys: list[str | None]
    free: list[int]
    again: float | None
    walk: _Walk
    done: bool
    rows: list[Row] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def last_served(self) -> str | None:
        """Return the partition that got the last place of the round: the last of those that got the most."""
        most = max(self.taken, default=0)
        return next((key for key, n in reversed([*zip(self.keys, self.taken, strict=True)]) if n and n == most), None)


class Partitions:
    """Claims from partitioned queues, for one executor."""

    def __init__(self, queries: Queries, world: World) -> None:
        self._queries = queries
        self._world = world
        # Where to go on: only a hint, so a transaction that is run again may find it changed.
        self._walks: dict[str, _Walk] = {}
        self._keyless_at: dict[str, float] = {}

    async def claim(self, transaction: Transaction, queue: Queue, most: int, who: dict[str, Any]) -> Claimed:
        """Take up to *most* runs, in turn. The caller holds the queue's row and has counted the queue's own limits."""
        found = await self._next(transaction, queue, most)
        left = await self._serve(transaction, queue, found, most, who)
        if found.rows:
            self._walks.pop(queue.name, None)
            turn = found.last_served()
            if turn is not None:
                await transaction.execute(self._queries["queue_turn"], name=queue.name, turn=turn)
        elif found.done:
            self._walks.pop(queue.name, None)
        else:
            self._walks[queue.name] = found.walk
        full = left == 0 or any(taken >= free for taken, free in zip(found.taken, found.free, strict=True))
        return Claimed(found.rows, found.again, more=left == 0 or not found.done, full=full)

    async def _serve(
        self, transaction: Transaction, queue: Queue, found: _Round, left: int, who: dict[str, Any]
    ) -> int:
        """Share the room among the partitions; what one cannot use goes to the others. Return what is left."""
        found.taken = [0] * len(found.keys)
        free = list(found.free)
        while left > 0 and any(free):
            for place, wanted in enumerate(shares(left, free)):
                if not wanted:
                    continue
                rows = await self._take(transaction, queue, found.keys[place], wanted, who)
                found.rows += rows
                found.taken[place] += len(rows)
                left -= len(rows)
                free[place] = 0 if len(rows) < wanted else free[place] - wanted
        return left

    async def _take(
        self, transaction: Transaction, queue: Queue, key: str | None, most: int, who: dict[str, Any]
    ) -> list[Row]:
        # Each has a claim id of its own: MariaDB/MySQL reads by it what was taken, and would find the others' again.
        who = {**who, "claim": self._world.new_id()}
        if key is None:
            query = self._queries[claim_query("queue_claim", queue)]
            return in_order(await transaction.fetch(query, keyless=True, most=most, **who), queue)
        query = self._queries[claim_query("partition_claim", queue)]
        return in_order(await transaction.fetch(query, partition_key=key, most=most, **who), queue)

    async def _next(self, transaction: Transaction, queue: Queue, most: int) -> _Round:
        """Return the next partitions in which something waits, and how much each may give."""
        walk = self._walks.get(queue.name) or _Walk(queue.turn, queue.turn, wrapped=queue.turn is None)
        keys: list[str | None] = []
        done = False
        while len(keys) < _AT_ONCE and not done:
            wanted = _AT_ONCE - len(keys)
            got = await self._keys(transaction, queue.name, walk, wanted)
            keys += got
            if len(got) == wanted:
                walk = _Walk(walk.origin, got[-1], walk.wrapped)
            elif walk.wrapped:
                done = True
            else:
                walk = _Walk(walk.origin, None, wrapped=True)
        limits = _limits(queue)
        rooms = await self._rooms(transaction, queue.name, limits, [key for key in keys if key is not None], most)
        if done and await self._keyless(transaction, queue.name):
            keys.append(None)
            rooms.append(await self._keyless_room(transaction, queue.name, limits, most))
        again = soonest(*(seconds_of(each) for each in rooms))
        return _Round(keys, [each.free for each in rooms], again, walk, done)

    async def _keys(self, transaction: Transaction, name: str, walk: _Walk, most: int) -> list[str]:
        rows = await transaction.fetch(
            self._queries["partitions_waiting"],
            queue_name=name,
            after=walk.after,
            until=walk.origin if walk.wrapped else None,
            most=most,
        )
        return [row["partition_key"] for row in rows]

    async def _rooms(
        self, transaction: Transaction, name: str, limits: Limits, keys: list[str], most: int
    ) -> list[Room]:
        if not limits or not keys:
            return [Room(most)] * len(keys)
        rows = await transaction.fetch_batch(
            self._queries["partition_use"], [(key,) for key in keys], queue_name=name, period_ms=limits.period_ms
        )
        found = {row["partition_key"]: room(limits, use_of(row), row["now_ms"], most) for row in rows}
        return [found[key] for key in keys]

    async def _keyless(self, transaction: Transaction, name: str) -> bool:
        """Whether one of the oldest runs has no partition key: asked now and then, since it walks through them."""
        now = self._world.monotonic()
        if now < self._keyless_at.get(name, 0.0):
            return False
        [row] = await transaction.fetch(self._queries["keyless_waiting"], queue_name=name, most=_OLDEST)
        if not row["runs"]:
            self._keyless_at[name] = now + _KEYLESS_EVERY
        return bool(row["runs"])

    async def _keyless_room(self, transaction: Transaction, name: str, limits: Limits, most: int) -> Room:
        if not limits:
            return Room(most)
        [row] = await transaction.fetch(self._queries["keyless_use"], queue_name=name, period_ms=limits.period_ms)
        return room(limits, use_of(row), row["now_ms"], most)


def _limits(queue: Queue) -> Limits:
    """Return the limits of each partition."""
    period = queue.partition_rate_limit_period_sec or 0
    return Limits(queue.partition_concurrency, queue.partition_rate_limit_max, int(period * 1000))


__all__ = ["Partitions"]
