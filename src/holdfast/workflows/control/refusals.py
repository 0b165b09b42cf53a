"""Why a run was not changed: for each event and status an error that says what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.transitions import Event, why_refused
from holdfast.errors import TransitionRefused, WorkflowNotFound

if TYPE_CHECKING:
    from holdfast.model.workflow import WorkflowStatus

Refusals = dict[str, Exception]

_AGAIN = "Rewind it to run it again, or fork it."
_ADVICE = {
    Event.RESUME: "It goes on by itself.",
    Event.REWIND: "Wait for its end, cancel it first, or fork it.",
    Event.DELETE: "Wait for its end, or cancel it first.",
    Event.SET_DELAY: "A delay can be set only before it is over.",
}


def not_found(workflow_id: str) -> WorkflowNotFound:
    """Return the error for a run that is not there."""
    return WorkflowNotFound(f"There is no run {workflow_id!r}; it was never started, or was deleted.")


def refused(workflow_id: str, status: WorkflowStatus, event: Event) -> TransitionRefused:
    """Return the error for a run whose status does not allow *event*."""
    again = status.has_ended and event in {Event.CANCEL, Event.RESUME}
    return refused_because(
        workflow_id, status, event, why_refused(status, event), _AGAIN if again else _ADVICE.get(event, _AGAIN)
    )


def refused_because(workflow_id: str, status: WorkflowStatus, event: Event, why: str, advice: str) -> TransitionRefused:
    """Return the error for a run whose status would allow *event*, and something else does not."""
    return TransitionRefused(
        f"{event.capitalize()} is refused for run {workflow_id}: {why}. {advice}",
        workflow_id=workflow_id,
        status=status.value,
        event=event.value,
    )
