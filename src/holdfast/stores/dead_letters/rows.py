"""Records of dead letters as rows of the tables, and back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData
from holdfast.serialize.marker import unreadable
from holdfast.stores.dead_letters.shelf import Gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.session import Row

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_when = datetime.fromisoformat
_MOST_CHARACTERS = 1 << 20  # MariaDB takes 16 MiB by default, of up to four bytes each, which may be sent twice


def written(value: Any) -> str:
    """Return a value that was let in by the door as JSON."""
    return "{}" if value == {} else _encode(value).decode()


def iso(moment: datetime | None) -> str | None:
    """Return an aware time in UTC as the tables have it: texts of one width."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def fresh_row(record: FailedOperationData, key: str) -> Values:
    """Return a new record as a row of ``dlq_add``: None where it says what most say, so that there is less to send."""
    same = record.error_message == record.error
    return (
        record.id, record.domain, record.failure_type, record.status, record.workflow_id or None, record.error,
        None if same else record.error_message, record.error_code or None, written(record.payload), record.entity_type,
        record.entity_id, _unusual(record.entity_refs), record.user_id, _unusual(record.snapshot_data),
        _unusual(record.request_data), _unusual(record.response_data), _unusual(record.metadata),
        record.retry_count or None, record.max_retries, record.next_action_hint or None,
        record.recommended_action or None, iso(record.expires_at),
        None if record.retry_delay is None else round(record.retry_delay * 1000), None if key == record.id else key,
    )  # fmt: skip


def _unusual(mapping: dict[str, Any]) -> str | None:
    return written(mapping) if mapping else None


def put_row(before: FailedOperationData, after: FailedOperationData, keys: str) -> Values:
    """Return a change as a row of ``dlq_put``."""
    return (
        before.id, before.version, before.domain, before.failure_type, before.status, after.status,
        None if after.error_message == before.error_message else after.error_message, after.retry_count,
        iso(after.last_retry_at), written(after.metadata), iso(after.resolved_at), after.resolved_by_id,
        after.resolution_type, after.resolution_note, after.recommended_action, iso(after.updated_at),
        iso(after.next_retry_at), after.replay_token, iso(after.replay_beat_at), after.version, keys,
    )  # fmt: skip


def delete_row(before: FailedOperationData) -> Values:
    """Return a deletion as a row of ``dlq_delete``."""
    return (before.id, before.version, before.domain, before.failure_type, before.status)


def record(row: Row) -> FailedOperationData:
    """Return the record in a row; what was not asked for is empty."""
    delay = row["retry_delay_ms"]
    return FailedOperationData(
        id=row["id"],
        domain=row["domain"],
        failure_type=row["failure_type"],
        status=row["status"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        entity_refs=_mapping(row.get("entity_refs", "{}")),
        user_id=row["user_id"],
        snapshot_data=_mapping(row.get("snapshot_data", "{}")),
        error_code=row["error_code"],
        error_message=row["error_message"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        last_retry_at=_moment(row["last_retry_at"]),
        request_data=_mapping(row.get("request_data", "{}")),
        response_data=_mapping(row.get("response_data", "{}")),
        metadata=_mapping(row["metadata"]),
        resolved_at=_moment(row["resolved_at"]),
        resolved_by_id=row["resolved_by_id"],
        resolution_type=row["resolution_type"],
        resolution_note=row["resolution_note"],
        next_action_hint=row["next_action_hint"],
        recommended_action=row["recommended_action"],
        created_at=_moment(row["created_at"]),
        updated_at=_moment(row["updated_at"]),
        expires_at=_moment(row["expires_at"]),
        error=row.get("error", ""),
        workflow_id=row["workflow_id"] or None,
        payload=_value(row.get("payload", "null")),
        retry_delay=None if delay is None else delay / 1000,
        next_retry_at=_moment(row["next_retry_at"]),
        replay_token=row["replay_token"],
        replay_beat_at=_moment(row["replay_beat_at"]),
        version=row["version"],
    )


def _value(text: str) -> Any:
    """Return the value in *text*, or the text itself if it is no JSON: somebody else has written it.

    A letter that cannot be read would keep those beside it from being listed and replayed.
    """
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return text


def _mapping(text: str) -> dict[str, Any]:
    value = _value(text)
    return value if isinstance(value, dict) else {unreadable("JSON"): text}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else _when(text)


def moment(text: str) -> datetime:
    """Return a time as the tables have it."""
    return _when(text)


def summary_row(entry: DLQCompressedEntry, key: str) -> Values:
    """Return a summary as a row of ``dlq_summaries_add``."""
    return (
        entry.id, entry.domain, entry.failure_type, entry.error_code, entry.count, iso(entry.first_seen),
        iso(entry.last_seen), entry.sample_error_message, written(entry.sample_context), iso(entry.compressed_at), key,
    )  # fmt: skip


def summary(row: Row) -> DLQCompressedEntry:
    """Return the summary in a row."""
    return DLQCompressedEntry(
        id=row["id"],
        domain=row["domain"],
        failure_type=row["failure_type"],
        error_code=row["error_code"],
        count=row["count"],
        first_seen=_when(row["first_seen"]),
        last_seen=_when(row["last_seen"]),
        sample_error_message=row["sample_error_message"],
        sample_context=_mapping(row["sample_context"]),
        status=row["status"],
        compressed_at=_when(row["compressed_at"]),
        stale_at=_moment(row["stale_at"]),
        archived_at=_moment(row["archived_at"]),
    )


def portions(rows: Sequence[Values]) -> Iterator[Sequence[Values]]:
    """Yield *rows*, so many at a time as no server finds too many for one statement; at least one."""
    begin = size = 0
    for at, row in enumerate(rows):
        more = sum(len(value) for value in row if isinstance(value, str))
        if at > begin and size + more > _MOST_CHARACTERS:
            yield rows[begin:at]
            begin, size = at, 0
        size += more
    if rows:
        yield rows[begin:]


class Changes:
    """What was decided about records that were read with a lock, each at its version, in the order of the decisions."""

    def __init__(self) -> None:
        self._before: dict[str, FailedOperationData] = {}
        self._after: dict[str, FailedOperationData | Gone] = {}
        self._keys: dict[str, list[str]] = {}

    def note(self, before: FailedOperationData, after: FailedOperationData | Gone, key: str) -> None:
        """Note one change; a second one of the same record stands on the first."""
        self._before.setdefault(before.id, before)
        self._after[before.id] = after
        self._keys.setdefault(before.id, []).append(key)

    def puts(self) -> list[Values]:
        """Return the rows of ``dlq_put``, in the order of the ids."""
        return [
            put_row(self._before[id], after, ",".join(self._keys[id]))
            for id, after in sorted(self._after.items(), key=_id)  # noqa: A001 -- the documented word
            if not isinstance(after, Gone)
        ]

    def deletions(self) -> list[Values]:
        """Return the rows of ``dlq_delete``, in the order of the ids."""
        return [
            delete_row(self._before[id])
            for id, after in sorted(self._after.items(), key=_id)  # noqa: A001
            if isinstance(after, Gone)
        ]


def _id(item: tuple[str, Any]) -> str:
    return item[0]


__all__ = [
    "Changes",
    "delete_row",
    "fresh_row",
    "iso",
    "moment",
    "portions",
    "put_row",
    "record",
    "summary",
    "summary_row",
    "written",
]
