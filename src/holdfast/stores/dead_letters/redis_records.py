"""Records of dead letters as Redis has them: JSON, the indexes a record stands in, and what a change moves."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.dead_letters import Standing, standing
from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData, FailedOperationStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger("holdfast.dead_letters")

ADDED, WRITTEN = 2, 2
"""Where the JSON of a record stands among the arguments of an addition, and of a change."""

UNCHANGED = ""
"""The key of the last change of a record that was made as most are, and that nobody has changed since."""

SPAN = 1 << 48
"""How many milliseconds, and so places in an index, each status has."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(FailedOperationData).decode
_plain = msgspec.json.Decoder().decode
_NUMBERS = {status.value: number for number, status in enumerate(FailedOperationStatus)}  # stored: a new one comes last
_NOBODYS = 15
_AS_MOST = Standing()


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def score(moment: datetime) -> str:
    """Return a time as the score it has in an index by that time: microseconds since the epoch."""
    return str(microseconds(moment))


def moment(stamp: bytes | str | float) -> datetime:
    """Return the time that a score, or the server's milliseconds times 1000, stands for."""
    return _EPOCH + timedelta(microseconds=int(stamp))


def server_time(milliseconds: int) -> datetime:
    """Return the time that the server means: a float has room for these until the year 2242."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def numbers(statuses: Iterable[str]) -> list[int]:
    """Return the numbers of statuses in the indexes; for a word that is no status, one that no record has."""
    return [_NUMBERS.get(status, _NOBODYS) for status in statuses] or [_NOBODYS]


Read: TypeAlias = tuple[datetime, list[FailedOperationData], dict[str, str]]
"""The server's time, records, and by id the keys of their last changes."""


def read(replies: Sequence[bytes]) -> Read:
    """Return what is in an answer of ``read.lua`` or ``page.lua``."""
    records, keys = [], {}
    for reply in replies[1:]:
        id_, *rest = reply.split(b" ", 3)
        if rest:  # an index is never ahead of its records; this is for one that somebody has deleted by hand
            stamp, key, body = rest
            record = _seen(id_, body, _made(stamp))
            if record is not None:
                records.append(record)
                keys[record.id] = key.decode()
    return server_time(int(replies[0])), records, keys


def read_over(reply: bytes, over: bytes) -> tuple[FailedOperationData, bytes, datetime] | None:
    """Return the record in an answer of ``write.lua`` with *over*, where it stands now, laid over it.

    And its JSON then, and when it was made; None if it is not what was written.
    """
    id_, stamp, _, before = reply.split(b" ", 3)
    body, made = b"%b,%b" % (before[:-1], over[1:]), _made(stamp)  # of two members of a name the last counts
    record = _seen(id_, body, made)
    return None if record is None else (record, body, made)


def _made(stamp: bytes) -> datetime:
    return server_time(int(stamp) // 1000)


def _seen(id_: bytes, body: bytes, made: datetime) -> FailedOperationData | None:
    try:
        return seen(body, made)
    except msgspec.MsgspecError as error:
        logger.warning("The dead letter %s is not what was written, and is left out: %s", id_.decode(), error)
        return None


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


def unread(id: str) -> FailedOperationData:  # noqa: A002 -- the documented word
    """Return a record that stands as those under ``UNCHANGED`` do; its contents are nobody's."""
    return FailedOperationData(id=id, domain="", failure_type="")


def is_as_most(record: FailedOperationData) -> bool:
    """Whether a new record stands as most do when they are made."""
    return standing(record) == _AS_MOST


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
    if after is None:
        return [before.id, stands_on, b"", before.status, "", 0, *_moved(times(before), {})]
    return _written(before, after, stands_on, _encode(after))


def change_over(before: FailedOperationData, after: FailedOperationData) -> list[Any]:
    """Return the arguments of ``write.lua`` for a record that was not read: where it stands is laid over it."""
    return _written(before, after, UNCHANGED, _encode(standing(after)))


def _written(before: FailedOperationData, after: FailedOperationData, stands_on: str, body: bytes) -> list[Any]:
    moved = _moved(times(before), times(after))
    return [before.id, stands_on, body, before.status, after.status, _NUMBERS[after.status], *moved]


def _moved(old: dict[str, str], new: dict[str, str]) -> tuple[str, str]:
    """Return the indexes by a time that are left, and those that are joined, each with its score."""
    leaves = [name for name in old if name not in new]
    joins = [f"{name} {place}" for name, place in new.items() if old.get(name) != place]
    return " ".join(leaves), " ".join(joins)


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
    "UNCHANGED",
    "WRITTEN",
    "Read",
    "addition",
    "change",
    "change_over",
    "is_as_most",
    "microseconds",
    "moment",
    "numbers",
    "pair",
    "read",
    "read_over",
    "score",
    "seen",
    "server_time",
    "summary",
    "summary_arguments",
    "summary_fields",
    "tally",
    "unread",
]
