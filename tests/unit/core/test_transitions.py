"""The table of what may become of a run: whole, consistent, and able to say why it refuses."""

from __future__ import annotations

import pytest

from holdfast.core.transitions import Event, after, allowed, why_refused
from holdfast.model.workflow import WorkflowStatus

EACH = [(status, event) for event in Event for status in WorkflowStatus]
NAMES = [f"{event}-{status}".replace(" ", "_") for status, event in EACH]
REFUSED = [(status, event) for status, event in EACH if not allowed(status, event)]


def test_events_find_the_statuses_of_the_protocol() -> None:
    found = {event.value: {status.value for status in WorkflowStatus if allowed(status, event)} for event in Event}
    ended = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}
    assert found == {
        "become due": {"DELAYED"},
        "set delay": {"DELAYED"},
        "claim": {"ENQUEUED"},
        "claim with an unreadable payload": {"ENQUEUED"},
        "claim over the cap": {"ENQUEUED"},
        "finish": {"PENDING"},
        "fail": {"PENDING"},
        "retry": {"PENDING"},
        "release": {"PENDING"},
        "hand over": {"PENDING"},
        "put away": {"PENDING"},
        "cancel": {"PENDING", "ENQUEUED", "DELAYED"},
        "resume": {"CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"},
        "rewind": ended,
        "fork": {status.value for status in WorkflowStatus},
        "delete": ended,
    }


def test_every_status_that_has_not_ended_can_be_cancelled_and_every_other_deleted() -> None:
    for status in WorkflowStatus:
        assert allowed(status, Event.CANCEL) is not status.has_ended
        assert allowed(status, Event.DELETE) is status.has_ended


@pytest.mark.parametrize(("status", "event"), EACH, ids=NAMES)
def test_event_leaves_a_status_if_and_only_if_it_is_allowed(status: WorkflowStatus, event: Event) -> None:
    if not allowed(status, event):
        with pytest.raises(ValueError, match=f"{status} cannot {event}"):
            after(status, event)
    elif event is Event.FORK:
        assert after(status, event) is status
    elif event is Event.DELETE:
        assert after(status, event) is None
    else:
        assert isinstance(after(status, event), WorkflowStatus)


@pytest.mark.parametrize(("status", "event"), REFUSED, ids=[f"{e}-{s}".replace(" ", "_") for s, e in REFUSED])
def test_refusal_names_the_status_the_event_and_what_it_needs(status: WorkflowStatus, event: Event) -> None:
    said = why_refused(status, event)
    assert said.startswith(f"it is {status}, and to {event} it must be ")
    wanted = said.rpartition("must be ")[2].split(" or ")
    assert set(wanted) == {each.value for each in WorkflowStatus if allowed(each, event)}
