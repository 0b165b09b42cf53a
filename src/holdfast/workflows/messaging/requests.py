"""What is asked about messages and events, as requests to the desk; see ``desk.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.workflows.management.desk import Request
from holdfast.workflows.messaging.message import NotificationInfo
from holdfast.workflows.running.ids import sought_id

if TYPE_CHECKING:
    from holdfast.workflows.management.desk import Desk


def all_events(workflow_id: str) -> Request[dict[str, Any]]:
    """Ask for the events of a run."""

    async def call(desk: Desk) -> dict[str, Any]:
        found = await desk.messages.events(sought_id(workflow_id))
        if not found:
            await desk.looking.get(workflow_id, load_input=False, load_output=False)  # raises if there is no such run
        return found

    return Request("get_all_events", call, {"workflow_id": workflow_id}, dict[str, Any])


def all_notifications(workflow_id: str) -> Request[list[NotificationInfo]]:
    """Ask for the messages to a run."""

    async def call(desk: Desk) -> list[NotificationInfo]:
        found = await desk.messages.messages(sought_id(workflow_id))
        if not found:
            await desk.looking.get(workflow_id, load_input=False, load_output=False)  # raises if there is no such run
        return found

    return Request("get_all_notifications", call, {"workflow_id": workflow_id}, list[NotificationInfo])
