"""What a backend of flow checkpoints can do, once for all: each call as a coroutine over a shelf."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.durations import SHORTEST_LEASE, checked_seconds, days
from holdfast.core.numbers import MOST_BITS
from holdfast.errors import (
    CannotDeserialize,
    ConfigurationError,
    DamagedCheckpoint,
    DatabaseError,
    NotFoundError,
    StaleCheckpoint,
    StorageError,
)
from holdfast.stores.flow.model import CheckpointStatus, FlowCheckpoint, in_utc, is_read
from holdfast.stores.flow.retention import deletable
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.flow.shelf import Shelf

logger = logging.getLogger("holdfast.flow")

WAITING = tuple(status.value for status in CheckpointStatus if status.waits)


@dataclass(frozen=True)
class CheckpointClaim:
    """The right to go on from a checkpoint: the checkpoint as it is, and the token of this claim."""

    checkpoint: FlowCheckpoint
    token: str


@dataclass(frozen=True)
class Limits:
    """How large a checkpoint may be, and which ones of a flow go when one is added; None stands for no limit."""

    max_bytes: int
    max_checkpoints: int | None
    ttl: float | None

    def __post_init__(self) -> None:
        checked_number(self.max_checkpoints, "max_checkpoints", least=1)
        if self.max_bytes is None:
            raise ConfigurationError("max_bytes is how large a checkpoint may be, a whole number from 1 on, not None.")
        checked_number(self.max_bytes, "max_bytes", least=1)


class Verbs:
    """Every call, over whichever shelf it is given. Nothing it is handed is changed but for ``revision``.

    *rises* is called with a checkpoint that is stored, before its revision says so.
    """

    def __init__(self, limits: Limits, world: World, rises: Callable[[FlowCheckpoint], None] | None = None) -> None:
        self._limits = limits
        self._world = world
        self._rises = rises

    async def save(self, shelf: Shelf, checkpoint: FlowCheckpoint, *, must_exist: bool) -> str:
        """Store a checkpoint, which has to be there already if it *must_exist*."""
        card = self._card(checkpoint)
        expected = checkpoint.revision
        with as_storage_error(f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} was not stored"):
            if must_exist and expected == 0:  # it was never stored, or somebody else has stored one of its id
                raise _missing(checkpoint.id) if await shelf.get(checkpoint.id) is None else _stale(checkpoint)
            outcome = await shelf.put(card, expected)
        self._stored(outcome, checkpoint, card)
        if expected == 0:
            await self._make_room(shelf, checkpoint.flow_id)
        return checkpoint.id

    async def follow(
        self, shelf: Shelf, claim: CheckpointClaim, checkpoint: FlowCheckpoint, lease: Duration
    ) -> CheckpointClaim:
        """Store a new checkpoint that comes after the claimed one, and pass the claim on to it."""
        card = self._card(checkpoint)
        if checkpoint.revision or checkpoint.id == claim.checkpoint.id:
            raise ConfigurationError(f"What follows a checkpoint is a new one; {checkpoint.id} is there: update() it.")
        with as_storage_error(f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} was not stored"):
            outcome = await shelf.follow(card, claim.checkpoint.id, claim.token, lease_seconds(lease))
        if outcome is Put.LOST:
            raise StaleCheckpoint(
                f"The claim of the checkpoint {claim.checkpoint.id} of the flow {checkpoint.flow_id} is over: somebody "
                "else may go on from it. Nothing was stored; stop."
            )
        self._stored(outcome, checkpoint, card)
        await self._make_room(shelf, checkpoint.flow_id)
        return CheckpointClaim(checkpoint, claim.token)

    async def load(self, shelf: Shelf, checkpoint_id: str) -> FlowCheckpoint | None:
        """Return a checkpoint, or None."""
        checkpoint_id = checked_key(checkpoint_id, "id of the checkpoint")
        with as_storage_error(f"The checkpoint {checkpoint_id} could not be read"):
            card = await shelf.get(checkpoint_id)
        return None if card is None else _opened(card)

    async def delete(self, shelf: Shelf, checkpoint_id: str) -> bool:
        """Delete a checkpoint; return whether there was one."""
        checkpoint_id = checked_key(checkpoint_id, "id of the checkpoint")
        with as_storage_error(f"The checkpoint {checkpoint_id} was not deleted"):
            return await shelf.delete(checkpoint_id)

    async def find(self, shelf: Shelf, wanted: Wanted) -> list[FlowCheckpoint]:
        """Return the wanted checkpoints; one that is damaged is left out, and said so."""
        if wanted.limit == 0:
            return []
        found = []
        for card in await self._cards(shelf, wanted):
            try:
                found.append(_opened(card))
            except DamagedCheckpoint as damaged:
                logger.warning("%s It is left out of the list.", damaged)
        return found

    async def newest(self, shelf: Shelf, wanted: Wanted) -> FlowCheckpoint | None:
        """Return the first wanted checkpoint. One that is damaged is an error: the one before it is not the newest."""
        cards = await self._cards(shelf, wanted)
        return _opened(cards[0]) if cards else None

    async def newest_id(self, shelf: Shelf, wanted: Wanted) -> str | None:
        """Return the id of the first wanted checkpoint, whether it can be read or not."""
        cards = await self._cards(shelf, wanted)
        return cards[0].id if cards else None

    async def _cards(self, shelf: Shelf, wanted: Wanted) -> list[Card]:
        with as_storage_error("The checkpoints could not be listed"):
            return await shelf.query(wanted)

    async def chain(self, shelf: Shelf, checkpoint_id: str) -> list[FlowCheckpoint]:
        """Return a checkpoint and those it came from, newest first; those of its own run are read together."""
        first = await self.load(shelf, checkpoint_id)
        if first is None:
            return []
        run = await self.find(shelf, Wanted(run_id=first.wf_run_id or first.run_id))
        known = {each.id: each for each in run}
        chain = {first.id: first}
        next_id = first.parent_checkpoint_id
        while next_id is not None and next_id not in chain:
            found = known.get(next_id) or await self.load(shelf, next_id)
            if found is None:
                break
            chain[next_id] = found
            next_id = found.parent_checkpoint_id
        return list(chain.values())

    async def cleanup(self, shelf: Shelf, wanted: Wanted, keep_count: int | None, older_than_days: float | None) -> int:
        """Delete those of the wanted checkpoints that may go."""
        checked_number(keep_count, "keep_count")
        oldest = None if older_than_days is None else iso(self.now() - days(older_than_days, "older_than_days"))
        with as_storage_error("The checkpoints could not be cleaned up"):
            going = deletable(await shelf.skeleton(wanted), keep_count=keep_count, older_than=oldest)
            return await shelf.delete_all(going) if going else 0

    async def claim(self, shelf: Shelf, checkpoint_id: str, lease: Duration) -> CheckpointClaim | None:
        """Claim a checkpoint; None if it is not to be had. One that cannot be read is not held either."""
        checkpoint_id = checked_key(checkpoint_id, "id of the checkpoint")
        token = self._world.new_id()
        with as_storage_error(f"The checkpoint {checkpoint_id} could not be claimed"):
            if not await shelf.claim(checkpoint_id, token, lease_seconds(lease)):
                return None
        try:
            checkpoint = await self.load(shelf, checkpoint_id)
        except StorageError:
            with suppress(DatabaseError, OSError):  # then it ends by itself
                await shelf.release(checkpoint_id, token)
            raise
        return None if checkpoint is None else CheckpointClaim(checkpoint, token)

    async def extend(self, shelf: Shelf, claim: CheckpointClaim, lease: Duration) -> bool:
        """Hold a claim for *lease* seconds from now."""
        with as_storage_error(f"The claim of the checkpoint {claim.checkpoint.id} could not be extended"):
            return await shelf.extend(claim.checkpoint.id, claim.token, lease_seconds(lease))

    async def release(self, shelf: Shelf, claim: CheckpointClaim) -> bool:
        """Give a claim back."""
        with as_storage_error(f"The claim of the checkpoint {claim.checkpoint.id} could not be given back"):
            return await shelf.release(claim.checkpoint.id, claim.token)

    def now(self) -> datetime:
        """Return the moment it is."""
        return datetime.fromtimestamp(self._world.now(), UTC)

    def _stored(self, outcome: Put, checkpoint: FlowCheckpoint, card: Card) -> None:
        """Raise the revision of what was stored, or raise what became of it."""
        if outcome is Put.MISSING:
            raise _gone(checkpoint)
        if outcome is not Put.STORED:
            raise _stale(checkpoint)
        if self._rises is not None:
            self._rises(checkpoint)
        checkpoint.revision = card.revision

    async def _make_room(self, shelf: Shelf, flow_id: str) -> None:
        """Delete what is beyond the limits. The checkpoint is stored: what goes wrong here must not deny that."""
        limits = self._limits
        if limits.max_checkpoints is None and limits.ttl is None:
            return
        days = None if limits.ttl is None else limits.ttl / 86400
        try:
            await self.cleanup(shelf, Wanted(flow_id), limits.max_checkpoints, days)
        except StorageError as error:
            logger.warning("Old checkpoints of the flow %s stay for now: %s", flow_id, error)

    def _card(self, checkpoint: FlowCheckpoint) -> Card:
        if not isinstance(checkpoint, FlowCheckpoint):
            raise TypeError(f"What is stored is a FlowCheckpoint, not {type(checkpoint).__name__}: make one of it.")
        stored = replace(checkpoint, revision=checkpoint.revision + 1, updated_at=self.now())
        whole_run = stored.wf_run_id or stored.run_id
        checked_key(stored.id, "id of the checkpoint")
        checked_key(stored.flow_id, "flow_id")
        checked_key(stored.run_id, "run_id")
        checked_key(whole_run, "wf_run_id")
        if stored.parent_checkpoint_id is not None:
            checked_key(stored.parent_checkpoint_id, "parent_checkpoint_id")
        if not is_read(stored.version):
            raise ConfigurationError(
                f"The checkpoint {stored.id} has version {stored.version!r}; this release stores and reads 1.x."
            )
        data = stored.to_bytes()
        if len(data) > self._limits.max_bytes:
            raise StorageError(
                f"The checkpoint {stored.id} has {len(data)} bytes, at most {self._limits.max_bytes} are allowed; "
                "keep large files outside and store where they are."
            )
        return card_of(stored)._replace(data=data)


def card_of(checkpoint: FlowCheckpoint) -> Card:
    """Return what a checkpoint is found by, without its data."""
    resume_at = checkpoint.resume_at
    return Card(
        checkpoint.id,
        checkpoint.flow_id,
        checkpoint.run_id,
        checkpoint.wf_run_id or checkpoint.run_id,
        CheckpointStatus(checkpoint.status).value,
        checkpoint.parent_checkpoint_id,
        iso(checkpoint.created_at, "created_at"),
        iso(checkpoint.updated_at, "updated_at"),
        None if resume_at is None else iso(resume_at, "resume_at"),
        checkpoint.revision,
        b"",
    )


def lease_seconds(lease: Duration) -> float:
    """Return how long a claim holds, checked."""
    return checked_seconds(lease, "lease", least=SHORTEST_LEASE)


def checked_number(number: int | None, what: str, *, least: int = 0) -> int | None:
    """Return *number*, which may be None for no limit; ``ConfigurationError`` if no database takes it."""
    if number is not None and (type(number) is not int or not least <= number <= MOST_BITS):
        raise ConfigurationError(f"{what} is None or a whole number from {least} on, of 64 bits, not {number!r:.50}.")
    return number


def iso(moment: datetime, what: str = "moment") -> str:
    """Return *moment* as text whose order is that of time; refused as ``in_utc`` refuses it."""
    return in_utc(moment, what).isoformat(timespec="microseconds")


@contextmanager
def as_storage_error(what: str) -> Iterator[None]:
    """Turn what a database or a file system says into ``StorageError``."""
    try:
        yield
    except (DatabaseError, OSError) as error:
        raise StorageError(f"{what}: {error}") from error


def _opened(card: Card) -> FlowCheckpoint:
    if not card.data:
        raise DamagedCheckpoint(
            f"The checkpoint {card.id} of the flow {card.flow_id} is not what was written: it was changed or cut off."
        )
    try:
        checkpoint = FlowCheckpoint.from_bytes(card.data)
        checkpoint.created_at = datetime.fromisoformat(card.created_at)  # by which it is found, whatever was set since
    except (CannotDeserialize, TypeError, ValueError, AttributeError) as error:
        raise DamagedCheckpoint(
            f"The checkpoint {card.id} of the flow {card.flow_id} cannot be read: {error}"
        ) from error
    checkpoint.revision = card.revision
    return checkpoint


def _missing(checkpoint_id: str) -> NotFoundError:
    return NotFoundError(f"There is no checkpoint {checkpoint_id}; save() it first.")


def _gone(checkpoint: FlowCheckpoint) -> NotFoundError:
    return NotFoundError(
        f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} was stored as revision "
        f"{checkpoint.revision} and is gone: it was deleted, or the transaction that stored it was not committed. "
        "Set its revision to 0 and save() it to store it anew."
    )


def _stale(checkpoint: FlowCheckpoint) -> StaleCheckpoint:
    return StaleCheckpoint(
        f"The checkpoint {checkpoint.id} of the flow {checkpoint.flow_id} has been stored by somebody else since this "
        f"revision ({checkpoint.revision}), or belongs to another flow; load it again."
    )


__all__ = ["WAITING", "CheckpointClaim", "Limits", "Verbs", "as_storage_error", "card_of", "checked_number", "iso"]
