"""Patches: a change of a workflow that runs from before it do not go by, told by a marker in the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.texts import LONGEST_TEXT, check_text
from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from holdfast.workflows.operations.place import WorkflowPlace

_PATCH = "holdfast.patch-"


def in_workflow(place: WorkflowPlace | None, verb: str) -> WorkflowPlace:
    """Return the place of a workflow; ``MisuseError`` where there is none."""
    if place is None:
        raise MisuseError(f"{verb}() belongs in a workflow; this code is in none.")
    return place


def patched(place: WorkflowPlace, name: str) -> bool | None:
    """Decide by the record: True if the marker stands here, False if something else does, None if nothing does.

    A run that was recorded before the patch has another operation here, or branches that are opened from here on: it
    goes the old way, and the operation keeps its place. A run that has not come this far goes the new way, and the
    marker is recorded.
    """
    recorded = (place.run.history or {}).get(place.branch.peek_identity())
    if recorded is None:
        return False if place.has_been_passed() else None
    if recorded.name != marker(name):
        return False
    place.branch.next_identity()
    return True


def unpatched(place: WorkflowPlace, name: str) -> None:
    """Pass over the marker of a patch that every run goes by now, where it is still in the record."""
    recorded = (place.run.history or {}).get(place.branch.peek_identity())
    if recorded is not None and recorded.name == marker(name):
        place.branch.next_identity()


def marker(name: str) -> str:
    """Return the name of the operation that marks the new way of a patch."""
    return _PATCH + check_text("The name of a patch", name, LONGEST_TEXT - len(_PATCH))
