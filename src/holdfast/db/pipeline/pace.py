"""How many operations the next batch takes: all there are, or half of a crowd.

Callers who are told together come back together, and then database and program wait for each other in turn. Half of a
crowd that comes while nothing is being written breaks the step: from then on one half is written while the other goes
on to its next operation. There are two commits for one then, so it pays only where a commit, of whatever size, is no
longer a wait than the crowd's coming back; and where batches are one statement each, since between two of them a thread
that writes has to wait for the interpreter's lock until the crowd is back.
"""

from __future__ import annotations

from holdfast.db.queries.text import MOST_ROWS

_CROWD = 64
_COMES_BACK = 15e-6  # in about so many seconds, times their number, operations that were told together are back
_WRITTEN = 5e-6  # the least that each adds to the time of a commit
_FORGETS = 1.01  # so that a short commit counts for as long as about a hundred later ones
_NOT_KNOWN = 60.0
_IN_A_ROW = 8  # batches of one statement, from which on it is believed of the next


class Pace:
    """Learns how long a commit takes; *overlaps* says whether the program can go on during one."""

    def __init__(self, *, overlaps: bool) -> None:
        self._overlaps = overlaps
        self._commit = _NOT_KNOWN
        self._in_a_row = 0

    def note(self, operations: int, seconds: float, *, one_statement: bool) -> None:
        """Take note of a batch that has been written in so many seconds, and whether with one statement."""
        self._commit = min(_FORGETS * self._commit, max(0.0, seconds - _WRITTEN * operations))
        self._in_a_row = self._in_a_row + 1 if one_statement else 0

    def most(self, waiting: int, *, rested: bool) -> int:
        """Return how many of those *waiting* are to be written next; *rested* if none has been while they came."""
        pays = self._in_a_row >= _IN_A_ROW and self._commit <= _COMES_BACK * waiting
        if self._overlaps and rested and waiting >= _CROWD and pays:
            return min(MOST_ROWS, waiting // 2)
        return MOST_ROWS
