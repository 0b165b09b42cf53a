"""``CheckpointBackend``: flow checkpoints in both colours, over a shelf that only keeps and finds.

Sync names block, names with an ``a`` in front are for tasks; both do the same. Nothing given to a backend is changed,
but for ``revision``, which a save raises.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.core.durations import checked_seconds
from holdfast.model.world import RealWorld, World
from holdfast.stores.cancels import cancels
from holdfast.stores.flow.model import CheckpointStatus, FlowCheckpoint
from holdfast.stores.flow.shelf import Wanted
from holdfast.stores.flow.verbs import WAITING, CheckpointClaim, Limits, Verbs, checked_number, iso
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from holdfast.model.workflow import Duration
    from holdfast.stores.flow.shelf import Shelf

T = TypeVar("T")

LEASE = 60.0
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


class CheckpointBackend:
    """Flow checkpoints; a backend of one kind is made by its own class, or by ``from_url``.

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
        """Store a checkpoint, a new one or a newer revision of one that is there; return its id.

        Raises ``StaleCheckpoint`` if somebody else has stored it since it was loaded, ``CannotSerialize`` with the path
        of what cannot be kept, ``StorageError`` otherwise.
        """
        return self._way.call(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=False))

    def load(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Return a checkpoint, or None if there is none; ``DamagedCheckpoint`` if it cannot be read."""
        return self._way.call(lambda shelf: self._verbs.load(shelf, checkpoint_id))

    def update(self, checkpoint: FlowCheckpoint) -> None:
        """Store a newer revision of a checkpoint that is there; raises as ``save``, ``NotFoundError`` if it is not."""
        self._way.call(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=True))

    def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; return whether there was one."""
        return self._way.call(lambda shelf: self._verbs.delete(shelf, checkpoint_id))

    def list_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Return the checkpoints of a flow, newest first; only those created before *before*, if given."""
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
        """Return the checkpoints of a run, by the id of the attempt or of the whole run, newest first."""
        wanted = _of_run(run_id, status, before, limit)
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def get_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Return the newest checkpoint of a flow, or None. ``DamagedCheckpoint`` if it cannot be read."""
        wanted = _of_flow(flow_id, status, limit=1)
        return self._way.call(lambda shelf: self._verbs.newest(shelf, wanted))

    def newest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        """Return the id of a run's newest checkpoint, also of one that cannot be read; None if there is none.

        Runs of several flows may have one id: *flow_id* says whose is meant.
        """
        wanted = _of_run(run_id, limit=1, flow_id=flow_id)
        return self._way.call(lambda shelf: self._verbs.newest_id(shelf, wanted))

    def get_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Return a checkpoint and those it came from, newest first."""
        return self._way.call(lambda shelf: self._verbs.chain(shelf, checkpoint_id))

    def pending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait, of one flow or of all, newest first."""
        wanted = _that_wait(flow_id, limit)
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def due(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait for a moment which has come."""
        wanted = _that_wait(None, limit)._replace(due_at=iso(self._verbs.now()))
        return self._way.call(lambda shelf: self._verbs.find(shelf, wanted))

    def cleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Delete checkpoints of a flow beyond the newest *keep_count*, or older; return how many.

        Never one that waits, and never the newest of a run that has not ended.
        """
        wanted = _of_flow(flow_id)
        return self._way.call(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    def cleanup_run(self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup`` for the checkpoints of one run."""
        wanted = _of_run(run_id)
        return self._way.call(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    def claim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        """Take the right to go on from a checkpoint, for *lease* seconds; None if it is not to be had.

        One of all who ask gets it. Its revision rises, so that whoever had it before cannot store it any more.
        """
        return self._way.call(lambda shelf: self._verbs.claim(shelf, checkpoint_id, lease))

    def follow(self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE) -> CheckpointClaim:
        """Store a new checkpoint that comes after the claimed one, and pass the claim on to it, in one.

        Raises ``StaleCheckpoint`` if the claim is over, and then stores nothing: whoever was late changes nothing.
        """
        return self._way.call(lambda shelf: self._verbs.follow(shelf, claim, checkpoint, lease))

    def extend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        """Hold a claim for *lease* seconds from now; False if it is lost."""
        return self._way.call(lambda shelf: self._verbs.extend(shelf, claim, lease))

    def release_claim(self, claim: CheckpointClaim) -> bool:
        """Give a claim back; False if it was lost."""
        return self._way.call(lambda shelf: self._verbs.release(shelf, claim))

    def close(self) -> None:
        """End the connections that sync calls have opened."""
        self._way.close()

    async def asave(self, checkpoint: FlowCheckpoint) -> str:
        """Do as ``save``, for a task."""
        return await self._carried(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=False))

    async def aload(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Do as ``load``, for a task."""
        return await self._way.acall(lambda shelf: self._verbs.load(shelf, checkpoint_id))

    async def aupdate(self, checkpoint: FlowCheckpoint) -> None:
        """Do as ``update``, for a task."""
        await self._carried(lambda shelf: self._verbs.save(shelf, checkpoint, must_exist=True))

    async def adelete(self, checkpoint_id: str) -> bool:
        """Do as ``delete``, for a task."""
        return await self._way.acall(lambda shelf: self._verbs.delete(shelf, checkpoint_id))

    async def alist_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Do as ``list_by_flow``, for a task."""
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
        """Do as ``list_by_run``, for a task."""
        wanted = _of_run(run_id, status, before, limit)
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def aget_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Do as ``get_latest``, for a task."""
        wanted = _of_flow(flow_id, status, limit=1)
        return await self._way.acall(lambda shelf: self._verbs.newest(shelf, wanted))

    async def anewest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        """Do as ``newest_of_run``, for a task."""
        wanted = _of_run(run_id, limit=1, flow_id=flow_id)
        return await self._way.acall(lambda shelf: self._verbs.newest_id(shelf, wanted))

    async def aget_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Do as ``get_chain``, for a task."""
        return await self._way.acall(lambda shelf: self._verbs.chain(shelf, checkpoint_id))

    async def apending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``pending_inputs``, for a task."""
        wanted = _that_wait(flow_id, limit)
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def adue(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``due``, for a task."""
        wanted = _that_wait(None, limit)._replace(due_at=iso(self._verbs.now()))
        return await self._way.acall(lambda shelf: self._verbs.find(shelf, wanted))

    async def acleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup``, for a task."""
        wanted = _of_flow(flow_id)
        return await self._way.acall(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    async def acleanup_run(
        self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None
    ) -> int:
        """Do as ``cleanup_run``, for a task."""
        wanted = _of_run(run_id)
        return await self._way.acall(lambda shelf: self._verbs.cleanup(shelf, wanted, keep_count, older_than_days))

    async def aclaim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        """Do as ``claim``, for a task."""
        return await self._carried(lambda shelf: self._verbs.claim(shelf, checkpoint_id, lease))

    async def afollow(
        self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE
    ) -> CheckpointClaim:
        """Do as ``follow``, for a task."""
        return await self._carried(lambda shelf: self._verbs.follow(shelf, claim, checkpoint, lease))

    async def aextend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        """Do as ``extend_claim``, for a task."""
        return await self._way.acall(lambda shelf: self._verbs.extend(shelf, claim, lease))

    async def arelease_claim(self, claim: CheckpointClaim) -> bool:
        """Do as ``release_claim``, for a task."""
        return await self._carried(lambda shelf: self._verbs.release(shelf, claim))

    async def aclose(self) -> None:
        """End the connections that were opened by sync calls and on this loop."""
        await self._way.aclose()

    async def aclose_here(self) -> None:
        """End the connections that were opened on this loop, which is about to end."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


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
        before=None if before is None else iso(before),
        limit=checked_number(limit, "limit"),
    )


__all__ = ["LEASE", "MAX_BYTES", "CheckpointBackend", "CheckpointClaim", "Way"]
