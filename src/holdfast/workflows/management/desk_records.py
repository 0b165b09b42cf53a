"""Answers of the desk in the form in which a workflow's record holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.model.workflow import Changes, WorkflowState
from holdfast.serialize import decode_error, encode_error
from holdfast.workflows.looking import Page, WorkflowCount
from holdfast.workflows.retention import Pruned, PruneReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.workflows.retention import Retention


@dataclass(frozen=True, slots=True)
class ChangesRecord:
    """``Changes`` in the form that is stored: errors as their records."""

    changed: list[str]
    refused: dict[str, str]

    @classmethod
    def of(cls, changes: Changes) -> ChangesRecord:
        """Return the stored form of *changes*."""
        return cls(list(changes.changed), {each: encode_error(error) for each, error in changes.refused.items()})

    def changes(self) -> Changes:
        """Return what was stored."""
        refused = {each: decode_error(text) for each, text in self.refused.items()}
        return Changes(
            tuple(self.changed), {each: error for each, error in refused.items() if isinstance(error, Exception)}
        )


@dataclass(frozen=True, slots=True)
class PageRecord:
    """``Page`` in the form that is stored."""

    runs: list[WorkflowState]
    cursor: str | None

    def page(self) -> Page[WorkflowState]:
        """Return what was stored."""
        return Page(self.runs, cursor=self.cursor)


@dataclass(frozen=True, slots=True)
class PruneRecord:
    """``PruneReport`` in the form that is stored: how many each policy matched, and how many were deleted."""

    counts: list[tuple[int, int]]
    dry_run: bool

    def report(self, policies: Sequence[Retention]) -> PruneReport:
        """Return what was stored, of the policies that were asked for."""
        pairs = zip(policies, self.counts, strict=True)
        return PruneReport(tuple(Pruned(policy, *counted) for policy, counted in pairs), self.dry_run)


@dataclass(frozen=True, slots=True)
class CountRecord:
    """``WorkflowCount`` in the form that is stored."""

    group: dict[str, Any]
    count: int
    oldest: int
    newest: int

    def counted(self) -> WorkflowCount:
        """Return what was stored."""
        return WorkflowCount(group=self.group, count=self.count, oldest=self.oldest, newest=self.newest)
