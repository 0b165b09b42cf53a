"""What a backend of flow checkpoints does: it keeps cards and finds them again. The rest is the same for all."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Card(NamedTuple):
    """A checkpoint as it is kept: what it is found by, and the snapshot itself as JSON.

    Times are ISO-8601 in UTC, all of one length, so that their order is that of the texts. *sequence* is given by the
    backend when the card is new, and tells cards of the same moment apart.
    """

    id: str
    flow_id: str
    run_id: str
    wf_run_id: str
    status: str
    parent_id: str | None
    created_at: str
    updated_at: str
    resume_at: str | None
    revision: int
    data: bytes
    sequence: int = 0


class Wanted(NamedTuple):
    """Which cards are wanted, newest first; None stands for all. *run_id* matches the attempt or the whole run."""

    flow_id: str | None = None
    run_id: str | None = None
    status: tuple[str, ...] | None = None
    before: str | None = None
    due_at: str | None = None
    limit: int | None = None


class Put(Enum):
    """What became of a card that was handed over."""

    STORED = "stored"
    MISSING = "there is none of this id"
    STALE = "there is another revision"
    LOST = "the claim it was to follow is over"


class Shelf(Protocol):
    """Keeps cards. Each call is atomic; what was stored is durable on return, as far as the backend can."""

    async def initialize(self) -> None:
        """Open, and make what is missing; a second call changes nothing."""

    async def close(self) -> None:
        """End the connections."""

    async def put(self, card: Card, expected: int) -> Put:
        """Store *card* if the one of its id has the revision *expected*; 0 means that there is none.

        A write of this very call that has landed before, its reply lost, counts as stored. A card never changes its
        flow, nor when it was created.
        """

    async def follow(self, card: Card, before: str, token: str, seconds: float) -> Put:
        """Store *card*, a new one, and let *token* hold it for *seconds* instead of the card *before*, in one.

        ``LOST`` if *token* does not hold that one any more: nothing is stored then.
        """

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; return whether there was one. True also if a reply was lost and it is gone now."""

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first. ``due_at`` finds those that wait for a moment not after it, earliest first."""

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards as ``query`` does, without their data."""

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* with the same revision still, and that nobody holds; return how many that were."""

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card for *seconds* if it is neither completed nor canceled and no one else holds it.

        Its revision rises by one, so that whoever held it before cannot write it any more.
        """

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card for *seconds* from now; False if it does not hold it."""

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go; False if *token* does not hold it."""
