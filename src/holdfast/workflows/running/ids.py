"""What may be the id of a run, the same on every database."""

from __future__ import annotations

from holdfast.core.texts import as_text, check_text, demand_text, fits
from holdfast.errors import WorkflowNotFound
from holdfast.workflows.running.run import LONGEST_ID


def check_id(workflow_id: str) -> str:
    """Return *workflow_id*, which somebody chooses for a run, as a plain text; raise unless every database keeps it."""
    return as_text(check_text("workflow_id", workflow_id, LONGEST_ID))


def sought_id(workflow_id: str) -> str:
    """Return the id of a run that somebody looks for; ``WorkflowNotFound`` if no run can have it.

    It must not reach a question that is asked for many at once: the database would refuse it to all of them.
    """
    if not fits(demand_text("workflow_id", workflow_id), LONGEST_ID):
        raise WorkflowNotFound(f"There is no run {workflow_id[:LONGEST_ID]!r}: no run can have such an id.")
    return as_text(workflow_id)


__all__ = ["check_id", "sought_id"]
