"""Partitions take turns: one run from each, from the one after the last that was served, until the room is used up.

All of it happens under the lock of the queue's row, which also holds whose turn it is. Runs of a partitioned queue that
have no partition key, because the queue had no partitions when they were enqueued perhaps, are a partition of their own,
which comes last: so nothing is left behind, and nothing waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.limits import Limits, Room, Use, room, shares, soonest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.queue import Queue
    from holdfast.model.world import World
    from holdfast.workflows.queues.claims import Claimed

_AT_ONCE = 20  # partitions that are looked at in one transaction
_OLDEST = 1000  # runs among which one without a key is looked for
_KEYLESS_EVERY = 1.0


@dataclass(slots=True)
class _Walk:
    """Where this process goes on, if nothing could be taken from the partitions it has looked at; and how far it is."""

    after: str | None = None
    seen: int = 0
    keyless_at: float = 0.0


class Partitions:
    """Claims from partitioned queues, for one executor."""

    def __init__(self, queries: Queries, world: World) -> None:
        self._queries = queries
        self._world = world
        self._walks: dict[str, _Walk] = {}
