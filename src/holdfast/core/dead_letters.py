"""What may become of a failed operation: one state machine for every storage, with no clock and no I/O.

``transition(record, event, now)`` returns the record as it is afterwards, or None if the event is refused. A storage
writes what comes out if the record's version is still the one that went in, so that two who race cannot both succeed.

=============================== ==================== ================ ================================================
from                            event                to               if
=============================== ==================== ================ ================================================
pending                         Acquire              replaying        retry_count < the caller's limit
pending, requires_review        Acquire, forced      replaying        always; retry_count begins anew, with stamps
pending                         Claim                replaying        retry_count < max_retries
replaying, with a due time      Claim                replaying        its lease is over, retry_count < max_retries
as the two above                Claim                requires_review  retry_count >= max_retries
replaying                       Beat                 replaying        by its holder
replaying                       GiveBack             pending          by its holder; the attempt does not count
replaying                       Complete, well       resolved         by its holder
replaying                       Complete, failed     pending          by its holder, retry_count < max_retries
replaying                       Complete, failed     requires_review  by its holder, retry_count >= max_retries
pending, reviewing, rev. req.   Complete             as by a holder   nobody holds it, and the caller claims no token
replaying                       Release              pending          always; whoever held it does not any more
resolved                        Archive              archived         always
any                             SetStatus            the one given    always; whoever held it does not any more
any                             CountRetry           the same         always
=============================== ==================== ================ ================================================

An attempt is counted when it is begun, so that one whose worker dies counts as well. A token stays with the record
after the replay has ended: whoever ends the same replay once more, the same way, is told that it is done.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.dead_letter import CompressedStatus, FailedOperationData

MOST_DELAY = 3600.0
_PENDING, _REPLAYING, _REVIEW, _RESOLVED = "pending", "replaying", "requires_review", "resolved"
_UNHELD = frozenset({_PENDING, "reviewing", _REVIEW})
_FORCIBLE = frozenset({_PENDING, _REVIEW})


class Acquire(Struct, frozen=True):
    """Somebody wants to replay it, *lease* seconds at first."""

    token: str
    max_retries: int
    lease: float
    force: bool = False


class Claim(Struct, frozen=True):
    """The small queue, or a scheduled replay, hands it out for *lease* seconds."""

    token: str
    lease: float


class Beat(Struct, frozen=True):
    """Its holder is alive, and wants *lease* seconds more."""

    token: str | None
    lease: float


class GiveBack(Struct, frozen=True):
    """Its holder has not begun: the attempt is taken back."""

    token: str | None


class Complete(Struct, frozen=True):
    """A replay has ended. *draw*, from 0 to 1, is the jitter of what follows a failure."""

    success: bool
    token: str | None = None
    resolution_type: str = ""
    note: str = ""
    resolved_by_id: int | None = None
    error_details: dict[str, Any] | None = None
    draw: float = 0.0


class Release(Struct, frozen=True):
    """Nothing has been heard of its holder for too long."""


class Archive(Struct, frozen=True):
    """It was put right long ago."""


class SetStatus(Struct, frozen=True):
    """A person, or a program in one's name, says where it stands. What is empty keeps its value."""

    status: str
    resolution_type: str = ""
    resolution_note: str = ""
    resolved_by_id: int | None = None
    recommended_action: str = ""


class CountRetry(Struct, frozen=True):
    """An attempt was made elsewhere."""


Event: TypeAlias = Acquire | Claim | Beat | GiveBack | Complete | Release | Archive | SetStatus | CountRetry


class Standing(Struct, frozen=True, omit_defaults=True):
    """Where a record stands, apart from its contents; as it is by default, a new record stands."""

    status: str = _PENDING
    retry_count: int = 0
    retry_delay: float | None = None
    last_retry_at: datetime | None = None
    updated_at: datetime | None = None
    next_retry_at: datetime | None = None
    replay_token: str | None = None
    replay_beat_at: datetime | None = None
    version: int = 1


_standing = attrgetter(*Standing.__struct_fields__)


def standing(record: FailedOperationData) -> Standing:
    """Return where *record* stands."""
    return Standing(*_standing(record))


def rests_on_standing(event: Event) -> bool:
    """Whether *event* looks at nothing but where a record stands, and changes nothing else.

    A storage may then decide about a record that it has not read, and write that if the record stands so.
    """
    return isinstance(event, CountRetry) or (isinstance(event, Acquire) and not event.force)


def transition(record: FailedOperationData, event: Event, now: datetime) -> FailedOperationData | None:
    """Return *record* after *event*, one version further; None if it is refused. *record* is left as it is."""
    changed: FailedOperationData | None = _RULES[type(event)](record, event, now)
    return changed


def _acquire(record: FailedOperationData, event: Acquire, now: datetime) -> FailedOperationData | None:
    if event.force:
        return _held(record, event, now, 1, _scar(record)) if record.status in _FORCIBLE else None
    if record.status != _PENDING or record.retry_count >= event.max_retries:
        return None
    return _held(record, event, now, record.retry_count + 1, record.metadata)


def _scar(record: FailedOperationData) -> dict[str, Any]:
    """Return the metadata with what a forced replay would otherwise wipe out."""
    before = record.metadata
    return {
        **before,
        "previous_total_retries": _number(before.get("previous_total_retries")) + record.retry_count,
        "force_redrive_count": _number(before.get("force_redrive_count")) + 1,
    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _claim(record: FailedOperationData, event: Claim, now: datetime) -> FailedOperationData | None:
    over = record.next_retry_at is not None and record.next_retry_at <= now
    if record.status != _PENDING and not (record.status == _REPLAYING and over):
        return None
    if record.retry_count >= record.max_retries:
        return _freed(record, now, _REVIEW, None)
    return _held(record, event, now, record.retry_count + 1, record.metadata)


def _held(
    record: FailedOperationData, event: Acquire | Claim, now: datetime, count: int, metadata: dict[str, Any]
) -> FailedOperationData:
    return replace(
        record,
        version=record.version + 1,
        updated_at=now,
        status=_REPLAYING,
        retry_count=count,
        last_retry_at=now,
        replay_token=event.token,
        replay_beat_at=now,
        next_retry_at=None if record.retry_delay is None else now + timedelta(seconds=event.lease),
        metadata=metadata,
    )


def _freed(record: FailedOperationData, now: datetime, status: str, due: datetime | None) -> FailedOperationData:
    """Return the record when nobody holds it any more, whatever came of that."""
    return replace(
        record,
        version=record.version + 1,
        updated_at=now,
        status=status,
        replay_token=None,
        replay_beat_at=None,
        next_retry_at=due,
    )


def _is_holder(record: FailedOperationData, token: str | None) -> bool:
    return record.status == _REPLAYING and token is not None and record.replay_token == token


def _beat(record: FailedOperationData, event: Beat, now: datetime) -> FailedOperationData | None:
    if not _is_holder(record, event.token):
        return None
    due = None if record.next_retry_at is None else now + timedelta(seconds=event.lease)
    return replace(record, version=record.version + 1, updated_at=now, replay_beat_at=now, next_retry_at=due)


def _give_back(record: FailedOperationData, event: GiveBack, now: datetime) -> FailedOperationData | None:
    if not _is_holder(record, event.token):
        return None
    return replace(_free(record, now), retry_count=max(0, record.retry_count - 1))


def _free(record: FailedOperationData, now: datetime) -> FailedOperationData:
    """Return the record pending again, and due at once if it ever is."""
    return _freed(record, now, _PENDING, None if record.retry_delay is None else now)


def may_complete(record: FailedOperationData, token: str | None) -> bool:
    """Whether whoever has *token*, or none, may end a replay of *record*."""
    if record.status == _REPLAYING:
        return record.replay_token == token
    return token is None and record.status in _UNHELD


def was_completed(record: FailedOperationData, event: Complete) -> bool:
    """Whether this very replay has ended already, the way *event* says."""
    if event.token is None or record.replay_token != event.token or record.status == _REPLAYING:
        return False
    return event.success is (record.status in {_RESOLVED, "archived"})


def _complete(record: FailedOperationData, event: Complete, now: datetime) -> FailedOperationData | None:
    if not may_complete(record, event.token):
        return None
    return (_succeeded if event.success else _failed)(record, event, now)


def _succeeded(record: FailedOperationData, event: Complete, now: datetime) -> FailedOperationData:
    return replace(
        record,
        version=record.version + 1,
        updated_at=now,
        status=_RESOLVED,
        resolved_at=now,
        next_retry_at=None,
        replay_beat_at=None,
        resolution_type=event.resolution_type or record.resolution_type,
        resolution_note=event.note or record.resolution_note,
        resolved_by_id=record.resolved_by_id if event.resolved_by_id is None else event.resolved_by_id,
    )


def _failed(record: FailedOperationData, event: Complete, now: datetime) -> FailedOperationData:
    # What nobody has acquired has not been counted yet.
    count = record.retry_count + (record.status != _REPLAYING)
    exhausted = count >= record.max_retries
    return replace(
        record,
        version=record.version + 1,
        updated_at=now,
        status=_REVIEW if exhausted else _PENDING,
        retry_count=count,
        next_retry_at=None if exhausted else _next(record, count, event.draw, now),
        replay_beat_at=None,
        metadata={**record.metadata, **(event.error_details or {})},
        error_message=event.note or record.error_message,
        resolution_type=event.resolution_type or record.resolution_type,
        resolution_note=event.note or record.resolution_note,
        resolved_by_id=record.resolved_by_id if event.resolved_by_id is None else event.resolved_by_id,
    )


def _next(record: FailedOperationData, count: int, draw: float, now: datetime) -> datetime | None:
    if record.retry_delay is None:
        return None
    return now + timedelta(seconds=retry_wait(count, base=record.retry_delay, draw=draw))


def retry_wait(failures: int, *, base: float, draw: float) -> float:
    """Return the seconds to the next retry after the *failures*-th failed one (from 1).

    *base* doubled for each failure after the first, plus up to a quarter of that by *draw* (0 to 1), at most an hour.
    """
    wait = min(MOST_DELAY, base * 2.0 ** min(max(failures, 1) - 1, 60))
    return min(MOST_DELAY, wait + 0.25 * wait * draw)


def _release(record: FailedOperationData, _event: Release, now: datetime) -> FailedOperationData | None:
    return _free(record, now) if record.status == _REPLAYING else None


def _archive(record: FailedOperationData, _event: Archive, now: datetime) -> FailedOperationData | None:
    if record.status != _RESOLVED:
        return None
    return replace(record, version=record.version + 1, updated_at=now, status="archived")


def _set_status(record: FailedOperationData, event: SetStatus, now: datetime) -> FailedOperationData:
    due = now if event.status == _PENDING and record.retry_delay is not None else None
    return replace(
        _freed(record, now, event.status, due),
        resolved_at=now if event.status == _RESOLVED else record.resolved_at,
        replay_beat_at=now if event.status == _REPLAYING else None,
        resolution_type=event.resolution_type or record.resolution_type,
        resolution_note=event.resolution_note or record.resolution_note,
        resolved_by_id=record.resolved_by_id if event.resolved_by_id is None else event.resolved_by_id,
        recommended_action=event.recommended_action or record.recommended_action,
    )


def _count_retry(record: FailedOperationData, _event: CountRetry, now: datetime) -> FailedOperationData:
    count = record.retry_count + 1
    return replace(record, version=record.version + 1, updated_at=now, retry_count=count, last_retry_at=now)


_RULES: dict[type[Event], Any] = {
    Acquire: _acquire,
    Claim: _claim,
    Beat: _beat,
    GiveBack: _give_back,
    Complete: _complete,
    Release: _release,
    Archive: _archive,
    SetStatus: _set_status,
    CountRetry: _count_retry,
}

_LATER: dict[str, frozenset[str]] = {
    CompressedStatus.STALE: frozenset({"active"}),
    CompressedStatus.ARCHIVED: frozenset({"active", "stale"}),
}


def summary_may_become(status: str, new_status: str) -> bool:
    """Whether a summary in *status* may move on to *new_status*: active, stale, archived, and never back."""
    return status in _LATER.get(new_status, frozenset())


__all__ = [
    "MOST_DELAY",
    "Acquire",
    "Archive",
    "Beat",
    "Claim",
    "Complete",
    "CountRetry",
    "Event",
    "GiveBack",
    "Release",
    "SetStatus",
    "Standing",
    "may_complete",
    "rests_on_standing",
    "retry_wait",
    "standing",
    "summary_may_become",
    "transition",
    "was_completed",
]
