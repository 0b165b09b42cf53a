"""Records of dead letters as Redis has them: JSON, the indexes a record stands in, and what a change moves."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

logger = logging.getLogger("holdfast.dead_letters")

ADDED, WRITTEN = 3, 4
"""Where the JSON of a record stands among the arguments of an addition, and of a change."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(FailedOperationData).decode
_plain = msgspec.json.Decoder().decode


def score(moment: datetime) -> str:
    """Return a time as the score it has in an index: microseconds since the epoch."""
    return str((moment - _EPOCH) // _MICROSECOND)


def moment(microseconds: bytes | str | float) -> datetime:
    """Return the time that a score, or the server's milliseconds times 1000, stands for."""
    return _EPOCH + timedelta(microseconds=int(microseconds))


def read(replies: Sequence[bytes]) -> tuple[datetime, list[FailedOperationData], dict[str, str]]:
    """Return the server's time, the records in an answer of ``read.lua`` or ``page.lua``, and keys of changes by id."""
    now = moment(int(replies[0]) * 1000)
    records, keys = [], {}
    for at in range(1, len(replies), 4):
        id_, body, made, key = replies[at : at + 4]
        if body:  # an index is never ahead of its records; this is for one that somebody has deleted by hand
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


def body(record: FailedOperationData) -> bytes:
    """Return a record as JSON."""
    return _encode(record)


def indexes(record: FailedOperationData, made: str, due: str | None) -> Iterator[tuple[str, str]]:
    """Yield each index that *record* stands in and its score there; *made* and *due* are scores, or "now"."""
    yield "all", made
    yield f"s:{record.status}", made
    yield f"d:{record.domain}", made
    yield f"sd:{record.status}:{record.domain}", made
    yield f"t:{record.failure_type}", made
    yield f"st:{record.status}:{record.failure_type}", made
    yield f"dt:{pair(record.domain, record.failure_type)}", made
    yield f"sdt:{record.status}:{pair(record.domain, record.failure_type)}", made
    if due is not None:
        yield "due", due
    if record.expires_at is not None:
        yield "expires", score(record.expires_at)
    if record.resolved_at is not None:
        yield f"resolved:{record.status}", score(record.resolved_at)
    if record.status == "archived" and record.updated_at is not None:
        yield "archived", score(record.updated_at)
    if record.replay_beat_at is not None:
        yield "beat", score(record.replay_beat_at)


def pair(domain: str, failure_type: str) -> str:
    """Return a name for the two that no other two have."""
    return ":".join((str(len(domain)), domain, failure_type))


def places(record: FailedOperationData) -> dict[str, str]:
    """Return the indexes of a record that has its times."""
    assert record.created_at is not None  # noqa: S101 -- every stored record has it
    due = None if record.next_retry_at is None else score(record.next_retry_at)
    return dict(indexes(record, score(record.created_at), due))


def group(record: FailedOperationData) -> str:
    """Return the name of the count that *record* belongs to."""
    return _encode([record.domain, record.failure_type, record.status]).decode()


def addition(record: FailedOperationData, key: str) -> list[Any]:
    """Return the arguments of ``add.lua`` for a new record."""
    due = "now" if record.retry_delay is not None and record.status == "pending" else None
    joins = [part for each in indexes(record, "now", due) for part in each]
    return [record.id, record.version, key, body(record), group(record), *joins]


def change(
    before: FailedOperationData, after: FailedOperationData | None, key: str, known_by: str | None = None
) -> list[Any]:
    """Return the arguments of ``write.lua`` for a record that is changed, or with None deleted.

    *known_by* are the keys of the change that made *before*, if it was not just read.
    """
    old = places(before)
    new = {} if after is None else places(after)
    leaves = [name for name in old if name not in new]
    joins = [part for name, place in new.items() if old.get(name) != place for part in (name, place)]
    counts: list[Any] = [group(before), -1] if after is None or group(before) != group(after) else []
    if counts and after is not None:
        counts += [group(after), 1]
    written = b"" if after is None else body(after)
    version = 0 if after is None else after.version
    read = str(before.version) if known_by is None else f"{before.version} {known_by}"
    return [
        before.id, read, version, key, written, len(leaves), *leaves, len(joins) // 2, *joins,
        len(counts) // 2, *counts,
    ]  # fmt: skip


def tally(replies: Sequence[bytes]) -> dict[tuple[str, str, str], int]:
    """Return the counts in a whole hash."""
    return {
        (fields[0], fields[1], fields[2]): int(number)
        for name, number in zip(replies[::2], replies[1::2], strict=True)
        if (fields := _plain(name)) and int(number)
    }


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
    "WRITTEN",
    "addition",
    "change",
    "moment",
    "pair",
    "read",
    "score",
    "seen",
    "summary",
    "summary_arguments",
    "summary_fields",
    "tally",
]
