"""Who is gone: decided by watching beats, never by comparing clocks.

An executor is gone when another has itself seen its beat unchanged for a whole lease on its own monotonic clock,
while its own beats were acknowledged without a gap. So neither a database that was away for longer than a lease, nor a
failover to a clock that is behind, nor a wrong local clock makes the living look dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Beat:
    """The last beat of an executor as read from its row."""

    incarnation: str
    sequence: int
    lease: float


class Watch:
    """What one executor has seen of the others."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}
        self._last_look: float | None = None

    def look(
        self, beats: Iterable[Beat], now: float, *, longest_gap: float, answered: float | None = None
    ) -> list[Beat]:
        """Take in what the table shows at *now* (monotonic seconds); return the beats that have not moved for a lease.

        *now* is when the table was asked, *answered* when the answer came: what is new was seen no earlier than the
        answer, what is old no later than the question, so a slow answer shortens nobody's lease.

        If more than *longest_gap* has passed since the last look, this executor itself may have been paused or cut
        off: everything seen before is forgotten, and every lease is watched anew.
        """
        if self._last_look is not None and now - self._last_look > longest_gap:
            self.forget()
        self._last_look = now
        first = now if answered is None else answered
        seen: dict[str, tuple[int, float]] = {}
        gone = []
        for beat in beats:
            sequence, since = self._seen.get(beat.incarnation, (beat.sequence, first))
            if sequence != beat.sequence:
                since = first
            seen[beat.incarnation] = (beat.sequence, since)
            if now - since >= beat.lease:
                gone.append(beat)
        self._seen = seen
        return gone

    def forget(self) -> None:
        """Begin anew: a beat of one's own was not acknowledged in time."""
        self._seen = {}
        self._last_look = None
