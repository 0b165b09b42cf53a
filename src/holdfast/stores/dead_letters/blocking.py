"""Failed operations for code without an event loop: one line a method over the async repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.stores.blocking import BlockingStore
from holdfast.stores.dead_letters.interface import FailedOperationRepository
from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from datetime import datetime, timedelta

    from holdfast.db.portal import Portal
    from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData, ReplayEnd
    from holdfast.model.workflow import Duration
    from holdfast.stores.dead_letters.page import FailedOperationPage

T = TypeVar("T")


class BlockingFailedOperations(BlockingStore[AsyncFailedOperationRepository], FailedOperationRepository):
    """Any async repository, called from threads; its loop is *portal*'s."""

    def __init__(self, store: AsyncFailedOperationRepository, portal: Portal) -> None:
        super().__init__(store, portal)
        self._near = store  # where single operations are made and changed

    def _change(self, work: Coroutine[Any, Any, T]) -> T:
        """Make or change a single operation, as ``_near`` does it."""
        return self._call(work)

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
        *,
        error: str | None = None,
        workflow_id: str | None = None,
        payload: Any = None,
        retry_delay: Duration | None = None,
    ) -> FailedOperationData:
        """Store a failed operation, pending, and return it.

        *error* is the whole of the error, for instance its traceback, if *error_message* is not. With *retry_delay* it
        is due for ``acquire_due`` at once, and again after each failure: that many seconds after the first, twice as
        many after the next. ``CannotSerialize`` names the part of a mapping that does not fit JSON, ``TooLong`` a word
        of more than 255 characters, ``TypeError`` a mapping or text that is none, ``ValueError`` any other value that
        cannot be kept; nothing is stored then.
        """
        return self._change(
            self._near.create(
                domain,
                failure_type,
                error_message,
                error_code,
                entity_type,
                entity_id,
                entity_refs,
                user_id,
                snapshot_data,
                request_data,
                response_data,
                metadata,
                retry_count,
                max_retries,
                next_action_hint,
                recommended_action,
                expires_at,
                error=error,
                workflow_id=workflow_id,
                payload=payload,
                retry_delay=retry_delay,
            )
        )

    def get_by_id(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        return self._call(self._store.get_by_id(id))

    def update_status(
        self,
        id: str,  # noqa: A002 -- the documented word
        status: str,
        resolution_type: str = "",
        resolution_note: str = "",
        resolved_by_id: int | None = None,
        recommended_action: str = "",
    ) -> bool:
        return self._change(
            self._near.update_status(id, status, resolution_type, resolution_note, resolved_by_id, recommended_action)
        )

    def increment_retry_count(self, id: str) -> bool:  # noqa: A002 -- the documented word
        return self._call(self._store.increment_retry_count(id))

    def mark_as_resolved(
        self,
        id: str,  # noqa: A002 -- the documented word
        resolution_type: str,
        resolution_note: str = "",
        resolved_by_id: int | None = None,
    ) -> bool:
        return self._call(self._store.mark_as_resolved(id, resolution_type, resolution_note, resolved_by_id))

    def bulk_update_status(self, ids: list[str], status: str) -> int:
        return self._call(self._store.bulk_update_status(ids, status))

    def delete(self, entry_id: str) -> bool:
        return self._call(self._store.delete(entry_id))

    def get_pending_by_domain(self, domain: str, limit: int = 100) -> list[FailedOperationData]:
        return self._call(self._store.get_pending_by_domain(domain, limit))

    def get_pending_count_by_domain(self, domain: str) -> int:
        return self._call(self._store.get_pending_count_by_domain(domain))

    def find_by_status(
        self, status: str, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        return self._call(self._store.find_by_status(status, domain, failure_type, limit))

    def find(
        self,
        *,
        status: str | None = None,
        domain: str | None = None,
        failure_type: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[FailedOperationData]:
        return self._call(
            self._store.find(status=status, domain=domain, failure_type=failure_type, offset=offset, limit=limit)
        )

    def find_page(
        self,
        *,
        status: str | None = None,
        domain: str | None = None,
        failure_type: str | None = None,
        newest_first: bool = True,
        cursor: str | None = None,
        limit: int = 100,
        whole: bool = True,
    ) -> FailedOperationPage:
        """Return a page of operations; its ``cursor`` asks for the next one and is None after the last.

        Going on with the cursors, an operation that fits all the time is returned exactly once, whatever is written
        meanwhile. If *whole* is false, payloads and data of requests and responses may be left out.
        ``ConfigurationError`` for a cursor that is not of this order.
        """
        return self._call(
            self._store.find_page(
                status=status,
                domain=domain,
                failure_type=failure_type,
                newest_first=newest_first,
                cursor=cursor,
                limit=limit,
                whole=whole,
            )
        )

    def find_replayable(
        self, max_retries: int, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        return self._call(self._store.find_replayable(max_retries, domain, failure_type, limit))

    def find_sla_breached(
        self, current_time: datetime, sla_thresholds: dict[str, timedelta]
    ) -> list[FailedOperationData]:
        return self._call(self._store.find_sla_breached(current_time, sla_thresholds))

    def find_expired(self, current_time: datetime) -> list[FailedOperationData]:
        return self._call(self._store.find_expired(current_time))

    def get_expired_operations(self, before_date: datetime, limit: int = 100) -> list[FailedOperationData]:
        return self._call(self._store.get_expired_operations(before_date, limit))

    def count(self, *, status: str | None = None, domain: str | None = None, failure_type: str | None = None) -> int:
        return self._call(self._store.count(status=status, domain=domain, failure_type=failure_type))

    def count_created_in_window(self, start: datetime, end: datetime) -> int:
        return self._call(self._store.count_created_in_window(start, end))

    def count_all(self) -> int:
        return self._call(self._store.count_all())

    def count_by_domain(self, domain: str) -> int:
        return self._call(self._store.count_by_domain(domain))

    def get_statistics(self) -> dict[str, Any]:
        return self._call(self._store.get_statistics())

    def get_facet_counts(self, *, status: str | None = None, domain: str | None = None) -> dict[str, dict[str, int]]:
        return self._call(self._store.get_facet_counts(status=status, domain=domain))

    def get_oldest_ids(self, count: int, domain: str | None = None) -> list[str]:
        return self._call(self._store.get_oldest_ids(count, domain))

    def try_acquire_for_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        max_retries: int,
        force: bool = False,
        *,
        lease: Duration | None = None,
    ) -> FailedOperationData | None:
        """Take a pending operation that was tried fewer than *max_retries* times, and count the attempt, in one step.

        Of several who try, one gets it; the others, and all who come when it is not to be had, get None. With *force*
        one that requires review is taken as well and the limit is not looked at: ``retry_count`` is 1 afterwards, and
        ``metadata`` holds ``previous_total_retries`` and ``force_redrive_count``. The token is in ``replay_token``, and
        held by the calling task or thread. *lease* is for how many seconds an operation with a ``retry_delay`` is kept
        from ``acquire_due``; another is kept until ``release_stale_replaying``.
        """
        return self._change(self._near.try_acquire_for_replay(id, max_retries, force, lease=lease))

    def acquire_many(
        self,
        ids: Sequence[str],
        max_retries: int | None = None,
        force: bool = False,
        *,
        lease: Duration | None = None,
    ) -> list[FailedOperationData]:
        """Do as ``try_acquire_for_replay`` for several operations in one step.

        Return those that were taken, in the order of *ids*. *max_retries* is a limit for all of them; if it is None,
        each has its own.
        """
        return self._call(self._store.acquire_many(ids, max_retries, force, lease=lease))

    def return_replay_attempt(
        self,
        id: str,  # noqa: A002 -- the documented word
        *,
        token: str | None = None,
    ) -> bool:
        """Give an operation back whose replay was not begun: it is pending, and the attempt does not count.

        False, and nothing is changed, if it is not, or no longer, held by the caller.
        """
        return self._change(self._near.return_replay_attempt(id, token=token))

    def acquire_due(
        self, limit: int = 10, *, domain: str | None = None, lease: Duration | None = None
    ) -> list[FailedOperationData]:
        """Take at most *limit* operations that are due, the longest due first, each for *lease* seconds.

        Due are those with a ``retry_delay`` whose time has come, and those whose holder has let its lease pass. One
        that has been tried ``max_retries`` times is not taken: it requires review from then on. What was taken for a
        call that is cancelled meanwhile is given back.
        """
        return self._call(self._store.acquire_due(limit, domain=domain, lease=lease))

    def extend_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        *,
        lease: Duration | None = None,
        token: str | None = None,
    ) -> bool:
        """Say that the replay is alive; False if the operation is not, or no longer, held by the caller.

        A long replay says so now and then: ``release_stale_replaying`` and ``acquire_due`` reckon from here.
        """
        return self._change(self._near.extend_replay(id, lease=lease, token=token))

    def complete_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        success: bool,
        resolution_type: str = "",
        note: str = "",
        resolved_by_id: int | None = None,
        error_details: dict[str, Any] | None = None,
        *,
        token: str | None = None,
    ) -> bool:
        """End a replay: the operation is resolved; or pending again; or, tried as often as it may be, requires review.

        *token* is the one the caller holds, unless it is given. False, and nothing is changed, if somebody else holds
        the operation or has held it since, if it has ended, or if there is none. What nobody holds and nobody has ended
        may be ended by anyone. *note* is the resolution's, or the error's message; *error_details* go into
        ``metadata``. What is empty or None keeps its value.
        """
        return self._change(
            self._near.complete_replay(id, success, resolution_type, note, resolved_by_id, error_details, token=token)
        )

    def complete_many(self, ends: Sequence[ReplayEnd]) -> list[bool]:
        """Do as ``complete_replay`` for several operations in one step; return of each whether it was ended.

        ``ValueError`` if one operation is named twice.
        """
        return self._call(self._store.complete_many(ends))

    def release_stale_replaying(self, older_than_minutes: int = 30) -> int:
        return self._call(self._store.release_stale_replaying(older_than_minutes))

    def archive_old_resolved(self, older_than_days: int = 30) -> int:
        return self._call(self._store.archive_old_resolved(older_than_days))

    def purge_archived(self, ids: list[str] | None = None, older_than_days: int | None = None) -> int:
        return self._call(self._store.purge_archived(ids, older_than_days))

    def get_cleanup_stats(self) -> dict[str, Any]:
        return self._call(self._store.get_cleanup_stats())

    def count_archived_older_than(self, older_than_days: int) -> int:
        return self._call(self._store.count_archived_older_than(older_than_days))

    def evict_oldest(self, count: int, domain: str | None = None) -> int:
        return self._call(self._store.evict_oldest(count, domain))

    def compress_and_evict_oldest(self, count: int, domain: str | None = None) -> int:
        return self._call(self._store.compress_and_evict_oldest(count, domain))

    def store_compressed_entry(self, entry: DLQCompressedEntry) -> bool:
        return self._call(self._store.store_compressed_entry(entry))

    def get_compressed_entries(
        self, domain: str | None = None, status: str | None = None, limit: int = 100
    ) -> list[DLQCompressedEntry]:
        return self._call(self._store.get_compressed_entries(domain, status, limit))

    def get_compressed_summary(self) -> dict[str, Any]:
        return self._call(self._store.get_compressed_summary())

    def update_compressed_status(self, entry_id: str, new_status: str) -> bool:
        return self._call(self._store.update_compressed_status(entry_id, new_status))


__all__ = ["BlockingFailedOperations"]
