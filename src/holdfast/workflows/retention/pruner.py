"""Deleting what the policies say may go, in small batches and out of everybody's way.

The walk over the runs, oldest first, only reads: on SQLite it never enters the writer's thread. A batch is one short
transaction with one guarded delete. After each the pruner rests for several times as long as the batch took, so that a
database that has much to do is given more time, not less.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.errors import UnknownCommit
from holdfast.workflows.retention.plan import BEFORE_ALL, Plan, cutoff_ms
from holdfast.workflows.retention.report import Pruned, PruneReport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from typing import Any

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World
    from holdfast.workflows.retention.plan import Place
    from holdfast.workflows.retention.policy import Retention

T = TypeVar("T")

_WALK = 2000
_BATCH = 200
_PAUSE = 7.0
_READ_PAUSE = 1.0  # what is only read holds up nobody, but takes its share of the machine
_LONGEST_PAUSE = 2.0


class Pruner:
    """Deletes ended runs, with all that is recorded of them, on *manager*.

    *batch* is how many are deleted in one transaction; *pause* how long it rests afterwards, as a multiple of the time
    that took; 0 is for when nobody else is at work. Any number of pruners may be at work on one database.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        queries: Queries,
        world: World,
        *,
        batch: int = _BATCH,
        pause: float = _PAUSE,
    ) -> None:
        self._manager = manager
        self._queries = queries
        self._world = world
        self._batch = batch
        self._pause = pause

    async def prune(
        self,
        policies: Sequence[Retention],
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> PruneReport:
        """Delete every run that fits one of *policies*, or with *dry_run* only count them.

        Deleted are runs that have ended and whose parent has ended or is not there. Ages and numbers are those of the
        moment of the call, by the database's clock. A run that is resumed or rewound at the same time is deleted before
        that or kept whole. *progress* is called now and then with the number of runs deleted, or counted, so far.

        Each batch commits by itself: after an error, or when this is cancelled, what was deleted stays deleted, and a
        batch under way is finished first.
        """
        plans = await self._plans(policies)
        done: list[Pruned] = []
        total = 0
        for number, plan in enumerate(plans):
            matched = deleted = 0
            async for runs in self._batches(plan, plans[:number]):
                gone, spent = (0, 0.0) if dry_run else await self._delete(runs, plan.cutoff_ms)
                matched += len(runs)
                deleted += gone
                total += len(runs) if dry_run else gone
                if progress is not None:
                    progress(total)
                await self._rest(self._pause * spent)
            done.append(Pruned(plan.policy, matched, deleted))
        return PruneReport(tuple(done), dry_run)

    async def _plans(self, policies: Sequence[Retention]) -> list[Plan]:
        """Fix all ages and numbers before anything is deleted, so that a dry run counts what a real one deletes."""
        clock = await self._manager.fetch(self._queries["retention_clock"])
        now_ms = clock[0]["now_ms"]
        return [Plan(each, cutoff_ms(each, now_ms), await self._boundary(each)) for each in policies]

    async def _boundary(self, policy: Retention) -> Place | None:
        """Return the oldest run that is kept for the number's sake; one before all others if there are too few."""
        if policy.keep_last is None:
            return None
        row = await self._manager.fetchone(
            self._queries["retention_boundary"], **_wanted(policy), skipped=policy.keep_last - 1
        )
        return BEFORE_ALL if row is None else (row["created_at"], row["workflow_uuid"])

    async def _batches(self, plan: Plan, earlier: Sequence[Plan]) -> AsyncIterator[list[Row]]:
        """Yield the runs that *plan* takes and no *earlier* one did, oldest first."""
        from_ms = 0
        while from_ms <= plan.until_ms:
            begun = self._world.monotonic()
            to_ms, rows = await _to_its_end(self._walk(plan, from_ms))
            await self._rest(min(_READ_PAUSE, self._pause) * (self._world.monotonic() - begun))
            runs = [row for row in rows if plan.takes(row) and not any(each.takes(row) for each in earlier)]
            for first in range(0, len(runs), self._batch):
                yield runs[first : first + self._batch]
            from_ms = to_ms

    async def _walk(self, plan: Plan, from_ms: int) -> tuple[int, list[Row]]:
        """Look at the next stretch of time, of at least a millisecond; return where it ends, and what may fit."""
        end = await self._manager.fetchone(self._queries["retention_stretch"], from_ms=from_ms, most=_WALK)
        past = plan.until_ms + 1
        to_ms = past if end is None else min(past, max(end["created_at"], from_ms + 1))
        rows = await self._manager.fetch(
            self._queries["retention_walk"],
            **_wanted(plan.policy),
            from_ms=from_ms,
            to_ms=to_ms,
            cutoff_ms=plan.cutoff_ms,
        )
        return to_ms, rows

    async def _delete(self, runs: Sequence[Row], cutoff: int) -> tuple[int, float]:
        """Delete those of *runs* that are as they were; return how many, and how many seconds that took."""
        query = self._queries["retention_delete"]
        rows = sorted((row["workflow_uuid"], row["status"]) for row in runs)
        begun = self._world.monotonic()

        async def work(transaction: Transaction) -> int:
            nonlocal begun
            begun = self._world.monotonic()  # the wait for a turn before that holds up nobody
            return await transaction.execute_batch(query, rows, cutoff_ms=cutoff)

        async def surely() -> int:
            try:
                return await self._manager.run(work)
            except UnknownCommit:  # one transaction: if any of them is gone it was carried out
                gone = len(rows) - await self._there([each for each, _ in rows])
                return gone or await self._manager.run(work)

        deleted = await _to_its_end(surely())
        return deleted, self._world.monotonic() - begun

    async def _there(self, ids: Sequence[str]) -> int:
        return len(await self._manager.fetch_batch(self._queries["retention_there"], [(each,) for each in ids]))

    async def _rest(self, seconds: float) -> None:
        await self._world.sleep(min(_LONGEST_PAUSE, seconds))


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Do *work* to its end also when the one who waits for it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _wanted(policy: Retention) -> dict[str, Any]:
    return {
        "statuses": msgspec.json.encode(policy.statuses).decode(),
        "names": msgspec.json.encode(policy.names or ()).decode(),
        "any_name": int(policy.names is None),
    }
