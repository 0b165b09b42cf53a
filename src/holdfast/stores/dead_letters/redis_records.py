"""Records of dead letters as Redis has them: JSON, the indexes a record stands in, and what a change moves."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData, FailedOperationStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger("holdfast.dead_letters")

ADDED, WRITTEN = 2, 2
"""Where the JSON of a record stands among the arguments of an addition, and of a change."""

SPAN = 1 << 48
"""How many milliseconds, and so places in an index, each status has."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(FailedOperationData).decode
_plain = msgspec.json.Decoder().decode
_NUMBERS = {status.value: number for number, status in enumerate(FailedOperationStatus)}  # stored: a new one comes last
_NOBODYS = 15


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def score(moment: datetime) -> str:
    """Return a time as the score it has in an index by that time: microseconds since the epoch."""
    return str(microseconds(moment))


def moment(stamp: bytes | str | float) -> datetime:
    """Return the time that a score, or the server's milliseconds times 1000, stands for."""
    return _EPOCH + timedelta(microseconds=int(stamp))


def numbers(statuses: Iterable[str]) -> list[int]:
    """Return the numbers by which the statuses stand in the indexes; that of nobody for a word that is none."""
    return [_NUMBERS.get(status, _NOBODYS) for status in statuses] or [_NOBODYS]


def read(replies: Sequence[bytes]) -> tuple[datetime, list[FailedOperationData], dict[str, str]]:
    """Return the server's time, the records in an answer of ``read.lua`` or ``page.lua``, and keys of changes by id."""
    now = moment(int(replies[0]) * 1000)
    records, keys = [], {}
    for reply in replies[1:]:
        id_, *rest = reply.split(b" ", 3)
        if rest:  # an index is never ahead of its records; this is for one that somebody has deleted by hand
            made, key, body = rest
            try:
                record = seen(body, moment(made))
            except msgspec.MsgspecError as error:
                logger.warning("The dead letter %s is not what was written, and is left out: %s", id_.decode(), error)
                continue
            records.append(record)
            keys[record.id] = key.decode()
    return now, records, keys


def seen(body: bytes, made: datetime) -> FailedOperationData:
    """Return the record in its JSON, with the times the server gave it when it was made."""
    record = _record(body)
    if record.version > 1:
        return replace(record, created_at=made)
    due = made if record.retry_delay is not None and record.status == "pending" else None
    return replace(record, created_at=made, updated_at=made, next_retry_at=due)


def pair(domain: str, failure_type: str) -> str:
    """Return a name for the two that no other two have."""
    return ":".join((str(len(domain.encode())), domain, failure_type))  # a member of an enum is its text there


def times(record: FailedOperationData) -> dict[str, str]:
    """Return the indexes by a time that *record* stands in, and its score in each."""
    found = {}
    if record.next_retry_at is not None:
        found["due"] = score(record.next_retry_at)
    if record.expires_at is not None:
        found["expires"] = score(record.expires_at)
    if record.resolved_at is not None:
        found[f"resolved:{record.status}"] = score(record.resolved_at)
    if record.status == "archived" and record.updated_at is not None:
        found["archived"] = score(record.updated_at)
    if record.replay_beat_at is not None:
        found["beat"] = score(record.replay_beat_at)
    return found


def addition(record: FailedOperationData, key: str) -> list[Any]:
    """Return the arguments of ``add.lua`` for a new record."""
    joins = [part for each in times(record).items() for part in each]
    if record.retry_delay is not None and record.status == "pending":
        joins += ["due", "now"]
    number = _NUMBERS[record.status]
    return [record.id, key, _encode(record), record.domain, record.failure_type, record.status, number, *joins]


def change(before: FailedOperationData, after: FailedOperationData | None, stands_on: str) -> list[Any]:
    """Return the arguments of ``write.lua`` for a record that is changed, or with None deleted.

    *stands_on* is the key of the change that made *before*.
    """
    assert before.created_at is not None  # noqa: S101 -- every stored record has it
    old, new = times(before), {} if after is None else times(after)
    leaves = [name for name in old if name not in new]
    joins = [part for name, place in new.items() if old.get(name) != place for part in (name, place)]
    written, status, place = b"", "", 0
    if after is not None:
        written, status = _encode(after), after.status
        place = _NUMBERS[status] * SPAN + microseconds(before.created_at) // 1000
    return [
        before.id, stands_on, written, before.domain, before.failure_type, before.status, status, place,
        len(leaves), *leaves, len(joins) // 2, *joins,
    ]  # fmt: skip


def tally(replies: Sequence[bytes]) -> dict[tuple[str, str, str], int]:
    """Return the counts in a whole hash, by domain, failure type and status."""
    counts = {}
    for name, number in zip(replies[::2], replies[1::2], strict=True):
        status, length, kind = name.split(b":", 2)
        domain, failure_type = kind[: int(length)], kind[int(length) + 1 :]
        counts[domain.decode(), failure_type.decode(), status.decode()] = int(number)
    return counts


def summary_arguments(entry: DLQCompressedEntry, now: datetime) -> list[Any]:
    """Return a summary as the last arguments of ``write.lua``."""
    return [
        entry.id, entry.domain, entry.failure_type, entry.error_code, entry.count, score(entry.first_seen),
        score(entry.last_seen), entry.sample_error_message, _encode(entry.sample_context),
        score(entry.compressed_at or now),
    ]  # fmt: skip


def summary_fields(entry: DLQCompressedEntry) -> list[Any]:
    """Return the last arguments of ``summary_store.lua``."""
    return [
        "failure_type", entry.failure_type, "error_code", entry.error_code, "first", score(entry.first_seen),
        "last", score(entry.last_seen), "message", entry.sample_error_message, "context",
        _encode(entry.sample_context), "stale", _optional(entry.stale_at), "archived", _optional(entry.archived_at),
    ]  # fmt: skip


def _optional(when: datetime | None) -> str:
    return "" if when is None else score(when)


def summary(id: bytes, fields: Sequence[bytes]) -> DLQCompressedEntry:  # noqa: A002 -- the documented word
    """Return the summary in an answer of ``summaries.lua``."""
    has = {name.decode(): value.decode() for name, value in zip(fields[::2], fields[1::2], strict=True)}
    return DLQCompressedEntry(
        id=id.decode(),
        domain=has["domain"],
        failure_type=has["failure_type"],
        error_code=has["error_code"],
        count=int(has["count"]),
        first_seen=moment(has["first"]),
        last_seen=moment(has["last"]),
        sample_error_message=has["message"],
        sample_context=_plain(has["context"]),
        status=has["status"],
        compressed_at=moment(has["compressed"]),
        stale_at=moment(has["stale"]) if has["stale"] else None,
        archived_at=moment(has["archived"]) if has["archived"] else None,
    )


__all__ = [
    "ADDED",
    "SPAN",
    "WRITTEN",
    "addition",
    "change",
    "microseconds",
    "moment",
    "numbers",
    "pair",
    "read",
    "score",
    "seen",
    "summary",
    "summary_arguments",
    "summary_fields",
    "tally",
]
