"""Records that a process has written to Redis itself: to change one again it need not read it first."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime  # noqa: TC003 -- msgspec reads the annotations
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.stores.dead_letters import redis_records as records

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData


class ServerClock:
    """The server's time between two of its answers, if its clock goes like the one here. It says what it takes it for.

    Nothing rests on it: a write names the time, and is refused if that is wrong.
    """

    def __init__(self) -> None:
        self._heard: tuple[int, float] | None = None  # together, since threads share it

    def hear(self, now_ms: int) -> None:
        """Learn the server's time from an answer that has just come."""
        self._heard = now_ms, monotonic()

    def now_ms(self) -> int | None:
        """Return whole milliseconds, as the server's are; None if no answer has come yet.

        With a fraction it would be later than what the server says in the same millisecond, and what is due at once
        not due to whoever asks then.
        """
        if self._heard is None:
            return None
        at, then = self._heard
        return at + int((monotonic() - then) * 1000)


class Known(Struct, frozen=True):
    """A record as it was last written, and by which change."""

    body: bytes
    made: datetime
    key: str

    def record(self) -> FailedOperationData:
        """Return the record: nobody else has this copy of it."""
        return records.seen(self.body, self.made)


class Remembered:
    """What was written here last, apart from large records: those are read again, and take no memory for long.

    Nothing rests on it: a write names the change that it stands on, and is refused if that is not the last one.
    """

    MOST = 1000
    LARGEST = 16_384  # bytes

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def note(self, id: str, body: bytes, made: datetime, key: str) -> None:  # noqa: A002 -- the documented word
        """Remember a record that was written under *key*; forget it, if it has no body."""
        self._known.pop(id, None)
        if 0 < len(body) <= self.LARGEST:
            self._known[id] = Known(body, made, key)
        while len(self._known) > self.MOST:
            with suppress(KeyError, StopIteration, RuntimeError):  # other threads forget, too
                del self._known[next(iter(self._known))]

    def get(self, id: str) -> Known | None:  # noqa: A002 -- the documented word
        """Return what is remembered of a record."""
        return self._known.get(id)


__all__ = ["Remembered", "ServerClock"]
