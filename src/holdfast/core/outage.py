"""How often to say that something fails which is tried again and again: at once, and then ever more rarely."""

from __future__ import annotations

_FIRST = 1.0  # seconds
_LONGEST = 600.0


class Outage:
    """One thing that may fail for a while. Times are seconds of a monotonic clock."""

    __slots__ = ("_again", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._again = 0.0

    def is_told(self, now: float) -> bool:
        """Take notice that it has failed; return whether that is worth a word."""
        if self._since is None:
            self._since, self._again = now, now + _FIRST
            return True
        if now < self._again:
            return False
        self._again = now + min(now - self._since, _LONGEST)
        return True

    def is_over(self) -> None:
        """Take notice that it works: the next failure is a new one."""
        self._since = None


__all__ = ["Outage"]
