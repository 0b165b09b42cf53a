"""What may be the id of a run, the same on every database."""

from __future__ import annotations

from holdfast.core.texts import is_kept
from holdfast.errors import ConfigurationError, WorkflowNotFound
from holdfast.workflows.run import LONGEST_ID


def check_id(workflow_id: str) -> None:
    """Raise unless *workflow_id*, which somebody chooses for a run, fits its column on every database."""
    if not _fits(workflow_id):
        raise ConfigurationError(
            f"A workflow_id has 1 to {LONGEST_ID} Unicode characters and no NUL; this one has {len(workflow_id)}."
        )


def sought_id(workflow_id: str) -> str:
    """Return the id of a run that somebody looks for; ``WorkflowNotFound`` if no run can have it.

    It must not reach a question that is asked for many at once: the database would refuse it to all of them.
    """
    if not _fits(workflow_id):
        raise WorkflowNotFound(f"There is no run {workflow_id[:LONGEST_ID]!r}: no run can have such an id.")
    return workflow_id


def _fits(text: str) -> bool:
    return 0 < len(text) <= LONGEST_ID and is_kept(text)


__all__ = ["check_id", "sought_id"]
