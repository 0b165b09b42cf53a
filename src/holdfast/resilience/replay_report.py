"""What became of a replay: of each letter, and of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MOST_OUTCOMES = 1000
"""How many letters of each result a report names; all of them are counted."""


class ReplayResult(StrEnum):
    """What became of one letter."""

    REPLAYED = "replayed"
    FAILED = "failed"
    SKIPPED = "skipped"
    LOST = "lost"
    WOULD_REPLAY = "would_replay"


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one letter, and why, if it was not replayed.

    *skipped* had no handler, or was not to be had: somebody else replays it, or it has been tried as often as it may
    be. *lost* was taken from this replay while it ran, so that its end changed nothing. *would_replay* is of a dry run.
    """

    id: str
    domain: str
    result: ReplayResult
    why: str = ""


@dataclass(slots=True)
class ReplayReport:
    """How many letters matched, and what became of them. *outcomes* names at most a thousand of each result."""

    dry_run: bool = False
    matched: int = 0
    counts: dict[ReplayResult, int] = field(default_factory=lambda: dict.fromkeys(ReplayResult, 0))
    outcomes: list[ReplayOutcome] = field(default_factory=list)

    @property
    def replayed(self) -> int:
        """How many were resolved."""
        return self.counts[ReplayResult.REPLAYED]

    @property
    def failed(self) -> int:
        """How many failed again; they are pending, or require review."""
        return self.counts[ReplayResult.FAILED]

    @property
    def skipped(self) -> int:
        """How many were not tried."""
        return self.counts[ReplayResult.SKIPPED]

    @property
    def lost(self) -> int:
        """How many were taken away while they were tried."""
        return self.counts[ReplayResult.LOST]

    @property
    def errors(self) -> dict[str, str]:
        """What those that failed raised, by id; of at most a thousand."""
        return {each.id: each.why for each in self.outcomes if each.result is ReplayResult.FAILED}

    def add(self, outcome: ReplayOutcome) -> None:
        """Count an outcome."""
        self.matched += 1
        self.counts[outcome.result] += 1
        if self.counts[outcome.result] <= MOST_OUTCOMES:
            self.outcomes.append(outcome)


__all__ = ["MOST_OUTCOMES", "ReplayOutcome", "ReplayReport", "ReplayResult"]
