"""Which branches of a run wait durably, and for what; counted, so that it is known when all of them do."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.core.identity import Branch


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
        """Return the wait that ends as soon as one of the two does."""
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

    A branch that is closed does not count: what still runs there is left behind, and nobody waits for it. ``changes``
    counts whatever happens, so that somebody who looks twice knows whether nothing did.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Branch] = set()  # but for the root, which is always open
        self._threads: dict[Branch, threading.Thread] = {}
        self._waiting: dict[int, tuple[Branch, Wait]] = {}
        self._next = 0
        self.changes = 0

    def opened(self, branch: Branch, parts: Parts | None = None, thread: threading.Thread | None = None) -> None:
        """Count a branch more, one of *parts* if somebody waits for them.

        If it belongs to a *thread* of which nobody says when it ends, it counts for as long as that is alive.
        """
        with self._lock:
            self.changes += 1
            if not branch.is_closed:
                self._open.add(branch)
            if thread is not None:
                self._threads[branch] = thread
            if parts is not None:
                parts.open += 1

    def ended(self, branch: Branch, parts: Parts | None = None) -> None:
        """Count a branch less."""
        with self._lock:
            self.changes += 1
            self._open.discard(branch)
            if parts is not None:
                parts.open -= 1

    def closed(self) -> None:
        """Take notice that branches were closed: what is open or waits there does not count any more."""
        with self._lock:
            self.changes += 1
            self._open = {branch for branch in self._open if not branch.is_closed}
            self._waiting = {mark: each for mark, each in self._waiting.items() if not each[0].is_closed}

    def begin(self, branch: Branch, wait: Wait) -> int:
        """Note that a branch waits; return what ends that."""
        with self._lock:
            self.changes += 1
            self._next += 1
            if not branch.is_closed:
                self._waiting[self._next] = branch, wait
            return self._next

    def end(self, mark: int) -> None:
        """Note that the branch goes on."""
        with self._lock:
            self.changes += 1
            self._waiting.pop(mark, None)

    def together(self) -> Wait | None:
        """Return what all branches wait for, taken together; None if one of them does not wait."""
        with self._lock:
            self._forget_threads()
            if len(self._waiting) <= len(self._open):
                return None
            whole = Wait()
            for _, each in self._waiting.values():
                if each.parts is not None and not each.parts.open:
                    return None
                whole = whole.and_also(each)
        return whole if whole.until_ms is not None or whole.may_end_at_any_moment else None

    def _forget_threads(self) -> None:
        for branch in [each for each, thread in self._threads.items() if not thread.is_alive()]:
            del self._threads[branch]
            self._open.discard(branch)
