"""Transactions in other databases that nothing can hold back any more: the end of their execution waits for them.

Such a transaction commits there first and is recorded here afterwards. Were the end written in between, the record
would be refused, and a later try, which has another generation, would not know of the commit.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from holdfast.errors import Superseded

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace


class TooLate(Superseded):
    """The end of this execution is being written: what is not committed yet must not be."""


def begin_commit(operation: Operation) -> None:
    """Check *operation* for the last time before a commit elsewhere, for which the end of its execution then waits."""
    operation.check()
    operation.run.commits().begin(operation.place)


class Commits:
    """The places of one execution that have such a transaction, from its last check to its record; for all threads."""

    def __init__(self, *, closed: bool) -> None:
        self._lock = threading.Lock()
        self._places: set[WorkflowPlace] = set()
        self._closed = closed
        self._tell: Callable[[], object] = bool

    def begin(self, place: WorkflowPlace) -> None:
        """Note that the transaction of *place* commits now; ``TooLate`` if the end is being written and it is new."""
        with self._lock:
            if self._closed and place not in self._places:
                raise TooLate("the execution has ended")
            self._places.add(place)

    def end(self, place: WorkflowPlace) -> None:
        """Note that the operation of *place* is over, recorded or not."""
        with self._lock:
            self._places.discard(place)
            tell = self._tell if not self._places else bool
        tell()

    async def ended(self) -> None:
        """Let none begin any more, and wait for those that have."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell() -> None:
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))

        if self._close(tell):
            await done

    def ended_blocking(self, halted: threading.Event) -> None:
        """Do as ``ended`` on a thread, or until *halted*, which is set here, too."""
        if self._close(halted.set):
            halted.wait()

    def _close(self, tell: Callable[[], object]) -> bool:
        with self._lock:
            self._closed = True
            self._tell = tell
            return bool(self._places)


__all__ = ["Commits", "TooLate", "begin_commit"]
