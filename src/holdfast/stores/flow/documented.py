"""``CheckpointBackend``: the documented face of a storage of flow checkpoints, which anybody may write.

Six calls are a backend. What else the document gives to every backend, cleaning up and the calls for tasks, stands on
them here. Names with an ``a`` in front are for tasks, and do the same as those without.
"""

# ruff: noqa: ARG002 -- a call that a backend lacks has its arguments all the same

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.durations import days
from holdfast.errors import MisuseError
from holdfast.stores.flow.retention import deletable
from holdfast.stores.flow.verbs import card_of, checked_number, iso
from holdfast.stores.on_thread import on_thread

if TYPE_CHECKING:
    from typing import Self

    from holdfast.model.workflow import Duration
    from holdfast.stores.flow.model import CheckpointStatus, FlowCheckpoint
    from holdfast.stores.flow.verbs import CheckpointClaim

LEASE = 60.0
_MANY = 1000  # checkpoints that cleaning up asks for at first


class CheckpointBackend(ABC):
    """Flow checkpoints; a backend of ours is made by its own class, or by ``from_url``.

    Whoever writes one of one's own derives from this and has ``save``, ``load``, ``update``, ``delete``,
    ``list_by_flow`` and ``get_latest``, safe for any number of threads: tasks call them there. It may replace whatever
    else it does better. Calls about runs, waiting and claims need more than these six: ``MisuseError`` without.
    """

    @abstractmethod
    def save(self, checkpoint: FlowCheckpoint) -> str:
        """Store a checkpoint, a new one or a newer revision of one that is there; return its id.

        Raises ``StaleCheckpoint`` if somebody else has stored it since it was loaded, ``CannotSerialize`` with the path
        of what cannot be kept, ``StorageError`` otherwise.
        """

    @abstractmethod
    def load(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Return a checkpoint, or None if there is none; ``DamagedCheckpoint`` if it cannot be read."""

    @abstractmethod
    def update(self, checkpoint: FlowCheckpoint) -> None:
        """Store a newer revision of a checkpoint that is there; raises as ``save``, ``NotFoundError`` if it is not."""

    @abstractmethod
    def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; return whether there was one."""

    @abstractmethod
    def list_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Return the checkpoints of a flow, newest first; only those created before *before*, if given."""

    @abstractmethod
    def get_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Return the newest checkpoint of a flow, or None. ``DamagedCheckpoint`` if it cannot be read."""

    def cleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Delete checkpoints of a flow beyond the newest *keep_count*, or older; return how many.

        Never one that waits, and never the newest of a run that has not ended.
        """
        checked_number(keep_count, "keep_count")
        oldest = None if older_than_days is None else iso(datetime.now(UTC) - days(older_than_days, "older_than_days"))
        most = _MANY
        while len(found := self.list_by_flow(flow_id, limit=most)) >= most:
            most *= 2
        going = deletable([card_of(each) for each in found], keep_count=keep_count, older_than=oldest)
        return sum(self.delete(card.id) for card in going)

    def list_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Return the checkpoints of a run, by the id of the attempt or of the whole run, newest first."""
        raise self._lacks("list_by_run")

    def newest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        """Return the id of a run's newest checkpoint, also of one that cannot be read; None if there is none.

        Runs of several flows may have one id: *flow_id* says whose is meant.
        """
        raise self._lacks("newest_of_run")

    def get_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Return a checkpoint and those it came from, newest first."""
        raise self._lacks("get_chain")

    def pending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait, of one flow or of all, newest first."""
        raise self._lacks("pending_inputs")

    def due(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait for a moment which has come."""
        raise self._lacks("due")

    def cleanup_run(self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup`` for the checkpoints of one run."""
        raise self._lacks("cleanup_run")

    def claim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        """Take the right to go on from a checkpoint, for *lease* seconds; None if it is not to be had.

        One of all who ask gets it. Its revision rises, so that whoever had it before cannot store it any more.
        """
        raise self._lacks("claim")

    def follow(self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE) -> CheckpointClaim:
        """Store a new checkpoint that comes after the claimed one, and pass the claim on to it, in one.

        Raises ``StaleCheckpoint`` if the claim is over, and then stores nothing: whoever was late changes nothing.
        """
        raise self._lacks("follow")

    def extend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        """Hold a claim for *lease* seconds from now; False if it is lost."""
        raise self._lacks("extend_claim")

    def release_claim(self, claim: CheckpointClaim) -> bool:
        """Give a claim back; False if it was lost."""
        raise self._lacks("release_claim")

    def close(self) -> None:  # noqa: B027 -- a backend that has opened nothing has nothing to end
        """End the connections that sync calls have opened."""

    async def asave(self, checkpoint: FlowCheckpoint) -> str:
        """Do as ``save``, for a task."""
        return await on_thread(None, self.save, checkpoint)

    async def aload(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Do as ``load``, for a task."""
        return await on_thread(None, self.load, checkpoint_id)

    async def aupdate(self, checkpoint: FlowCheckpoint) -> None:
        """Do as ``update``, for a task."""
        await on_thread(None, self.update, checkpoint)

    async def adelete(self, checkpoint_id: str) -> bool:
        """Do as ``delete``, for a task."""
        return await on_thread(None, self.delete, checkpoint_id)

    async def alist_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Do as ``list_by_flow``, for a task."""
        return await on_thread(None, self.list_by_flow, flow_id, status=status, limit=limit, before=before)

    async def alist_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Do as ``list_by_run``, for a task."""
        return await on_thread(None, self.list_by_run, run_id, status=status, limit=limit, before=before)

    async def aget_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Do as ``get_latest``, for a task."""
        return await on_thread(None, self.get_latest, flow_id, status=status)

    async def anewest_of_run(self, run_id: str, *, flow_id: str | None = None) -> str | None:
        """Do as ``newest_of_run``, for a task."""
        return await on_thread(None, self.newest_of_run, run_id, flow_id=flow_id)

    async def aget_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Do as ``get_chain``, for a task."""
        return await on_thread(None, self.get_chain, checkpoint_id)

    async def apending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``pending_inputs``, for a task."""
        return await on_thread(None, self.pending_inputs, flow_id, limit=limit)

    async def adue(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``due``, for a task."""
        return await on_thread(None, self.due, limit=limit)

    async def acleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup``, for a task."""
        return await on_thread(None, self.cleanup, flow_id, keep_count=keep_count, older_than_days=older_than_days)

    async def acleanup_run(
        self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None
    ) -> int:
        """Do as ``cleanup_run``, for a task."""
        return await on_thread(None, self.cleanup_run, run_id, keep_count=keep_count, older_than_days=older_than_days)

    async def aclaim(self, checkpoint_id: str, *, lease: Duration = LEASE) -> CheckpointClaim | None:
        """Do as ``claim``, for a task."""
        return await on_thread(None, self.claim, checkpoint_id, lease=lease)

    async def afollow(
        self, claim: CheckpointClaim, checkpoint: FlowCheckpoint, *, lease: Duration = LEASE
    ) -> CheckpointClaim:
        """Do as ``follow``, for a task."""
        return await on_thread(None, self.follow, claim, checkpoint, lease=lease)

    async def aextend_claim(self, claim: CheckpointClaim, *, lease: Duration = LEASE) -> bool:
        """Do as ``extend_claim``, for a task."""
        return await on_thread(None, self.extend_claim, claim, lease=lease)

    async def arelease_claim(self, claim: CheckpointClaim) -> bool:
        """Do as ``release_claim``, for a task."""
        return await on_thread(None, self.release_claim, claim)

    async def aclose(self) -> None:
        """End the connections that were opened by sync calls and on this loop."""
        await on_thread(None, self.close)

    async def aclose_here(self) -> None:  # noqa: B027 -- as above
        """End the connections that were opened on this loop, which is about to end."""

    def _lacks(self, call: str) -> MisuseError:
        return MisuseError(
            f"{type(self).__name__} has no {call}(): it is a backend of one's own that does without. Give it one, or "
            "use a backend that holdfast.stores has."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


__all__ = ["LEASE", "CheckpointBackend"]
