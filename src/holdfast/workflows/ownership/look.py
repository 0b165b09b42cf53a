"""One look for work: what it came to, and of which queues more was wanted than there was room for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core.limits import soonest

if TYPE_CHECKING:
    from holdfast.workflows.queues import Claimed


@dataclass(slots=True)
class Look:
    """What one look came to: how many runs were begun, whether to look again at once, or in so many seconds.

    With *ask*, this look went only where it was woken for, and all queues are still to be asked about, at once.
    """

    begun: int = 0
    more: bool = False
    ask: bool = False
    again: float | None = None

    def add(self, claimed: Claimed, begun: int) -> None:
        """Take in what was claimed from one queue, and how many runs of it were begun."""
        self.begun += begun
        self.more = self.more or claimed.more
        self.again = soonest(self.again, claimed.again)


@dataclass(slots=True)
class Hunger:
    """The queues of which more could be claimed when one of their runs ends here; None for every queue."""

    names: set[str | None] = field(default_factory=set)

    def is_fed_by(self, name: str | None) -> bool:
        """Whether a run of this queue that has ended made room for what waits; True once, since a look follows."""
        if not self.names or not self.names & {name, None}:
            return False
        self.names -= {name, None}
        return True


__all__ = ["Hunger", "Look"]
