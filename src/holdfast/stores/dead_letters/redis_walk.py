"""Which index of dead letters in Redis leads to what is wanted, and from where to where."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from holdfast.model.dead_letter import IN_FLIGHT, FailedOperationStatus
from holdfast.stores.dead_letters import redis_records as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores.dead_letters.shelf import Wanted

Place: TypeAlias = tuple[datetime, str]
"""Where a record stands in an index: by its time, and by its id among those that have the same."""

_AGES = {
    "resolved_for": ("resolved:{}", "resolved_at"),
    "untouched_for": ("archived", "updated_at"),
    "unheard_for": ("beat", "replay_beat_at"),
}


def is_exact(wanted: Wanted) -> bool:
    """Whether the index that is walked holds what is wanted and nothing else."""
    if wanted.retry_below is not None or wanted.beyond is not None:
        return False
    return bool(walk_to(wanted).statuses) or (wanted.domain is None and wanted.failure_type is None)


def is_behind(place: Place, last: Place | None, *, newest: bool) -> bool:
    """Whether a walk that has come to *last* meets *place* later."""
    return last is None or (place < last if newest else place > last)


class Walk(NamedTuple):
    """An index, the time that it goes by, and the lowest and highest score.

    In one by the time of making the statuses stand apart: then there are their numbers, and scores are milliseconds.
    """

    name: str
    order: str
    low: str | int = "-inf"
    high: str | int = "+inf"
    statuses: Sequence[int] = ()

    def place(self, record: FailedOperationData) -> Place:
        """Return where *record* stands: by the time, and by the ids of what has the same."""
        return getattr(record, self.order), record.id

    def behind(self, when: datetime, *, newest: bool) -> Walk:
        """Return what is left of it for a walk that has come to a time, which may be that of others, too."""
        score = records.microseconds(when) // 1000 if self.statuses else records.score(when)
        return self._replace(high=score) if newest else self._replace(low=score)


def walk_to(wanted: Wanted) -> Walk:
    """Return the index to walk, and from where to where."""
    if wanted.due:
        return Walk("due", "next_retry_at", high="now")
    if wanted.expires_before is not None:
        return Walk("expires", "expires_at", high=f"({records.score(wanted.expires_before)}")
    for age, (index, order) in _AGES.items():
        if (past := getattr(wanted, age)) is not None:
            name = index.format(wanted.status)
            return Walk(name, order, high=f"age:{round(past.total_seconds() * 1_000_000)}")
    statuses = [wanted.status] if wanted.status is not None else list(FailedOperationStatus)
    if wanted.evictable:
        statuses = [status for status in statuses if status not in IN_FLIGHT]
    walk = Walk(_index(wanted), "created_at", *_made_within(wanted), records.numbers(statuses))
    return walk if wanted.beyond is None else walk.behind(wanted.beyond[0], newest=wanted.newest)


def _made_within(wanted: Wanted) -> tuple[int, int]:
    """Return the first and the last millisecond in which what is wanted was made: the server makes none between two."""
    low, high = 0, records.SPAN - 1
    if wanted.created_from is not None:
        low = max(low, -(-records.microseconds(wanted.created_from) // 1000))
    if wanted.created_to is not None:
        high = min(high, records.microseconds(wanted.created_to) // 1000)
    if wanted.created_before is not None:
        high = min(high, (records.microseconds(wanted.created_before) - 1) // 1000)
    return min(low, records.SPAN), max(high, -1)


def _index(wanted: Wanted) -> str:
    """Return the index, in the order of making, of what has this domain and failure type."""
    if wanted.domain is not None and wanted.failure_type is not None:
        return "dt:" + records.pair(wanted.domain, wanted.failure_type)
    if wanted.domain is not None:
        return "d:" + wanted.domain
    return "all" if wanted.failure_type is None else "t:" + wanted.failure_type


def fits(wanted: Wanted, record: FailedOperationData) -> bool:
    """Whether a record that was met in an index is one that is wanted."""
    if wanted.status not in {None, record.status} or wanted.domain not in {None, record.domain}:
        return False
    if wanted.failure_type not in {None, record.failure_type}:
        return False
    if wanted.retry_below is not None and record.retry_count >= wanted.retry_below:
        return False
    return not (wanted.evictable and record.status in IN_FLIGHT)


__all__ = ["Place", "Walk", "fits", "is_behind", "is_exact", "walk_to"]
