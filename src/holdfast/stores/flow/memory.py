"""Flow checkpoints in this process's memory, for tests and for flows that need not outlive it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import MAX_BYTES, ShelfBackend
from holdfast.stores.flow.model import CheckpointStatus
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.flow.straight import Straight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.model.workflow import Duration

T = TypeVar("T")

DONE = frozenset({CheckpointStatus.COMPLETED.value, CheckpointStatus.CANCELED.value})  # nobody goes on from these


class MemoryShelf:
    """Cards in a dictionary; threads and loops take turns under a lock that nobody waits in.

    Claims end by the monotonic clock: a wall clock that is set hands none on.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._turn = threading.RLock()
        self._cards: dict[str, Card] = {}
        self._held: dict[str, tuple[str, float]] = {}
        self._count = 0

    async def initialize(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: the cards are gone with this object."""

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``."""
        with self._turn:
            return self._put(card, expected)

    async def follow(self, card: Card, before: str, token: str, seconds: float) -> Put:
        """Store a card and pass the claim on to it; see ``Shelf``."""
        with self._turn:
            if self._holder(before) != token:
                return Put.LOST
            outcome = self._put(card, 0)
            if outcome is Put.STORED:
                del self._held[before]
                self._held[card.id] = (token, self._world.monotonic() + seconds)
            return outcome

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        return self._cards.get(checkpoint_id)

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; return whether there was one."""
        with self._turn:
            return self._delete(checkpoint_id)

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first."""
        with self._turn:
            found = [card for card in self._cards.values() if fits(card, wanted)]
        return in_order(found, wanted)

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards without their data."""
        return [card._replace(data=b"") for card in await self.query(wanted)]

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* that still have the same revision, and that nobody holds."""
        with self._turn:
            still = [card for card in cards if (there := self._cards.get(card.id)) and there.revision == card.revision]
            return sum(self._delete(card.id) for card in still if self._holder(card.id) is None)

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""
        with self._turn:
            there = self._cards.get(checkpoint_id)
            if there is None or there.status in DONE or self._holder(checkpoint_id) is not None:
                return False
            self._cards[checkpoint_id] = there._replace(revision=there.revision + 1)
            self._held[checkpoint_id] = (token, self._world.monotonic() + seconds)
            return True

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        with self._turn:
            if self._holder(checkpoint_id) != token:
                return False
            self._held[checkpoint_id] = (token, self._world.monotonic() + seconds)
            return True

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        with self._turn:
            return self._holder(checkpoint_id) == token and self._held.pop(checkpoint_id, None) is not None

    def _put(self, card: Card, expected: int) -> Put:
        there = self._cards.get(card.id)
        if there is None:
            if expected:
                return Put.MISSING
            self._count += 1
            self._cards[card.id] = card._replace(sequence=self._count)
            return Put.STORED
        if there.revision != expected or there.flow_id != card.flow_id:
            return Put.STALE
        self._cards[card.id] = card._replace(sequence=there.sequence, created_at=there.created_at)
        return Put.STORED

    def _delete(self, checkpoint_id: str) -> bool:
        self._held.pop(checkpoint_id, None)
        return self._cards.pop(checkpoint_id, None) is not None

    def _holder(self, checkpoint_id: str) -> str | None:
        token, until = self._held.get(checkpoint_id, (None, 0.0))
        return token if until > self._world.monotonic() else None


def fits(card: Card, wanted: Wanted) -> bool:
    """Say whether *card* is one of those *wanted*."""
    return (
        (wanted.flow_id is None or card.flow_id == wanted.flow_id)
        and (wanted.run_id is None or wanted.run_id in (card.run_id, card.wf_run_id))
        and (wanted.status is None or card.status in wanted.status)
        and (wanted.before is None or card.created_at < wanted.before)
        and (wanted.due_at is None or (card.resume_at is not None and card.resume_at <= wanted.due_at))
    )


def in_order(cards: Sequence[Card], wanted: Wanted) -> list[Card]:
    """Return as many of *cards* as are wanted: newest first, or if due ones are wanted the earliest first."""
    if wanted.due_at is not None:
        ordered = sorted(cards, key=lambda card: (card.resume_at or "", card.sequence))
    else:
        ordered = sorted(cards, key=lambda card: (card.created_at, card.sequence), reverse=True)
    return ordered[: wanted.limit]


class _AtOnce(Straight[MemoryShelf]):
    """Nothing here waits for the loop, so a task is cancelled before its call or after it."""

    async def acall(self, work: Callable[[MemoryShelf], Awaitable[T]], *, carried: bool = False) -> T:  # noqa: ARG002
        return await super().acall(work)


class InMemoryCheckpointBackend(ShelfBackend):
    """Flow checkpoints in memory, lost with the process."""

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        max_checkpoints: int | None = None,
        ttl: Duration | None = None,
        world: World | None = None,
    ) -> None:
        surroundings = world or RealWorld()
        shelf = MemoryShelf(surroundings)

        async def opened() -> MemoryShelf:
            return shelf

        super().__init__(
            _AtOnce(opened, opened), max_bytes=max_bytes, max_checkpoints=max_checkpoints, ttl=ttl, world=surroundings
        )
