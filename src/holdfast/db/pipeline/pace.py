"""How many operations the next batch takes: all there are, or half of a crowd.

Callers who are told together come back together, and then database and program wait for each other in turn. Half of a
crowd that comes while nothing is being written breaks the step: from then on one half is written while the other goes
on to its next operation. There are two commits for one then, so it pays only where a commit, of whatever size, is no
longer a wait than the crowd's coming back.
"""

from __future__ import annotations

from holdfast.db.queries.text import MOST_ROWS

_CROWD = 64
_COMES_BACK = 15e-6  # in about so many seconds, times their number, operations that were told together are back
_WRITTEN = 5e-6  # the least that each adds to the time of a commit
_FORGETS = 1.01  # so that a short commit counts for as long as about a hundred later ones
_NOT_KNOWN = 60.0


class Pace:
    """Learns how long a commit takes; *overlaps* says whether the program can go on during one."""

    def __init__(self, *, overlaps: bool) -> None:
        self._overlaps = overlaps
        self._commit = _NOT_KNOWN

    def note(self, operations: int, seconds: float) -> None:
        """Take note of a batch that has been written in so many seconds."""
        self._commit = min(_FORGETS * self._commit, max(0.0, seconds - _WRITTEN * operations))

    def most(self, waiting: int, *, rested: bool) -> int:
        """Return how many of those *waiting* are to be written next; *rested* if none has been while they came."""
        if self._overlaps and rested and waiting >= _CROWD and self._commit <= _COMES_BACK * waiting:
            return min(MOST_ROWS, waiting // 2)
        return MOST_ROWS
