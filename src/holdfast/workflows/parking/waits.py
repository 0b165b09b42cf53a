"""Which branches of a run wait durably, and for what; counted, so that it is known when all of them do."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple


class Parts:
    """Branches that were opened together, and how many of them have not ended."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = 0


class Awaited(NamedTuple):
    """Something that a run may wait for: a message to it of a topic, or an event of some run under a key."""

    kind: str
    workflow_id: str
    key: str

    def digest(self) -> str:
        """Return a key of a bounded length that tells this one from all others of its kind."""
        whole = f"{len(self.workflow_id)} {self.workflow_id} {self.key}"
        return blake2b(whole.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Wait:
    """What a branch waits for: a moment, in milliseconds since the epoch, the end of one of several runs, or *things*.

    A branch that waits for *parts* it has opened is about to go on when the last of them has ended.
    """

    until_ms: int | None = None
    results: tuple[str, ...] = ()
    parts: Parts | None = None
    things: tuple[Awaited, ...] = ()

    def and_also(self, other: Wait) -> Wait:
        """Return what whoever waits for either is woken by."""
        moments = [each for each in (self.until_ms, other.until_ms) if each is not None]
        results, things = self.results + other.results, self.things + other.things
        return Wait(min(moments, default=None), results, things=things)

    @property
    def kind(self) -> str:
        """A word for people."""
        if self.results:
            return "result"
        return self.things[0].kind if self.things else "sleep"

    @property
    def may_end_at_any_moment(self) -> bool:
        """Whether it is for more than a moment that is known."""
        return bool(self.results or self.things)


class Waits:
    """The branches of one run; called from its tasks and threads.

    ``changes`` counts whatever happens, so that somebody who looks twice knows whether nothing did.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._branches = 1
        self._waiting: dict[int, Wait] = {}
        self._next = 0
        self.changes = 0

    def opened(self, parts: Parts | None = None) -> None:
        """Count a branch more, one of *parts* if somebody waits for them."""
        with self._lock:
            self._branches += 1
            self.changes += 1
            if parts is not None:
                parts.open += 1

    def ended(self, parts: Parts | None = None) -> None:
        """Count a branch less."""
        with self._lock:
            self._branches -= 1
            self.changes += 1
            if parts is not None:
                parts.open -= 1

    def begin(self, wait: Wait) -> int:
        """Note that a branch waits; return what ends that."""
        with self._lock:
            self.changes += 1
            self._next += 1
            self._waiting[self._next] = wait
            return self._next

    def end(self, mark: int) -> None:
        """Note that the branch goes on."""
        with self._lock:
            self.changes += 1
            del self._waiting[mark]

    def together(self) -> Wait | None:
        """Return what all branches wait for, taken together; None if one of them does not wait."""
        with self._lock:
            if len(self._waiting) < self._branches:
                return None
            whole = Wait()
            for each in self._waiting.values():
                if each.parts is not None and not each.parts.open:
                    return None
                whole = whole.and_also(each)
        return whole if whole.until_ms is not None or whole.may_end_at_any_moment else None
