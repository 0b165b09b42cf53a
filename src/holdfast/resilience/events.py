"""What a breaker tells its listeners, and what it shows to whoever asks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.breaker_rules import Tally

logger = logging.getLogger("holdfast.breakers")

EventKind: TypeAlias = Literal["opened", "half_opened", "closed", "rejected", "failed", "storage_away", "storage_back"]


@dataclass(frozen=True, slots=True)
class BreakerEvent:
    """Something that happened to a breaker, as this process sees it; *reason* says why, for people."""

    service_name: str
    kind: EventKind
    from_state: str
    to_state: str
    reason: str = ""
    error: BaseException | None = None


Listener: TypeAlias = Callable[[BreakerEvent], None]


@dataclass(frozen=True, slots=True)
class BreakerMetrics:
    """How a breaker stands in this process: the calls in its window, and what it has done since it was made."""

    state: str
    window: Tally
    failures_in_a_row: int
    rejected: int
    opened: int
    storage_away: bool


class Listeners:
    """Those who are told; one that raises is logged, and does no harm to the call or to the others."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._all = list(listeners)

    def add(self, listener: Listener) -> None:
        """Tell one more from now on."""
        self._all = [*self._all, listener]

    def tell(self, event: BreakerEvent) -> None:
        """Tell all of them."""
        for listener in self._all:
            try:
                listener(event)
            except Exception:
                logger.exception("A listener of the breaker %r failed.", event.service_name)


__all__ = ["BreakerEvent", "BreakerMetrics", "EventKind", "Listener", "Listeners"]
