"""What a claim gives, and the words that all claims share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core.limits import Room, Use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.session import Row
    from holdfast.model.queue import Queue


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was taken, in the order of the queue.

    *again* is in how many seconds a further look may find more, if time alone brings that. *more* says that it may at
    once; *full*, that it may when a run of the queue ends.
    """

    rows: list[Row] = field(default_factory=list)
    again: float | None = None
    more: bool = False
    full: bool = False


def claim_query(name: str, queue: Queue) -> str:
    """Return the name of the claim that keeps to the order of *queue*."""
    return f"{name}_by_priority" if queue.priority_enabled else name


def in_order(rows: Sequence[Row], queue: Queue) -> list[Row]:
    """Return what a claim gave in the order of *queue*: a statement that writes returns rows in any order."""
    if queue.priority_enabled:
        return sorted(rows, key=lambda row: (row["priority"], row["created_at"], row["workflow_uuid"]))
    return sorted(rows, key=lambda row: (row["created_at"], row["workflow_uuid"]))


def use_of(row: Row) -> Use:
    """Return what was counted."""
    return Use(row["running"], row["starts"], row["oldest_start_ms"])


def seconds_of(left: Room) -> float | None:
    """Return in how many seconds there is more room, if time alone brings that."""
    return None if left.again_ms is None else left.again_ms / 1000


__all__ = ["Claimed", "claim_query", "in_order", "seconds_of", "use_of"]
