"""SQLite across a fork.

Which locks a process has on a file SQLite knows from the process's own memory. A forked child inherits that memory and
not the locks: a connection that it opened would take the parent's for its own, wait for ever for one that was held
during the fork, and lose its log to the parent, which sees no lock of the child's and deletes it. So no connection is
in use at the moment of a fork, and the child closes what it inherits before it opens anything.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from holdfast.db.process import this_process
from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from holdfast.db.sqlite.file import OpenFile

_PATIENCE = 2.0  # seconds for a transaction that is open at the fork; its own thread may be the one that forks
_LOOK_AGAIN = 0.001


class Turn(Protocol):
    """A lock of either kind."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it."""

    def release(self) -> None:
        """Give it back."""


class Inherited(Protocol):
    """A connection to a file. A statement holds *in_use* until its last row was read."""

    @property
    def file(self) -> OpenFile | None:
        """What it is connected to."""

    @property
    def in_use(self) -> Turn:
        """Held for as long as a statement is under way."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def close_inherited(self) -> None:
        """End it in a forked child, where no statement of it is under way."""


class _Forks:
    """All connections of this process, seen through every fork."""

    def __init__(self) -> None:
        self._forget()
        self._left_open: list[OpenFile] = []
        os.register_at_fork(before=self._hold, after_in_parent=self._go_on, after_in_child=self._close)

    def tell(self, connection: Inherited) -> None:
        """Have *connection* closed in a forked child."""
        with self._opening:
            self._connections.add(connection)

    def refuse_left_open(self, file: OpenFile) -> None:
        """Raise if the fork that made this process could not wait for a transaction on *file*."""
        if any(each.is_same(file) for each in self._left_open):
            raise MisuseError(
                f"This process was forked while a transaction was open on the SQLite file {file.path}, which therefore "
                "cannot be opened here: fork outside of transactions, or start processes with spawn."
            )

    def _forget(self) -> None:
        self._opening = threading.Lock()
        self._connections: WeakSet[Inherited] = WeakSet()
        self._held: list[Inherited] = []
        self._busy: list[Inherited] = []

    def _hold(self) -> None:
        self._opening.acquire()
        deadline = time.monotonic() + _PATIENCE
        for each in list(self._connections):
            (self._held if _is_at_rest(each, deadline) else self._busy).append(each)

    def _go_on(self) -> None:
        for each in self._held:
            each.in_use.release()
        self._held, self._busy = [], []
        self._opening.release()

    def _close(self) -> None:
        left = self._busy
        for each in self._held:
            each.in_use.release()
            try:
                each.close_inherited()
            except sqlite3.Error:
                left.append(each)
        self._left_open += [each.file for each in left if each.file is not None]
        this_process.inherited.append(left)  # so that nothing closes them
        self._forget()


def _is_at_rest(connection: Inherited, deadline: float) -> bool:
    """Wait until *connection* is in nobody's use; it is held then."""
    while connection.in_use.acquire(timeout=max(0.0, deadline - time.monotonic())):
        if not _has_begun(connection):
            return True
        connection.in_use.release()
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_AGAIN)
    return False


def _has_begun(connection: Inherited) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:  # it was closed, and nobody has let go of it yet
        return False


forks = _Forks()

__all__ = ["forks"]
