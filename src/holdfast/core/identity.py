"""Which operation is this? Branch and place, never the order of arrival.

A run is a tree of branches. The workflow function itself is the root; every task or thread it opens is a branch that
gets its place in its parent's order of opening. Inside a branch operations count up from 0. So two chains that run
side by side keep their identities whatever their latencies, and a replay finds each record where it was left::

    root:            0, 1, 2 ...
    first branch:    ~0.0, ~0.1 ...
    its own second:  ~0~1.0 ...

What is recorded about an operation later has that one's identity before its own: ``0.0``, ``~0.1.0``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PLACE = re.compile(r"~?(\d+)")


class Branch:
    """One line of operations in a run."""

    __slots__ = ("_branches", "_closed", "_hearers", "_marks", "_operations", "_parent", "_taken", "path")

    def __init__(self, path: str = "", parent: Branch | None = None) -> None:
        self.path = path
        self._parent = parent
        self._operations = 0
        self._branches = 0
        self._marks = 0
        self._taken = -1
        self._closed = False
        self._hearers: list[Callable[[], object]] = []

    @property
    def is_closed(self) -> bool:
        """Whether the time of this branch, or of one above it, is over."""
        return self._closed or (self._parent is not None and self._parent.is_closed)

    @property
    def is_over(self) -> bool:
        """Whether the time of this very branch is over, and not only that of one above it."""
        return self._closed

    def close(self) -> None:
        """End this branch and all below it: what still runs there must not do anything more."""
        self._closed = True
        for tell in list(self._hearers):
            tell()

    def on_close(self, tell: Callable[[], object]) -> None:
        """Have *tell* called when this branch, or one above it, is closed, now if it is so; from any thread."""
        if self._parent is None:
            return  # nothing closes the root
        self._hearers.append(tell)
        self._parent.on_close(tell)
        if self._closed:
            tell()

    def off_close(self, tell: Callable[[], object]) -> None:
        """Do not have *tell* called any more."""
        if self._parent is not None:
            self._hearers.remove(tell)
            self._parent.off_close(tell)

    def next_identity(self) -> str:
        """Return the identity of the operation that begins now."""
        place = self._operations
        self._operations = place + 1
        return f"{self.path}.{place}" if self.path else str(place)

    def peek_identity(self) -> str:
        """Return the identity the next operation will get, without taking it."""
        return f"{self.path}.{self._operations}" if self.path else str(self._operations)

    @property
    def has_taken_last(self) -> bool:
        """Whether its last operation takes, or has taken, what nobody else can have any more."""
        return self._taken == self._operations

    def takes(self, something: bool) -> None:
        """Say whether the operation begun last takes *something*, such as a message, that nobody else can have then."""
        self._taken = self._operations if something else -1

    def next_mark(self) -> str:
        """Return a name for what begins now and is no operation itself, in the order of those: the same on replay."""
        place = self._marks
        self._marks = place + 1
        return f"{self.path}.{place}" if self.path else str(place)

    def open(self) -> Branch:
        """Open a branch below this one, in the order of opening."""
        place = self._branches
        self._branches = place + 1
        return Branch(f"{self.path}~{place}", self)

    def of_operation(self, identity: str) -> Branch:
        """Return a branch for what is recorded about an operation of this one, under that operation's identity."""
        return Branch(identity, self)

    def is_ahead(self, identity: str) -> bool:
        """Whether an operation has yet to begin in this branch, or is of a branch that is yet to be opened below it."""
        if not identity.startswith(self.path):
            return False
        rest = identity[len(self.path) :]
        if self.path and not rest.startswith("~"):
            if not rest.startswith("."):
                return False  # of a branch whose place only begins with the same digits
            rest = rest[1:]
        found = _PLACE.match(rest)
        place = int(found[1]) if found is not None else -1
        return place >= (self._branches if rest.startswith("~") else self._operations)


def following(identity: str) -> str:
    """Return the identity of the operation that comes after this one in its branch."""
    path, dot, place = identity.rpartition(".")
    return f"{path}{dot}{int(place) + 1}"
