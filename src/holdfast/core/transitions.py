"""What may become of a run: every transition that is allowed, and by that every one that is refused.

The statements that write a transition carry the same condition, so that two who race cannot both succeed. This table
is what they are held to, and what the error says when one of them touches no row.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.model.workflow import WorkflowStatus as Status


class Event(StrEnum):
    """What happens to a run that is there."""

    BECOME_DUE = "become due"
    SET_DELAY = "set delay"
    CLAIM = "claim"
    CLAIM_UNREADABLE = "claim with an unreadable payload"
    CLAIM_OVER_CAP = "claim over the cap"
    FINISH = "finish"
    FAIL = "fail"
    RETRY = "retry"
    RELEASE = "release"
    HAND_OVER = "hand over"
    PUT_AWAY = "put away"
    CANCEL = "cancel"
    RESUME = "resume"
    REWIND = "rewind"
    FORK = "fork"
    DELETE = "delete"


_ENDED = [status for status in Status if status.has_ended]

# The event, the statuses it may find, and the status it leaves. Forking leaves the run as it is; deleting leaves none.
_TABLE: dict[Event, tuple[list[Status], Status | None]] = {
    Event.BECOME_DUE: ([Status.DELAYED], Status.ENQUEUED),
    Event.SET_DELAY: ([Status.DELAYED], Status.DELAYED),
    Event.CLAIM: ([Status.ENQUEUED], Status.PENDING),
    Event.CLAIM_UNREADABLE: ([Status.ENQUEUED], Status.ERROR),
    Event.CLAIM_OVER_CAP: ([Status.ENQUEUED], Status.MAX_RECOVERY_ATTEMPTS_EXCEEDED),
    Event.FINISH: ([Status.PENDING], Status.SUCCESS),
    Event.FAIL: ([Status.PENDING], Status.ERROR),
    Event.RETRY: ([Status.PENDING], Status.DELAYED),
    Event.RELEASE: ([Status.PENDING], Status.ENQUEUED),
    Event.HAND_OVER: ([Status.PENDING], Status.ENQUEUED),
    Event.PUT_AWAY: ([Status.PENDING], Status.DELAYED),
    Event.CANCEL: ([Status.PENDING, Status.ENQUEUED, Status.DELAYED], Status.CANCELLED),
    Event.RESUME: ([Status.CANCELLED, Status.MAX_RECOVERY_ATTEMPTS_EXCEEDED], Status.ENQUEUED),
    Event.REWIND: (_ENDED, Status.ENQUEUED),
    Event.DELETE: (_ENDED, None),
}


def allowed(status: Status, event: Event) -> bool:
    """Whether *event* may happen to a run in *status*."""
    return event is Event.FORK or status in _TABLE[event][0]


def after(status: Status, event: Event) -> Status | None:
    """Return the status that *event*, which must be allowed, leaves; None if the run is gone."""
    if not allowed(status, event):
        raise ValueError(f"A run that is {status} cannot {event}.")
    return status if event is Event.FORK else _TABLE[event][1]


def why_refused(status: Status, event: Event) -> str:
    """Say, for people, what *event* needs; for a status that refuses it."""
    wanted = " or ".join(each.value for each in Status if each in _TABLE[event][0])
    return f"it is {status}, and to {event} it must be {wanted}"
