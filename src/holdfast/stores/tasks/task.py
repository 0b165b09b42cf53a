"""A task as its reader sees it, and what may be asked of one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from holdfast.core.durations import checked_seconds
from holdfast.core.numbers import count
from holdfast.errors import CannotDeserialize, TooLong
from holdfast.serialize import PortableJSON
from holdfast.serialize.exact import safe_text
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration

MOST_PAYLOAD_BYTES = 8 * 1024 * 1024
_LONGEST_NAME = 255
_LONGEST_ERROR = 100_000
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_json = PortableJSON()


class TaskStatus(StrEnum):
    """Where a task stands. ``FAILED`` is never written: a task that failed is pending again, or dead_lettered."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTERED = "dead_lettered"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"There is no status {value!r:.50}; there are {', '.join(cls)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. *token* is there only for whoever has taken it: it is what the task is ended by.

    *available_at* is when a pending task may be taken, None for at once; *lease_until* is until when a task that is
    processing is its worker's. *error* is the last one.
    """

    task_id: str
    queue_name: str
    payload: Any
    status: TaskStatus
    attempts: int
    max_attempts: int
    visibility_timeout: int
    priority: int
    created_at: datetime
    updated_at: datetime
    worker_id: str = ""
    error: str = ""
    token: str | None = None
    available_at: datetime | None = None
    lease_until: datetime | None = None


class NewTask(NamedTuple):
    """A task that is to be put into a queue: a row of the query ``tasks_put``.

    *creation_key* is None if its id was made for it.
    """

    task_id: str
    queue_name: str
    payload: str
    max_attempts: int
    visibility_timeout: int
    priority: int
    delay_ms: int | None
    creation_key: str | None


def task_of(row: dict[str, Any], *, taken: bool = False) -> Task:
    """Make a task of what is stored of it; its token is shown only to whoever has *taken* it."""
    status = TaskStatus(row["status"])
    due = None if row["due_at_ms"] is None else moment(row["due_at_ms"] / 1000)
    return Task(
        task_id=row["task_id"],
        queue_name=row["queue_name"],
        payload=payload_of(row["payload"]),
        status=status,
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        visibility_timeout=row["visibility_timeout"],
        priority=row["priority"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        worker_id=row["worker_id"],
        error=row["error"],
        token=row["token"] if taken else None,
        available_at=due if status is TaskStatus.PENDING else None,
        lease_until=due if status is TaskStatus.PROCESSING else None,
    )


def moment(timestamp: float) -> datetime:
    """Return an aware time for seconds since the epoch."""
    return datetime.fromtimestamp(timestamp, UTC)


def payload_text(payload: Any) -> str:
    """Return *payload* as it is stored; refuse what is not JSON, with the path, and what is too long."""
    text = _json.serialize(payload)
    if len(text) * 4 > MOST_PAYLOAD_BYTES and len(text.encode()) > MOST_PAYLOAD_BYTES:
        raise TooLong(
            f"The payload has {len(text.encode())} bytes, a task holds {MOST_PAYLOAD_BYTES}: store it elsewhere and "
            "put its address into the task."
        )
    return text


def payload_of(text: str) -> Any:
    """Return the payload that is stored as *text*; the text itself if somebody else has written it and it is no JSON.

    A task that cannot be read would keep those beside it from being taken, listed and ended.
    """
    try:
        return _json.deserialize(text)
    except CannotDeserialize:
        return text


def checked_id(task_id: str) -> str:
    """Return *task_id* if a task may have it; ``TypeError`` or ``ValueError`` if not."""
    if not isinstance(task_id, str):
        raise TypeError(f"A task id is text, not {type(task_id).__name__}.")
    if _ID.fullmatch(task_id) is None:
        raise ValueError(
            f"A task id has 1 to 128 of the characters A-Z a-z 0-9 _ . : -, but {task_id[:140]!r} does not fit."
        )
    return task_id


def checked_name(name: str, what: str) -> str:
    """Return *name* if it may be the name of a *what*."""
    checked = checked_key(name, what)
    if len(checked) > _LONGEST_NAME:
        raise TooLong(f"The {what} has {len(checked)} characters, the longest may have {_LONGEST_NAME}.")
    return checked


def whole_seconds(duration: Duration, what: str) -> int:
    """Return a duration in whole seconds, at least one, that fits its column."""
    return count(max(1, math.ceil(checked_seconds(duration, what))), what, least=1)


def error_text(error: str | BaseException) -> str:
    """Return what is stored of an error: text that every database takes."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {safe_text(error)}"
    return text.encode("utf-8", "replace").decode()[:_LONGEST_ERROR].replace("\x00", "\ufffd")


__all__ = ["NewTask", "Task", "TaskStatus"]
