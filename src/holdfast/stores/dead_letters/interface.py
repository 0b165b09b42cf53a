"""The interface of repositories of failed operations, for code without an event loop.

Whoever writes one of one's own for another storage derives from it; an async ``Shelf`` is less work and gets everything
that is decided here for nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData


class FailedOperationRepository(ABC):
    """Failed operations, kept for a replay or for a person to look at.

    Every call is atomic. Summaries of what was evicted are optional for a storage: without them nothing is summed up.
    """

    @abstractmethod
    def create(  # noqa: PLR0917 -- the documented order
        self,
        domain: str,
        failure_type: str,
        error_message: str = "",
        error_code: str = "",
        entity_type: str | None = None,
        entity_id: str | None = None,
        entity_refs: dict[str, Any] | None = None,
        user_id: int | None = None,
        snapshot_data: dict[str, Any] | None = None,
        request_data: dict[str, Any] | None = None,
        response_data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        retry_count: int = 0,
        max_retries: int = 2,
        next_action_hint: str = "",
        recommended_action: str = "",
        expires_at: datetime | None = None,
    ) -> FailedOperationData:
        """Store a failed operation, pending, and return it."""

    @abstractmethod
    def get_by_id(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        """Return the operation, or None if there is none of this id, whatever the id looks like."""

    @abstractmethod
    def update_status(
        self,
        id: str,  # noqa: A002 -- the documented word
        status: str,
        resolution_type: str = "",
        resolution_note: str = "",
        resolved_by_id: int | None = None,
        recommended_action: str = "",
    ) -> bool:
        """Say where the operation stands, whatever it was before; False if there is none.

        What is empty or None keeps its value. ``resolved`` notes the time; leaving it keeps that. Whoever replays the
        operation does not hold it any more. ``ValueError`` for a status there is not.
        """

    @abstractmethod
    def increment_retry_count(self, id: str) -> bool:  # noqa: A002 -- the documented word
        """Count one more attempt and note its time; the status stays. False if there is no such operation."""

    @abstractmethod
    def mark_as_resolved(
        self,
        id: str,  # noqa: A002 -- the documented word
        resolution_type: str,
        resolution_note: str = "",
        resolved_by_id: int | None = None,
    ) -> bool:
        """Say that the operation was put right, whatever its status was; False if there is none."""

    @abstractmethod
    def bulk_update_status(self, ids: list[str], status: str) -> int:
        """Say of several operations where they stand, in one step; return how many there were of them."""

    @abstractmethod
    def delete(self, entry_id: str) -> bool:
        """Delete one operation, whatever its status; False if there is none."""

    @abstractmethod
    def get_pending_by_domain(self, domain: str, limit: int = 100) -> list[FailedOperationData]:
        """Return pending operations of *domain*, the oldest first."""

    @abstractmethod
    def get_pending_count_by_domain(self, domain: str) -> int:
        """Return how many operations of *domain* are pending."""

    @abstractmethod
    def find_by_status(
        self, status: str, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        """Return operations in *status*, the oldest first."""

    @abstractmethod
    def find(
        self,
        *,
        status: str | None = None,
        domain: str | None = None,
        failure_type: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[FailedOperationData]:
        """Return operations in any status, the newest first; a filter that is None does not matter.

        To go through many, use ``find_page``: an offset has to be counted up to.
        """

    @abstractmethod
    def find_replayable(
        self, max_retries: int, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        """Return pending operations that were tried fewer than *max_retries* times, the oldest first."""

    @abstractmethod
    def find_sla_breached(
        self, current_time: datetime, sla_thresholds: dict[str, timedelta]
    ) -> list[FailedOperationData]:
        """Return pending operations that are older than their domain's threshold, the oldest first.

        For a domain that is not named the threshold is that of ``default``, or 24 hours.
        """

    @abstractmethod
    def find_expired(self, current_time: datetime) -> list[FailedOperationData]:
        """Return operations whose ``expires_at`` is past, in any status, the longest expired first."""

    @abstractmethod
    def get_expired_operations(self, before_date: datetime, limit: int = 100) -> list[FailedOperationData]:
        """Return operations that expired before *before_date*, in any status, the longest expired first."""

    @abstractmethod
    def count(self, *, status: str | None = None, domain: str | None = None, failure_type: str | None = None) -> int:
        """Return how many operations there are; a filter that is None does not matter."""

    @abstractmethod
    def count_created_in_window(self, start: datetime, end: datetime) -> int:
        """Return how many operations were made from *start* to *end*, both included, whatever became of them."""

    @abstractmethod
    def count_all(self) -> int:
        """Return how many operations are active: neither resolved nor rejected nor archived."""

    @abstractmethod
    def count_by_domain(self, domain: str) -> int:
        """Return how many operations of *domain* there are, in any status."""

    @abstractmethod
    def get_statistics(self) -> dict[str, Any]:
        """Return counts: ``total``, ``by_status``, ``by_domain``, ``pending_by_domain``.

        And ``pending_by_domain_and_failure_type``, a mapping of mappings. What would be 0 is left out.
        """

    @abstractmethod
    def get_facet_counts(self, *, status: str | None = None, domain: str | None = None) -> dict[str, dict[str, int]]:
        """Return ``by_status``, counted within *domain*, and ``by_domain``, counted within *status*.

        So the choice one has in either does not shrink by what was chosen there. What would be 0 is left out.
        """

    @abstractmethod
    def get_oldest_ids(self, count: int, domain: str | None = None) -> list[str]:
        """Return the ids of the oldest operations, in any status."""

    @abstractmethod
    def try_acquire_for_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        max_retries: int,
        force: bool = False,
    ) -> FailedOperationData | None:
        """Take a pending operation that was tried fewer than *max_retries* times, and count the attempt, in one step.

        Of several who try, one gets it; the others, and all who come when it is not to be had, get None. With *force*
        one that requires review is taken as well and the limit is not looked at: ``retry_count`` is 1 afterwards, and
        ``metadata`` holds ``previous_total_retries`` and ``force_redrive_count``.
        """

    @abstractmethod
    def complete_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        success: bool,
        resolution_type: str = "",
        note: str = "",
        resolved_by_id: int | None = None,
        error_details: dict[str, Any] | None = None,
    ) -> bool:
        """End a replay: the operation is resolved; or pending again; or, tried as often as it may be, requires review.

        False, and nothing is changed, if there is no such operation, or the caller's replay does not hold it any more.
        *note* is the resolution's, or the error's message; *error_details* go into ``metadata``.
        """

    @abstractmethod
    def release_stale_replaying(self, older_than_minutes: int = 30) -> int:
        """Make operations pending again whose holder was last heard of longer ago than that; return how many."""

    @abstractmethod
    def archive_old_resolved(self, older_than_days: int = 30) -> int:
        """Archive what was resolved more than so many days ago; the data is kept. Return how many that were."""

    @abstractmethod
    def purge_archived(self, ids: list[str] | None = None, older_than_days: int | None = None) -> int:
        """Delete archived operations for good: those of *ids*, or those archived more than so many days ago.

        0 days are all of them; neither argument is none of them. ``ValueError`` for both arguments, or if one of *ids*
        is not archived: then nothing is deleted. Ids there are not are passed over. Return how many were deleted.
        """

    @abstractmethod
    def get_cleanup_stats(self) -> dict[str, Any]:
        """Return ``total``, ``by_status``, ``resolved_older_than_30_days`` and ``archived_older_than_90_days``.

        The first age is that of the resolution, the second that of the archiving: what the two cleaning calls go by.
        """

    @abstractmethod
    def count_archived_older_than(self, older_than_days: int) -> int:
        """Return how many archived operations were resolved more than so many days ago."""

    @abstractmethod
    def evict_oldest(self, count: int, domain: str | None = None) -> int:
        """Delete the oldest operations, never one that is being replayed or reviewed; return how many."""

    def compress_and_evict_oldest(self, count: int, domain: str | None = None) -> int:
        """Do as ``evict_oldest``; what goes is summed up in the same step, by domain, failure type and error code."""
        return self.evict_oldest(count, domain)

    def store_compressed_entry(self, entry: DLQCompressedEntry) -> bool:  # noqa: ARG002 -- a default
        """Store a summary; False, and nothing is changed, if there is one of its id.

        ``ValueError``, ``TypeError``, ``InvalidKey`` or ``TooLong`` names the part of it that cannot be kept.
        """
        return False

    def get_compressed_entries(
        self,
        domain: str | None = None,  # noqa: ARG002 -- a default
        status: str | None = None,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
    ) -> list[DLQCompressedEntry]:
        """Return summaries, the newest first."""
        return []

    def get_compressed_summary(self) -> dict[str, Any]:
        """Return ``total_summaries``, ``total_compressed_items`` and ``by_status``, which names every status."""
        return {"total_summaries": 0, "total_compressed_items": 0, "by_status": {}}

    def update_compressed_status(self, entry_id: str, new_status: str) -> bool:  # noqa: ARG002 -- a default
        """Move a summary on, to ``stale`` or ``archived``, and note when.

        False if there is none, or it has come that far already. ``ValueError`` for a status there is not.
        """
        return False


__all__ = ["FailedOperationRepository"]
