"""A policy with its numbers: what it means at the moment at which a prune begins. Decisions only, no database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.model.workflow import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.workflows.retention.policy import Retention

# How long a run is kept of which only the number is said: longer than anybody who waits for it takes to look.
_GRACE_MS = 60_000

# Where a run stands among all: when it was created, and its id.
Place = tuple[int, str]
BEFORE_ALL: Place = (-1, "")


def cutoff_ms(policy: Retention, now_ms: int) -> int:
    """Return the moment at which a run must have ended to be old enough."""
    age_ms = _GRACE_MS if policy.older_than is None else round(seconds(policy.older_than) * 1000)
    return now_ms - age_ms


@dataclass(frozen=True, slots=True)
class Plan:
    """What *policy* takes: runs that ended by *cutoff_ms*, and were created before *boundary* if there is one."""

    policy: Retention
    cutoff_ms: int
    boundary: Place | None = None

    @property
    def until_ms(self) -> int:
        """The creation time after which nothing fits: a run does not end before it is created."""
        return self.cutoff_ms if self.boundary is None else min(self.cutoff_ms, self.boundary[0])

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether the run of *row*, as the walk returns it, may be deleted by this policy."""
        names = self.policy.names
        return (
            not row["needed"]
            and row["ended_at"] <= self.cutoff_ms
            and row["status"] in self.policy.statuses
            and (names is None or row["name"] in names)
            and (self.boundary is None or (row["created_at"], row["workflow_uuid"]) < self.boundary)
        )
