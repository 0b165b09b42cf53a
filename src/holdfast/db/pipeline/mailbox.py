"""Where operations gather while a commit is in flight: put in from any thread, taken out in batches, bounded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from holdfast.errors import PipelineClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.pipeline.operation import Operation


class Mailbox:
    """Operations that were handed over and are not settled: at most *most_operations* and *most_bytes* of them.

    What is taken out counts until it is ``settled``. One operation is always let in, however large.
    """

    def __init__(self, *, most_operations: int, most_bytes: int) -> None:
        self._most_operations = most_operations
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._waiting: list[Operation] = []
        self._operations = 0
        self._bytes = 0
        self._watchers: list[Callable[[], None]] = []
        self._closed = False

    def put(self, operation: Operation) -> bool | None:
        """Hand over; None when there is no room, else whether the box was empty, so that the taker must be woken."""
        with self._lock:
            if self._closed:
                raise PipelineClosed("The pipeline is closed; this operation was not written.")
            held, size = self._operations, self._bytes + operation.size
            if held and (held >= self._most_operations or size > self._most_bytes):
                return None
            self._operations, self._bytes = held + 1, size
            waiting = self._waiting
            waiting.append(operation)
            return len(waiting) == 1

    def enter_alone(self, operation: Operation) -> bool:
        """Count *operation*, whose caller writes it itself, if nothing else is under way; False if something is."""
        with self._lock:
            if self._operations or self._closed:
                return False
            self._operations, self._bytes = 1, operation.size
            return True

    def take(self, most: int, most_bytes: int) -> list[Operation]:
        """Take the oldest operations, up to both limits but at least one."""
        with self._lock:
            waiting = self._waiting
            if len(waiting) <= most and self._bytes <= most_bytes:
                self._waiting = []
                return waiting
            end, size = 0, 0
            while end < min(most, len(waiting)) and (end == 0 or size + waiting[end].size <= most_bytes):
                size += waiting[end].size
                end += 1
            self._waiting = waiting[end:]
            return waiting[:end]

    def settled(self, operations: Sequence[Operation]) -> None:
        """Count *operations* no more, and tell those who wait for room."""
        with self._lock:
            self._operations -= len(operations)
            self._bytes -= sum([operation.size for operation in operations])
            watchers, self._watchers = self._watchers, []
        for tell in watchers:
            tell()

    def watch(self, tell: Callable[[], None]) -> bool:
        """Have *tell* called at the next change; False if nothing is under way, so that none will come."""
        with self._lock:
            if not self._operations:
                return False
            self._watchers.append(tell)
            return True

    def unwatch(self, tell: Callable[[], None]) -> None:
        """Take back a ``watch``, so that callers who come and go while nothing moves leave nothing behind."""
        with self._lock:
            if tell in self._watchers:
                self._watchers.remove(tell)

    def close(self) -> None:
        """Refuse what comes from now on."""
        with self._lock:
            self._closed = True

    @property
    def waiting(self) -> int:
        """How many operations are in the box and not taken."""
        return len(self._waiting)

    @property
    def unsettled(self) -> int:
        """How many operations are in the box or being written."""
        return self._operations
