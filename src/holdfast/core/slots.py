"""Which slots of a schedule fire now, which are let go, and when the next one comes. Times are aware, in UTC."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.moments import milliseconds_of

if TYPE_CHECKING:
    from holdfast.core.cron import Cron

GRACE = timedelta(seconds=60)  # a slot that nobody could fire within this time was missed
TO_BE_WORKED_OUT = 0  # in milliseconds, in place of the next slot, where nobody has asked the calendar yet

_MILLISECOND = timedelta(milliseconds=1)
_DIGITS = 16


class Plan(NamedTuple):
    """*slots* fire now, in order; *following* is due next, perhaps already; *missed* if some were let go."""

    slots: list[datetime]
    following: datetime | None
    missed: bool


def plan(cron: Cron, due: datetime, now: datetime, *, backfill: bool, most: int) -> Plan:
    """Decide about the slots from *due* to *now*, at most *most* of them.

    All that are late by no more than ``GRACE`` fire, however short a process was away; older ones only with *backfill*.
    Where *due* is still to be worked out, the first slot is the next to come.
    """
    if milliseconds_of(due) == TO_BE_WORKED_OUT:
        return Plan([], cron.next(now), missed=False)
    slot: datetime | None = due
    missed = False
    if not backfill and due < now - GRACE:
        slot, missed = cron.next(now - GRACE - _MILLISECOND), True
    slots: list[datetime] = []
    while slot is not None and slot <= now and len(slots) < most:
        slots.append(slot)
        slot = cron.next(slot)
    return Plan(slots, slot, missed)


def shift(schedule_id: str, slot: datetime, jitter_ms: int) -> int:
    """Return by how many milliseconds a slot is put off: the same in every process, spread evenly below *jitter_ms*."""
    if not jitter_ms:
        return 0
    digest = hashlib.sha256(f"{schedule_id} {milliseconds_of(slot)}".encode()).hexdigest()
    return int(digest[:_DIGITS], 16) % jitter_ms


def run_id_of(schedule_name: str, slot: datetime) -> str:
    """Return the id of a slot's run: made of the schedule and the instant, so that nobody can fire it twice."""
    return f"sched-{schedule_name}-{written(slot)}"


def written(slot: datetime) -> str:
    """Return a slot as it is written: ISO-8601 in UTC, to the second."""
    return slot.astimezone(UTC).isoformat(timespec="seconds")


__all__ = ["GRACE", "TO_BE_WORKED_OUT", "Plan", "plan", "run_id_of", "shift", "written"]
