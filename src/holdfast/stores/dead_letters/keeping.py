"""Keeping the storage small: archive, purge, evict, and the summaries that are left of what was evicted."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.core.dead_letters import Archive
from holdfast.core.durations import days
from holdfast.model.dead_letter import CompressedStatus, DLQCompressedEntry
from holdfast.stores.dead_letters import door
from holdfast.stores.dead_letters.changing import PER_STEP, Changing, happening
from holdfast.stores.dead_letters.shelf import GONE, Gone, Wanted
from holdfast.stores.keys import LONGEST_KEY, checked_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores.dead_letters.shelf import Summarise


class Keeping(Changing):
    """What becomes of old records."""

    async def archive_old_resolved(self, older_than_days: int = 30) -> int:
        """Archive what was resolved more than so many days ago; the data is kept. Return how many that were."""
        wanted = Wanted(status="resolved", resolved_for=_age(older_than_days), limit=PER_STEP, whole=False)
        return await self._sweep(wanted, happening(Archive()))

    async def purge_archived(self, ids: list[str] | None = None, older_than_days: int | None = None) -> int:
        """Delete archived operations for good: those of *ids*, or those archived more than so many days ago.

        0 days are all of them; neither argument is none of them. ``ValueError`` for both arguments, or if one of *ids*
        is not archived: then nothing is deleted. Ids there are not are passed over. Return how many were deleted.
        """
        if ids is not None and older_than_days is not None:
            raise ValueError("Purge by ids or by age, not by both: what is neither must be meant twice.")
        if ids is not None:
            in_order = sorted(door.several(ids), key=str)  # databases meet them so: all name the same one that is not
            return len(await self._shelf.change_all(in_order, _gone_if_archived))
        if older_than_days is None:
            return 0
        age = _age(older_than_days) or None
        wanted = Wanted(status="archived", untouched_for=age, limit=PER_STEP, whole=False)
        return await self._sweep(wanted, _gone)

    async def get_cleanup_stats(self) -> dict[str, Any]:
        """Return ``total``, ``by_status``, ``resolved_older_than_30_days`` and ``archived_older_than_90_days``.

        The first age is that of the resolution, the second that of the archiving: what the two cleaning calls go by.
        """
        counts: Counter[str] = Counter()
        for (_, _, status), number in (await self._shelf.tally()).items():
            counts[status] += number
        resolved = Wanted(status="resolved", resolved_for=timedelta(days=30))
        archived = Wanted(status="archived", untouched_for=timedelta(days=90))
        return {
            "total": counts.total(),
            "by_status": dict(counts),
            "resolved_older_than_30_days": await self._shelf.count(resolved),
            "archived_older_than_90_days": await self._shelf.count(archived),
        }

    async def count_archived_older_than(self, older_than_days: int) -> int:
        """Return how many archived operations were resolved more than so many days ago."""
        return await self._shelf.count(Wanted(status="archived", resolved_for=_age(older_than_days)))

    async def evict_oldest(self, count: int, domain: str | None = None) -> int:
        """Delete the oldest operations, never one that is being replayed or reviewed; return how many."""
        return await self._evict(count, domain, None)

    async def compress_and_evict_oldest(self, count: int, domain: str | None = None) -> int:
        """Do as ``evict_oldest``; what goes is summed up in the same step, by domain, failure type and error code."""
        begun: list[datetime] = []

        def summarise(gone: Sequence[FailedOperationData], now: datetime) -> list[DLQCompressedEntry]:
            begun.append(now)
            return _summaries(gone, begun[0], now)

        return await self._evict(count, domain, summarise)

    async def _evict(self, count: int, domain: str | None, summarise: Summarise | None) -> int:
        left = door.count(count, "count")
        if not door.can_be(domain=domain):
            return 0
        while left:
            wanted = Wanted(evictable=True, domain=domain, limit=min(left, PER_STEP), whole=False)
            gone = await self._shelf.sweep(wanted, _gone, summarise)
            if not gone:
                break
            left -= len(gone)
        return count - left

    async def store_compressed_entry(self, entry: DLQCompressedEntry) -> bool:
        """Store a summary; False, and nothing is changed, if there is one of its id.

        ``ValueError``, ``TypeError``, ``InvalidKey`` or ``TooLong`` names the part of it that cannot be kept.
        """
        return await self._shelf.add_summary(
            replace(
                entry,
                id=checked_key(entry.id, "id of a summary"),
                domain=door.word(entry.domain, "domain"),
                failure_type=door.word(entry.failure_type, "failure type"),
                error_code=door.word(entry.error_code, "error code"),
                count=door.count(entry.count, "count"),
                sample_error_message=door.text(entry.sample_error_message, "sample_error_message"),
                sample_context=door.mapping(entry.sample_context, "sample_context"),
                status=CompressedStatus(entry.status).value,
                first_seen=door.moment(entry.first_seen, "first_seen"),
                last_seen=door.moment(entry.last_seen, "last_seen"),
                compressed_at=door.moment_or_none(entry.compressed_at, "compressed_at"),
                stale_at=door.moment_or_none(entry.stale_at, "stale_at"),
                archived_at=door.moment_or_none(entry.archived_at, "archived_at"),
            )
        )

    async def get_compressed_entries(
        self, domain: str | None = None, status: str | None = None, limit: int = 100
    ) -> list[DLQCompressedEntry]:
        """Return summaries, the newest first."""
        can_be = door.can_be(domain=domain, status=status)
        return await self._shelf.summaries(domain, status, limit) if door.count(limit, "limit") and can_be else []

    async def get_compressed_summary(self) -> dict[str, Any]:
        """Return ``total_summaries``, ``total_compressed_items`` and ``by_status``, which names every status."""
        totals = await self._shelf.summary_totals()
        return {
            "total_summaries": sum(number for number, _ in totals.values()),
            "total_compressed_items": sum(items for _, items in totals.values()),
            "by_status": {status.value: totals.get(status, (0, 0))[0] for status in CompressedStatus},
        }

    async def update_compressed_status(self, entry_id: str, new_status: str) -> bool:
        """Move a summary on, to ``stale`` or ``archived``, and note when.

        False if there is none, or it has come that far already. ``ValueError`` for a status there is not.
        """
        return await self._shelf.move_summary(entry_id, CompressedStatus(new_status).value)


def _age(older_than_days: int) -> timedelta:
    """Return an age in days as a duration; one below 0 lies in the future, so that everything is older."""
    return days(older_than_days, "older_than_days", least=-1)


def _gone(_record: FailedOperationData, _now: datetime) -> Gone:
    return GONE


def _gone_if_archived(record: FailedOperationData, _now: datetime) -> Gone:
    if record.status != "archived":
        raise ValueError(
            f"The failed operation {record.id} is not archived but {record.status}: only what is archived can be "
            "purged. Nothing was deleted."
        )
    return GONE


def _summaries(gone: Sequence[FailedOperationData], begun: datetime, now: datetime) -> list[DLQCompressedEntry]:
    """Sum up records by domain, failure type and error code; parts of one eviction have the ids in common."""
    groups: dict[tuple[str, str, str], list[FailedOperationData]] = {}
    for record in gone:
        groups.setdefault((record.domain, record.failure_type, record.error_code), []).append(record)
    return [_summary(records, begun, now) for _, records in sorted(groups.items())]


def _summary(records: Sequence[FailedOperationData], begun: datetime, now: datetime) -> DLQCompressedEntry:
    seen = sorted((record.created_at or now, record.id, record) for record in records)
    newest = seen[-1][2]
    return DLQCompressedEntry(
        id=_summary_id(newest, begun),
        domain=newest.domain,
        failure_type=newest.failure_type,
        error_code=newest.error_code,
        count=len(records),
        first_seen=seen[0][0],
        last_seen=seen[-1][0],
        sample_error_message=newest.error_message,
        sample_context={
            "id": newest.id, "status": newest.status, "entity_type": newest.entity_type,
            "entity_id": newest.entity_id, "retry_count": newest.retry_count,
        },
        compressed_at=begun,
    )  # fmt: skip


def _summary_id(record: FailedOperationData, begun: datetime) -> str:
    words = (record.domain, record.failure_type, record.error_code)
    # Colons within words are escaped: otherwise two groups could have one id.
    group = ":".join(word.replace("%", "%25").replace(":", "%3A") for word in words)
    if len(group) > LONGEST_KEY - 50:
        group = sha256(group.encode()).hexdigest()
    return f"compressed:{group}:{begun.isoformat(timespec='microseconds')}"


__all__ = ["Keeping"]
