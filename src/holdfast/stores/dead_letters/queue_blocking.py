"""The small dead letter queue for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores.blocking import BlockingStore
from holdfast.stores.dead_letters.queue import DeadLetterQueue

if TYPE_CHECKING:
    from holdfast.model.dead_letter import DeadLetterItem, DeadLetterStats


class SyncDeadLetterQueue(BlockingStore[DeadLetterQueue]):
    """Any dead letter queue, called from threads; its loop is *portal*'s."""

    def enqueue(
        self, workflow_id: str, error: str, payload: Any, max_retries: int = 3, *, failure_type: str = "workflow"
    ) -> str:
        """Store a failed item and return its id; it is due at once.

        With *max_retries* 0 it is a permanent failure from the start. ``CannotSerialize`` names the part of *payload*
        that does not fit JSON.
        """
        return self._write(
            lambda store: store.enqueue(workflow_id, error, payload, max_retries, failure_type=failure_type)
        )

    def dequeue_ready(self, limit: int = 10) -> list[DeadLetterItem]:
        """Claim at most *limit* items that are due, the longest due first, and return them.

        Nobody else gets them until the lease is over: end each with ``mark_success`` or ``mark_failure`` before that,
        or say ``extend``. An item whose worker died is due when its lease is over, and its retry counts.
        """
        return self._call(self._store.dequeue_ready(limit))

    def mark_retrying(self, item_id: str) -> bool:
        """Claim one item, due or not; nothing changes if the caller holds it already.

        False, and nothing is changed, if somebody else holds it, it has ended, or there is none.
        """
        return self._call(self._store.mark_retrying(item_id))

    def extend(self, item_id: str, *, token: str | None = None) -> bool:
        """Have the claim last a whole lease from now; False if it is not, or no longer, the caller's."""
        return self._write(lambda store: store.extend(item_id, token=token))

    def mark_success(self, item_id: str, *, token: str | None = None) -> bool:
        """End an item well.

        False, and nothing is changed, if somebody else holds it or has held it since, if it has ended, or there is
        none. What nobody holds may be ended by anyone.
        """
        return self._write(lambda store: store.mark_success(item_id, token=token))

    def mark_failure(self, item_id: str, error: str = "", *, token: str | None = None) -> bool:
        """End a retry that failed: after the n-th one the next comes in 2^(n-1) times the base delay, at most 1 h.

        Up to a quarter of that is added at random. After ``max_retries`` of them the item is a permanent failure.
        False, and nothing is changed, where ``mark_success`` says so.
        """
        return self._write(lambda store: store.mark_failure(item_id, error, token=token))

    def get(self, item_id: str) -> DeadLetterItem | None:
        """Return an item, or None."""
        return self._call(self._store.get(item_id))

    def get_stats(self) -> DeadLetterStats:
        """Return how many items there are: pending, retrying, succeeded, permanent_failure and total."""
        return self._call(self._store.get_stats())


__all__ = ["SyncDeadLetterQueue"]
