"""What came of a prune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.workflows.retention.policy import Retention


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one policy did: how many runs it *matched*, and how many of them were *deleted*.

    A run that fits several policies is counted by the first. In a dry run nothing is deleted. Else what was matched
    and not deleted was changed or locked by somebody at that moment; the next prune sees it again.
    """

    policy: Retention
    matched: int
    deleted: int


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune did, policy by policy in the order given."""

    policies: tuple[Pruned, ...]
    dry_run: bool

    @property
    def matched(self) -> int:
        """How many runs fit a policy."""
        return sum(each.matched for each in self.policies)

    @property
    def deleted(self) -> int:
        """How many runs were deleted."""
        return sum(each.deleted for each in self.policies)
