"""What the doctor finds: one line a check, with what to do where something could be better."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters: not at all, to whoever has the time, or now."""

    OK = "ok"
    ADVICE = "advice"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What *check* has *found*, and the *remedy* if there is something to do."""

    check: str
    found: str
    remedy: str | None = None
    level: Level = Level.OK


def judged(check: str, found: str, *, ok: bool, remedy: str, level: Level = Level.PROBLEM) -> Finding:
    """Return the finding of a check that has a remedy, and a *level*, for when it fails."""
    return Finding(check, found) if ok else Finding(check, found, remedy, level)


def problem(check: str, found: str, remedy: str) -> Finding:
    """Return the finding of a check that has failed."""
    return Finding(check, found, remedy, Level.PROBLEM)


__all__ = ["Finding", "Level", "judged", "problem"]
