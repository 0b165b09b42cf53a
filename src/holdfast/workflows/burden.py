"""What the claimed runs of one process hold, in bytes: their arguments and what they have recorded (I11).

Claims stop when it is as much as the process may hold. A run that does not fit beside the others goes back to its
queue, and so does what was claimed after it, so that it cannot be passed for ever; one that is alone is carried out,
however large it is.
"""

from __future__ import annotations

import threading


class Burden:
    """Counts for one process that may hold *most* bytes; from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._refused = False
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits, or something did not fit since a run ended here: then claims would be in vain."""
        return self._refused or self._held >= self._most

    def take(self, size: int) -> bool:
        """Count a run of so many bytes, if it fits or nothing else is held; return whether it does."""
        with self._lock:
            if self._held and (self._refused or self._held + size > self._most):
                self._refused = True
                return False
            self._held += max(1, size)
        return True

    def give_back(self, size: int) -> None:
        """Count a run less, which was taken with *size*."""
        with self._lock:
            self._held -= max(1, size)
            self._refused = False


__all__ = ["Burden"]
