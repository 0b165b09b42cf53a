"""What the claimed runs of one process hold, in bytes: their arguments and what they have recorded (I11).

Claims stop when it is as much as the process may hold. A run that does not fit beside the others goes back to its
queue, and so does what was claimed after it, so that it cannot be passed for ever. It is carried out, however large it
is, once it is alone; or when it has waited for a while, since those that are here may never end.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Burden:
    """Counts for one process that may hold *most* bytes; from any thread. *patience* is in seconds of the clock *now*.

    More than *most* is held by one run at a time.
    """

    def __init__(self, most: int, now: Callable[[], float], *, patience: float) -> None:
        self._most = most
        self._now = now
        self._patience = patience
        self._held = 0
        self._is_closed = False  # something did not fit, and since then no run has ended here
        self._waiting_since: float | None = None
        self._waiting_size = 0
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits, or claims would be in vain since what waits for room would not fit."""
        return self._held >= self._most or (self._is_closed and not self._is_overdue())

    def take(self, size: int) -> bool:
        """Count a run of so many bytes, if it fits, or nothing else is held, or what did not fit has waited enough."""
        with self._lock:
            if self._held and not self._has_room(size):
                self._is_closed = True
                self._waiting_size = max(self._waiting_size, size)
                if self._waiting_since is None:
                    self._waiting_since = self._now()
                return False
            self._held += max(1, size)
            if self._held > self._most or size >= self._waiting_size:
                self._is_closed, self._waiting_since, self._waiting_size = False, None, 0
        return True

    def give_back(self, size: int) -> None:
        """Count a run less, which was taken with *size*."""
        with self._lock:
            self._held -= max(1, size)
            self._is_closed = False

    def _has_room(self, size: int) -> bool:
        if self._is_overdue():
            return self._held < self._most
        return not self._is_closed and self._held + size <= self._most

    def _is_overdue(self) -> bool:
        since = self._waiting_since
        return since is not None and self._now() - since >= self._patience


__all__ = ["Burden"]
