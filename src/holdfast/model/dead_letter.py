"""Dead letters: failed operations that are kept for a replay or for a person to look at, and summaries of many."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 -- msgspec reads the annotations
from enum import StrEnum
from typing import Any, NoReturn, TypedDict

from msgspec import Struct, field


class FailedOperationStatus(StrEnum):
    """Where a failed operation stands."""

    PENDING = "pending"
    REPLAYING = "replaying"
    REVIEWING = "reviewing"
    REPLAYED = "replayed"
    REQUIRES_REVIEW = "requires_review"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    ARCHIVED = "archived"
    EXPIRED = "expired"
    PERMANENTLY_FAILED = "permanently_failed"


TERMINAL = frozenset({"resolved", "rejected", "archived"})
"""What is done with: it is not counted as active."""

IN_FLIGHT = frozenset({"replaying", "reviewing"})
"""What somebody is working on: it is never evicted."""


class ResolutionTrigger(StrEnum):
    """Why an operation was replayed: what a ``resolution_type`` says, if it is not a word of one's own."""

    MANUAL_REPLAY = "manual_replay"
    AUTO_REPLAY_CIRCUIT_CLOSE = "auto_replay_circuit_close"
    AUTO_REPLAY_RECOVERY = "auto_replay_recovery"
    SCHEDULED_BATCH = "scheduled_batch"
    TRAFFIC_AWARE = "traffic_aware"
    THROTTLE_REPLAY = "throttle_replay"
    DLQ_CONSUMER = "dlq_consumer"


class FailedOperationData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failed operation, with the documented names; times are aware.

    It is a copy: nothing that is done to it changes what is stored. Beyond the document: *error* is the first error in
    full, *error_message* the last one; *workflow_id* and *payload* are what the small queue was given; *retry_delay*
    is the wait in seconds after the first failed retry, None if it is never due by itself; *next_retry_at* when it may
    be handed out next; *replay_token* belongs to the replay that holds it, or that ended it last; *replay_beat_at* is
    when its holder was last heard of; *version* counts its changes.
    """

    # In its JSON, which Redis keeps, the defaults are left out: so a default is never another one later.

    id: str
    domain: str
    failure_type: str
    status: str = "pending"
    entity_type: str | None = None
    entity_id: str | None = None
    entity_refs: dict[str, Any] = field(default_factory=dict)
    user_id: int | None = None
    snapshot_data: dict[str, Any] = field(default_factory=dict)
    error_code: str = ""
    error_message: str = ""
    retry_count: int = 0
    max_retries: int = 2
    last_retry_at: datetime | None = None
    request_data: dict[str, Any] = field(default_factory=dict)
    response_data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    resolved_at: datetime | None = None
    resolved_by_id: int | None = None
    resolution_type: str = ""
    resolution_note: str = ""
    next_action_hint: str = ""
    recommended_action: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    error: str = ""
    workflow_id: str | None = None
    payload: Any = None
    retry_delay: float | None = None
    next_retry_at: datetime | None = None
    replay_token: str | None = None
    replay_beat_at: datetime | None = None
    version: int = 1

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a replay."""
        return self.status == FailedOperationStatus.PENDING

    @property
    def is_resolved(self) -> bool:
        """Whether it was put right."""
        return self.status == FailedOperationStatus.RESOLVED

    @property
    def can_retry(self) -> bool:
        """Whether it has been replayed less often than it may be."""
        return self.retry_count < self.max_retries


class ReplayEnd(Struct, frozen=True, kw_only=True):
    """How one of several replays has ended: what ``complete_replay`` is told of it. *token* is the replay's."""

    id: str
    token: str | None
    success: bool
    resolution_type: str = ""
    note: str = ""
    resolved_by_id: int | None = None
    error_details: dict[str, Any] | None = None


class CompressedStatus(StrEnum):
    """Where a summary stands; it only moves on, and is never deleted."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"There is no status {value!r:.50} of a summary; there are {', '.join(cls)}.")


class DLQCompressedEntry(Struct, frozen=True, kw_only=True):
    """What is left of evicted operations that had domain, failure type and error code in common.

    *sample_error_message* and *sample_context* are of the newest of them.
    """

    id: str
    domain: str
    failure_type: str
    error_code: str
    count: int
    first_seen: datetime
    last_seen: datetime
    sample_error_message: str = ""
    sample_context: dict[str, Any] = field(default_factory=dict)
    status: str = "active"
    compressed_at: datetime | None = None
    stale_at: datetime | None = None
    archived_at: datetime | None = None


class DeadLetterItem(TypedDict):
    """An item of the small queue. *status* is a word of the queue's own; *token* is the claim's, while there is one."""

    id: str
    workflow_id: str
    error: str
    payload: Any
    created_at: datetime
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    status: str
    token: str | None


class DeadLetterStats(TypedDict):
    """How many items the small queue has, by its own words for where they stand."""

    pending: int
    retrying: int
    succeeded: int
    permanent_failure: int
    total: int


__all__ = [
    "IN_FLIGHT",
    "TERMINAL",
    "CompressedStatus",
    "DLQCompressedEntry",
    "DeadLetterItem",
    "DeadLetterStats",
    "FailedOperationData",
    "FailedOperationStatus",
    "ReplayEnd",
    "ResolutionTrigger",
]
