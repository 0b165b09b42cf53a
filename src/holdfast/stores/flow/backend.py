"""``CheckpointBackend``: flow checkpoints in both colours, over a shelf that only keeps and finds.

Sync names block, names with an ``a`` in front are for tasks; both do the same. Nothing given to a backend is changed,
but for ``revision``, which a save raises.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import CannotDeserialize, ConfigurationError, DatabaseError
from holdfast.model.workflow import seconds
from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.errors import DamagedCheckpoint, NotFoundError, StaleCheckpoint, StorageError
from holdfast.stores.flow.model import CheckpointStatus, FlowCheckpoint, in_utc
from holdfast.stores.flow.retention import deletable
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType
    from typing import Self

    from holdfast.model.workflow import Duration
    from holdfast.stores.flow.shelf import Shelf

_WAITING = tuple(status.value for status in CheckpointStatus if status.waits)
_LEASE = 60.0


@dataclass(frozen=True)
class CheckpointClaim:
    """The right to go on from a checkpoint that waits: the checkpoint as it is, and the token of this claim."""

    checkpoint: FlowCheckpoint
    token: str


class CheckpointBackend:
    """Flow checkpoints; a backend of one kind is made by its own class, or by ``from_url``.

    Safe for any number of tasks and threads. *max_bytes* is how large one checkpoint may be.
    """

    def __init__(
        self,
        open_: Callable[[], Coroutine[Any, Any, Shelf]],
        *,
        one: bool = False,
        max_bytes: int = 64 * 1024 * 1024,
        world: World | None = None,
    ) -> None:
        self._sides: Sides[Shelf] = Sides(open_, one=one)
        self._max_bytes = max_bytes
        self._world = world or RealWorld()

    # Each call as a coroutine over the shelf.

    async def _save(self, shelf: Shelf, checkpoint: FlowCheckpoint, *, must_exist: bool) -> str:
        expected = checkpoint.revision
        card = self._card(checkpoint)
        if must_exist and expected == 0:
            found = await shelf.get(checkpoint.id)
            if found is None:
                raise _missing(checkpoint.id)
            raise _stale(checkpoint)
        with _as_storage_error(f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} was not stored"):
            outcome = await shelf.put(card, expected)
        if outcome is Put.MISSING:
            raise _missing(checkpoint.id)
        if outcome is Put.STALE:
            raise _stale(checkpoint)
        checkpoint.revision = card.revision
        return checkpoint.id

    async def _load(self, shelf: Shelf, checkpoint_id: str) -> FlowCheckpoint | None:
        with _as_storage_error(f"The checkpoint {checkpoint_id} could not be read"):
            card = await shelf.get(checkpoint_id)
        return None if card is None else _opened(card)

    async def _list(self, shelf: Shelf, wanted: Wanted) -> list[FlowCheckpoint]:
        if wanted.limit is not None and wanted.limit < 0:
            raise ConfigurationError(f"A limit is 0 or more, not {wanted.limit}.")
        if wanted.limit == 0:
            return []
        with _as_storage_error("The checkpoints could not be listed"):
            return [_opened(card) for card in await shelf.query(wanted)]

    async def _chain(self, shelf: Shelf, checkpoint_id: str) -> list[FlowCheckpoint]:
        chain: list[FlowCheckpoint] = []
        next_id: str | None = checkpoint_id
        while next_id is not None and all(next_id != each.id for each in chain):
            found = await self._load(shelf, next_id)
            if found is None:
                break
            chain.append(found)
            next_id = found.parent_checkpoint_id
        return chain

    async def _cleanup(
        self, shelf: Shelf, wanted: Wanted, keep_count: int | None, older_than_days: float | None
    ) -> int:
        if keep_count is not None and keep_count < 0:
            raise ConfigurationError(f"keep_count is 0 or more, not {keep_count}.")
        oldest = None if older_than_days is None else iso(self._now() - timedelta(days=older_than_days))
        with _as_storage_error("The checkpoints could not be cleaned up"):
            cards = await shelf.skeleton(wanted)
            going = deletable(cards, keep_count=keep_count, older_than=oldest)
            return await shelf.delete_all(going) if going else 0

    async def _claim(self, shelf: Shelf, checkpoint_id: str, lease: float) -> CheckpointClaim | None:
        token = self._world.new_id()
        with _as_storage_error(f"The checkpoint {checkpoint_id} could not be claimed"):
            if not await shelf.claim(checkpoint_id, token, lease):
                return None
        checkpoint = await self._load(shelf, checkpoint_id)
        return None if checkpoint is None else CheckpointClaim(checkpoint, token)

    def _card(self, checkpoint: FlowCheckpoint) -> Card:
        stored = replace(checkpoint, revision=checkpoint.revision + 1, updated_at=self._now())
        data = stored.to_bytes()
        if len(data) > self._max_bytes:
            raise StorageError(
                f"The checkpoint {stored.id} has {len(data)} bytes, at most {self._max_bytes} are allowed; "
                "keep large files outside and store where they are."
            )
        resume_at = stored.resume_at
        return Card(
            stored.id,
            stored.flow_id,
            stored.run_id,
            stored.wf_run_id or stored.run_id,
            stored.status.value,
            stored.parent_checkpoint_id,
            iso(stored.created_at),
            iso(stored.updated_at),
            None if resume_at is None else iso(resume_at),
            stored.revision,
            data,
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._world.now(), UTC)

    # The documented calls.

    def save(self, checkpoint: FlowCheckpoint) -> str:
        """Store a checkpoint, a new one or a newer revision of one that is there; return its id.

        Raises ``StaleCheckpoint`` if somebody else has stored it since it was loaded, ``CannotSerialize`` with the path
        of what cannot be kept, ``StorageError`` otherwise.
        """
        return self._sides.call(lambda shelf: self._save(shelf, checkpoint, must_exist=False))

    def load(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Return a checkpoint, or None if there is none; ``DamagedCheckpoint`` if it cannot be read."""
        return self._sides.call(lambda shelf: self._load(shelf, checkpoint_id))

    def update(self, checkpoint: FlowCheckpoint) -> None:
        """Store a newer revision of a checkpoint that is there; raises as ``save``, ``NotFoundError`` if it is not."""
        self._sides.call(lambda shelf: self._save(shelf, checkpoint, must_exist=True))

    def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; return whether there was one."""
        return self._sides.call(lambda shelf: shelf.delete(checkpoint_id))

    def list_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Return the checkpoints of a flow, newest first; only those created before *before*, if given."""
        wanted = _wanted(flow_id, None, status, before, limit)
        return self._sides.call(lambda shelf: self._list(shelf, wanted))

    def list_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Return the checkpoints of a run, by the id of the attempt or of the whole run, newest first."""
        wanted = _wanted(None, run_id, status, before, limit)
        return self._sides.call(lambda shelf: self._list(shelf, wanted))

    def get_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Return the newest checkpoint of a flow, or None."""
        wanted = _wanted(flow_id, None, status, None, 1)
        return next(iter(self._sides.call(lambda shelf: self._list(shelf, wanted))), None)

    def get_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Return a checkpoint and those it came from, newest first."""
        return self._sides.call(lambda shelf: self._chain(shelf, checkpoint_id))

    def pending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait, of one flow or of all, newest first."""
        wanted = Wanted(flow_id, status=_WAITING, limit=limit)
        return self._sides.call(lambda shelf: self._list(shelf, wanted))

    def due(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Return the checkpoints that wait for a moment which has come."""
        wanted = Wanted(status=_WAITING, due_at=iso(self._now()), limit=limit)
        return self._sides.call(lambda shelf: self._list(shelf, wanted))

    def cleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Delete checkpoints of a flow beyond the newest *keep_count*, or older; return how many.

        Never one that waits, and never the newest of a run that has not ended.
        """
        wanted = Wanted(flow_id)
        return self._sides.call(lambda shelf: self._cleanup(shelf, wanted, keep_count, older_than_days))

    def cleanup_run(self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup`` for the checkpoints of one run."""
        wanted = Wanted(run_id=run_id)
        return self._sides.call(lambda shelf: self._cleanup(shelf, wanted, keep_count, older_than_days))

    def claim(self, checkpoint_id: str, *, lease: Duration = _LEASE) -> CheckpointClaim | None:
        """Take the right to go on from a checkpoint, for *lease* seconds; None if it is not to be had.

        One of all who ask gets it. Its revision rises, so that whoever had it before cannot store it any more.
        """
        return self._sides.call(lambda shelf: self._claim(shelf, checkpoint_id, seconds(lease)))

    def extend_claim(self, claim: CheckpointClaim, *, lease: Duration = _LEASE) -> bool:
        """Hold a claim for *lease* seconds from now; False if it is lost."""
        return self._sides.call(lambda shelf: shelf.extend(claim.checkpoint.id, claim.token, seconds(lease)))

    def release_claim(self, claim: CheckpointClaim) -> bool:
        """Give a claim back; False if it was lost."""
        return self._sides.call(lambda shelf: shelf.release(claim.checkpoint.id, claim.token))

    def close(self) -> None:
        """End the connections that sync calls have opened."""
        self._sides.close()

    async def asave(self, checkpoint: FlowCheckpoint) -> str:
        """Do as ``save``, for a task."""
        return await self._sides.acall(lambda shelf: self._save(shelf, checkpoint, must_exist=False))

    async def aload(self, checkpoint_id: str) -> FlowCheckpoint | None:
        """Do as ``load``, for a task."""
        return await self._sides.acall(lambda shelf: self._load(shelf, checkpoint_id))

    async def aupdate(self, checkpoint: FlowCheckpoint) -> None:
        """Do as ``update``, for a task."""
        await self._sides.acall(lambda shelf: self._save(shelf, checkpoint, must_exist=True))

    async def adelete(self, checkpoint_id: str) -> bool:
        """Do as ``delete``, for a task."""
        return await self._sides.acall(lambda shelf: shelf.delete(checkpoint_id))

    async def alist_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Do as ``list_by_flow``, for a task."""
        wanted = _wanted(flow_id, None, status, before, limit)
        return await self._sides.acall(lambda shelf: self._list(shelf, wanted))

    async def alist_by_run(
        self,
        run_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        """Do as ``list_by_run``, for a task."""
        wanted = _wanted(None, run_id, status, before, limit)
        return await self._sides.acall(lambda shelf: self._list(shelf, wanted))

    async def aget_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        """Do as ``get_latest``, for a task."""
        wanted = _wanted(flow_id, None, status, None, 1)
        return next(iter(await self._sides.acall(lambda shelf: self._list(shelf, wanted))), None)

    async def aget_chain(self, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Do as ``get_chain``, for a task."""
        return await self._sides.acall(lambda shelf: self._chain(shelf, checkpoint_id))

    async def apending_inputs(self, flow_id: str | None = None, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``pending_inputs``, for a task."""
        wanted = Wanted(flow_id, status=_WAITING, limit=limit)
        return await self._sides.acall(lambda shelf: self._list(shelf, wanted))

    async def adue(self, *, limit: int | None = 100) -> list[FlowCheckpoint]:
        """Do as ``due``, for a task."""
        wanted = Wanted(status=_WAITING, due_at=iso(self._now()), limit=limit)
        return await self._sides.acall(lambda shelf: self._list(shelf, wanted))

    async def acleanup(self, flow_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None) -> int:
        """Do as ``cleanup``, for a task."""
        wanted = Wanted(flow_id)
        return await self._sides.acall(lambda shelf: self._cleanup(shelf, wanted, keep_count, older_than_days))

    async def acleanup_run(
        self, run_id: str, *, keep_count: int | None = 10, older_than_days: float | None = None
    ) -> int:
        """Do as ``cleanup_run``, for a task."""
        wanted = Wanted(run_id=run_id)
        return await self._sides.acall(lambda shelf: self._cleanup(shelf, wanted, keep_count, older_than_days))

    async def aclaim(self, checkpoint_id: str, *, lease: Duration = _LEASE) -> CheckpointClaim | None:
        """Do as ``claim``, for a task."""
        return await self._sides.acall(lambda shelf: self._claim(shelf, checkpoint_id, seconds(lease)))

    async def aextend_claim(self, claim: CheckpointClaim, *, lease: Duration = _LEASE) -> bool:
        """Do as ``extend_claim``, for a task."""
        return await self._sides.acall(lambda shelf: shelf.extend(claim.checkpoint.id, claim.token, seconds(lease)))

    async def arelease_claim(self, claim: CheckpointClaim) -> bool:
        """Do as ``release_claim``, for a task."""
        return await self._sides.acall(lambda shelf: shelf.release(claim.checkpoint.id, claim.token))

    async def aclose(self) -> None:
        """End the connections that were opened by sync calls and on this loop."""
        await self._sides.aclose()

    async def aclose_here(self) -> None:
        """End the connections that were opened on this loop, which is about to end."""
        await self._sides.aclose_here()

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


def iso(moment: datetime) -> str:
    """Return *moment* as text whose order is that of time."""
    return in_utc(moment).isoformat(timespec="microseconds")


def _wanted(
    flow_id: str | None,
    run_id: str | None,
    status: CheckpointStatus | None,
    before: datetime | None,
    limit: int | None,
) -> Wanted:
    statuses = None if status is None else (CheckpointStatus(status).value,)
    return Wanted(flow_id, run_id, statuses, None if before is None else iso(before), None, limit)


def _opened(card: Card) -> FlowCheckpoint:
    try:
        checkpoint = FlowCheckpoint.from_bytes(card.data)
    except (CannotDeserialize, TypeError, ValueError) as error:
        raise DamagedCheckpoint(
            f"The checkpoint {card.id} of the flow {card.flow_id} cannot be read: {error}"
        ) from error
    checkpoint.revision = card.revision
    return checkpoint


def _missing(checkpoint_id: str) -> NotFoundError:
    return NotFoundError(f"There is no checkpoint {checkpoint_id}; save() it first.")


def _stale(checkpoint: FlowCheckpoint) -> StaleCheckpoint:
    return StaleCheckpoint(
        f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} has been stored by somebody else since this "
        f"revision ({checkpoint.revision}), or belongs to another flow; load it again."
    )


@contextmanager
def _as_storage_error(what: str) -> Iterator[None]:
    try:
        yield
    except (DatabaseError, OSError) as error:
        raise StorageError(f"{what}: {error}") from error


__all__ = ["CheckpointBackend", "CheckpointClaim", "iso"]
