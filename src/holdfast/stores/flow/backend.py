"""``ShelfBackend``: flow checkpoints in both colours, over a shelf that only keeps and finds.

Sync names block, names with an ``a`` in front are for tasks; both do the same. Nothing given to a backend is changed,
but for ``revision``, which a save raises.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.core.durations import checked_seconds
from holdfast.model.world import RealWorld, World
from holdfast.stores.cancels import cancels
from holdfast.stores.flow.documented import LEASE, CheckpointBackend
from holdfast.stores.flow.model import CheckpointStatus, FlowCheckpoint
from holdfast.stores.flow.shelf import Wanted
from holdfast.stores.flow.verbs import WAITING, CheckpointClaim, Limits, Verbs, checked_number, iso
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.stores.flow.shelf import Shelf

T = TypeVar("T")

MAX_BYTES = 64 * 1024 * 1024


class Way(Protocol):
    """How a call reaches the shelf, from a thread and from a task."""

    def call(self, work: Callable[[Shelf], Awaitable[T]]) -> T:
        """Do *work* from a thread that may wait."""

    async def acall(self, work: Callable[[Shelf], Awaitable[T]], *, carried: bool = False) -> T:
        """Do *work* for a task. Once begun, what is *carried* ends though that task is cancelled meanwhile."""

    def close(self) -> None:
        """End what sync calls have opened."""

    async def aclose(self) -> None:
        """End what was opened by sync calls and on this loop."""

    async def aclose_here(self) -> None:
        """End what was opened on this loop."""


class ShelfBackend(CheckpointBackend):
    """Any backend of ours, by its *way* to a shelf.

    Safe for any number of tasks and threads. A task that is cancelled while it stores or claims is told when that is
    done: what is stored stays, what is claimed is given back. *max_bytes* is how large one checkpoint may be. With
    *max_checkpoints* or *ttl* a new checkpoint makes its flow's old ones go, within the rules of ``cleanup``. *rises*
    is told of each checkpoint that is stored in a transaction of somebody else's, before its revision rises.
    """

    def __init__(
        self,
        way: Way,
        *,
        max_bytes: int = MAX_BYTES,
        max_checkpoints: int | None = None,
        ttl: Duration | None = None,
        world: World | None = None,
        rises: Callable[[FlowCheckpoint], None] | None = None,
    ) -> None:
        self._way = way
        limits = Limits(max_bytes, max_checkpoints, None if ttl is None else checked_seconds(ttl, "ttl"))
        self._verbs = Verbs(limits, world or RealWorld(), rises)

    def save(self, checkpoint: FlowCheckpoint) -> str:
        return self._way.call(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=False))

    def load(self, checkpoint_id: str) -> FlowCheckpoint | None:
        return self._way.call(lambda shelf: self._verbs.load(shelf, checkpoint_id))

    def update(self, checkpoint: FlowCheckpoint) -> None:
        self._way.call(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=True))

    def delete(self, checkpoint_id: str) -> bool:
        return self._way.call(lambda shelf: self._verbs.delete(shelf, checkpoint_id))

    def list_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        wanted = _of_flow(flow_id, status, before, limit)
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def list_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        wanted = _of_run(run_id, status, before, limit)
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def get_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        wanted = _of_flow(flow_id, status, limit=1)
        return self._way.call(lambda shelf: self._verbs.newest(shelf, wanted))

    def newest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        wanted = _of_run(run_id, limit=1, flow_id=flow_id)
        return self._way.call(lambda shelf: self._verbs.newest_id(shelf, wanted))

    def get_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        return self._way.call(lambda shelf: self._verbs.chain(shelf, checkpoint_id))

    def pending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        wanted = _that_wait(flow_id, limit)
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def due(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        wanted = _that_wait(None, limit)._replace(due_at=iso(self._verbs.now()))
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def cleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        wanted = _of_flow(flow_id)
        return self._way.call(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    def cleanup_run(self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        wanted = _of_run(run_id)
        return self._way.call(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    def claim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        return self._way.call(lambda shelf: self._verbs.claim(shelf, checkpoint_id, lease))

    def follow(self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE) -> CheckpointClaim:
        return self._way.call(lambda shelf: self._verbs.follow(shelf, claim, checkpoint, lease))

    def extend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        return self._way.call(lambda shelf: self._verbs.extend(shelf, claim, lease))

    def release_claim(self, claim: CheckpointClaim) -> bool:
        return self._way.call(lambda shelf: self._verbs.release(shelf, claim))

    def close(self) -> None:
        self._way.close()

    async def asave(self, checkpoint: FlowCheckpoint) -> str:
        return await self._carried(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=False))

    async def aload(self, checkpoint_id: str) -> FlowCheckpoint | None:
        return await self._way.acall(lambda shelf: self._verbs.load(shelf, checkpoint_id))

    async def aupdate(self, checkpoint: FlowCheckpoint) -> None:
        await self._carried(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=True))

    async def adelete(self, checkpoint_id: str) -> bool:
        return await self._way.acall(lambda shelf: self._verbs.delete(shelf, checkpoint_id))

    async def alist_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        wanted = _of_flow(flow_id, status, before, limit)
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def alist_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        wanted = _of_run(run_id, status, before, limit)
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def aget_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        wanted = _of_flow(flow_id, status, limit=1)
        return await self._way.acall(lambda shelf: self._verbs.newest(shelf, wanted))

    async def anewest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        wanted = _of_run(run_id, limit=1, flow_id=flow_id)
        return await self._way.acall(lambda shelf: self._verbs.newest_id(shelf, wanted))

    async def aget_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        return await self._way.acall(lambda shelf: self._verbs.chain(shelf, checkpoint_id))

    async def apending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        wanted = _that_wait(flow_id, limit)
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def adue(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        wanted = _that_wait(None, limit)._replace(due_at=iso(self._verbs.now()))
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def acleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        wanted = _of_flow(flow_id)
        return await self._way.acall(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    async def acleanup_run(
        self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None
    ) -> int:
        wanted = _of_run(run_id)
        return await self._way.acall(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    async def aclaim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        return await self._carried(lambda shelf: self._verbs.claim(shelf, checkpoint_id, lease))

    async def afollow(
        self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE
    ) -> CheckpointClaim:
        return await self._carried(lambda shelf: self._verbs.follow(shelf, claim, checkpoint, lease))

    async def aextend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        return await self._way.acall(lambda shelf: self._verbs.extend(shelf, claim, lease))

    async def arelease_claim(self, claim: CheckpointClaim) -> bool:
        return await self._carried(lambda shelf: self._verbs.release(shelf, claim))

    async def aclose(self) -> None:
        await self._way.aclose()

    async def aclose_here(self) -> None:
        await self._way.aclose_here()

    async def _carried(self, work: Callable[[Shelf], Awaitable[T]]) -> T:
        """Carry *work* out though this task is cancelled meanwhile; then give back what it has claimed, and raise."""
        before = cancels()
        done = await self._way.acall(work, carried=True)
        if cancels() > before:
            if isinstance(done, CheckpointClaim):
                await self.arelease_claim(done)
            raise asyncio.CancelledError
        return done


def _of_flow(
    flow_id: str,
    status: CheckpointStatus | None = None,
    before: datetime | None = None,
    limit: int | None = None,
) -> Wanted:
    """Return what is wanted of one flow. An id that is None or no text is refused: it would stand for all, or many."""
    return _narrowed(Wanted(flow_id=checked_key(flow_id, "flow_id")), status, before, limit)


def _of_run(
    run_id: str,
    status: CheckpointStatus | None = None,
    before: datetime | None = None,
    limit: int | None = None,
    flow_id: str | None = None,
) -> Wanted:
    """Return what is wanted of one run, likewise."""
    flow = None if flow_id is None else checked_key(flow_id, "flow_id")
    return _narrowed(Wanted(flow, checked_key(run_id, "run_id")), status, before, limit)


def _that_wait(flow_id: str | None, limit: int | None) -> Wanted:
    """Return those that wait, of all flows if none is named."""
    flow = None if flow_id is None else checked_key(flow_id, "flow_id")
    return Wanted(flow, status=WAITING, limit=checked_number(limit, "limit"))


def _narrowed(wanted: Wanted, status: CheckpointStatus | None, before: datetime | None, limit: int | None) -> Wanted:
    return wanted._replace(
        status=None if status is None else (CheckpointStatus(status).value,),
        before=None if before is None else iso(before, "before"),
        limit=checked_number(limit, "limit"),
    )


__all__ = ["MAX_BYTES", "CheckpointClaim", "ShelfBackend", "Way"]
