"""What the doctor finds: one line a check, with what to do where something is wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What *check* has *found*. With a *remedy* something is wrong, and that is what to do."""

    check: str
    found: str
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do."""
        return self.remedy is None


def judged(check: str, found: str, *, ok: bool, remedy: str) -> Finding:
    """Return the finding of a check that has a remedy for when it fails."""
    return Finding(check, found, None if ok else remedy)


__all__ = ["Finding", "judged"]
