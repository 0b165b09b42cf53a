"""Records that a process has written to Redis itself: who changes one again need not read it first."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from holdfast.stores.dead_letters import redis_records as records

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.model.dead_letter import FailedOperationData


class Known:
    """A record as it was last written, by which change, and the server's time then."""

    __slots__ = ("_at", "_body", "_made", "_then", "key")

    def __init__(self, body: bytes, made: datetime, key: str, at: datetime) -> None:
        self._body = body
        self._made = made
        self.key = key
        self._at = at
        self._then = monotonic()

    def record(self) -> FailedOperationData:
        """Return the record: nobody else has this copy of it."""
        return records.seen(self._body, self._made)

    def now(self) -> datetime:
        """Return the server's time, if its clock goes like this one: whole milliseconds, as the server's are.

        With a fraction it would be later than what the server says in the same millisecond, and what is due at once
        not due to whoever asks then.
        """
        return self._at + timedelta(milliseconds=int((monotonic() - self._then) * 1000))


class Remembered:
    """What was written here last, apart from large records: those are read again, and take no memory for long.

    Nothing rests on it: a write names the change that it stands on, and the time, and is refused if one is wrong.
    """

    MOST = 1000
    LARGEST = 16_384  # bytes

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def note(self, id: str, body: bytes, made: datetime, key: str, at: datetime) -> None:  # noqa: A002
        """Remember a record that was written under *key*, at the server's time *at*; forget it, if it has no body."""
        self._known.pop(id, None)
        if 0 < len(body) <= self.LARGEST:
            self._known[id] = Known(body, made, key, at)
        while len(self._known) > self.MOST:
            with suppress(KeyError, StopIteration, RuntimeError):  # other threads forget, too
                del self._known[next(iter(self._known))]

    def get(self, id: str) -> Known | None:  # noqa: A002 -- the documented word
        """Return what is remembered of a record."""
        return self._known.get(id)


__all__ = ["Remembered"]
