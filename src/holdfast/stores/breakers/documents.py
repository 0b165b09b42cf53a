"""How a breaker, its history and the answer to a change are written: the same JSON in every database and in Redis."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 -- msgspec reads the annotations
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.core.breaker import Delete
from holdfast.errors import CannotDeserialize
from holdfast.model.breaker import (
    CircuitBreakerChange,
    CircuitBreakerCloseAttempt,
    CircuitBreakerOpenAttempt,
    CircuitBreakerStateData,
)

if TYPE_CHECKING:
    from holdfast.core.breaker import Event

_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(CircuitBreakerStateData)
_change = msgspec.json.Decoder(CircuitBreakerChange)


class Applied(NamedTuple):
    """What came of a change: the breaker after it, the answer to whoever asked, and the storage's time."""

    record: CircuitBreakerStateData | None
    answer: Any
    now: datetime


class _Receipt(msgspec.Struct):
    """An answer as it is kept, so that a lost reply can be given again."""

    kind: str
    answer: Any
    record: CircuitBreakerStateData | None
    now: datetime


_receipt = msgspec.json.Decoder(_Receipt)
_receipts = msgspec.json.Decoder(list[_Receipt])


def written(record: CircuitBreakerStateData | CircuitBreakerChange) -> str:
    """Return a breaker, or an entry of its history, as text."""
    return _encode(record).decode()


def read(text: str | bytes) -> CircuitBreakerStateData:
    """Return the breaker in *text*. ``CannotDeserialize`` if somebody wrote it past us, and wrong."""
    try:
        return _record.decode(text)
    except msgspec.MsgspecError as error:
        raise _unreadable(text, error) from None


def read_for(event: Event, service_name: str, text: str | bytes | None) -> CircuitBreakerStateData | None:
    """Return the breaker that *event* happens to, None if there is none; one that cannot be read can be deleted."""
    if not text:
        return None
    try:
        return read(text)
    except CannotDeserialize:
        if isinstance(event, Delete):
            return CircuitBreakerStateData(service_name=service_name)
        raise


def read_change(text: str | bytes) -> CircuitBreakerChange:
    """Return the entry of a history in *text*. ``CannotDeserialize`` if somebody wrote it past us, and wrong."""
    try:
        return _change.decode(text)
    except msgspec.MsgspecError as error:
        raise _unreadable(text, error) from None


def _unreadable(text: str | bytes, error: msgspec.MsgspecError) -> CannotDeserialize:
    try:
        name = repr(msgspec.json.decode(text, type=dict[str, Any])["service_name"])
    except (msgspec.MsgspecError, KeyError):
        name = ""
    return CannotDeserialize(
        f"The breaker {name or 'that is stored here'} cannot be read, or its history: {error}. It was not written by a "
        f"repository of this release; delete_state({name}) removes it with its history."
    )


def written_receipt(applied: Applied) -> str:
    """Return what came of a change as text."""
    return _encode(_receipt_of(applied)).decode()


def written_receipts(applied: list[Applied]) -> str:
    """Return what came of several changes as one text."""
    return _encode([_receipt_of(each) for each in applied]).decode()


def read_receipt(text: str | bytes) -> Applied:
    """Return what came of a change."""
    return _applied(_receipt.decode(text))


def read_receipts(text: str | bytes) -> list[Applied]:
    """Return what came of several changes."""
    return [_applied(each) for each in _receipts.decode(text)]


def _receipt_of(applied: Applied) -> _Receipt:
    record, answer, now = applied
    if isinstance(answer, CircuitBreakerStateData):
        return _Receipt("record", None, record, now)
    if isinstance(answer, CircuitBreakerCloseAttempt):
        return _Receipt("close", answer.did_close, record, now)
    if isinstance(answer, CircuitBreakerOpenAttempt):
        return _Receipt("open", answer.did_open, record, now)
    if isinstance(answer, tuple):
        return _Receipt("tuple", answer, record, now)
    return _Receipt("plain", answer, record, now)


def _applied(kept: _Receipt) -> Applied:
    record, answer = kept.record, kept.answer
    if kept.kind == "record":
        answer = record
    elif kept.kind == "close" and record is not None:
        answer = CircuitBreakerCloseAttempt(record, answer)
    elif kept.kind == "open" and record is not None:
        answer = CircuitBreakerOpenAttempt(record, answer)
    elif kept.kind == "tuple":
        answer = tuple(answer)
    return Applied(record, answer, kept.now)


__all__ = [
    "Applied",
    "read",
    "read_change",
    "read_for",
    "read_receipt",
    "read_receipts",
    "written",
    "written_receipt",
    "written_receipts",
]
