"""Looking at messages and events from outside: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.workflows.management.asking import Asking, AsyncAsking
from holdfast.workflows.messaging import requests

if TYPE_CHECKING:
    from holdfast.workflows.messaging import NotificationInfo


class AsyncMessageManagement(AsyncAsking):
    """What can be asked about messages and events; awaited."""

    async def get_all_events(self, workflow_id: str) -> dict[str, Any]:
        """Return the events a run has set, by their keys, as plain JSON. Raises ``WorkflowNotFound``."""
        return await self._manage(requests.all_events(workflow_id))

    async def get_all_notifications(self, workflow_id: str) -> list[NotificationInfo]:
        """Return the messages to a run in the order in which they were sent, received or not.

        ``WorkflowNotFound`` if there is no such run.
        """
        return await self._manage(requests.all_notifications(workflow_id))


class MessageManagement(Asking):
    """What can be asked about messages and events; blocking."""

    def get_all_events(self, workflow_id: str) -> dict[str, Any]:
        """Return the events a run has set, by their keys, as plain JSON. Raises ``WorkflowNotFound``."""
        return self._manage(requests.all_events(workflow_id))

    def get_all_notifications(self, workflow_id: str) -> list[NotificationInfo]:
        """Return the messages to a run in the order in which they were sent, received or not.

        ``WorkflowNotFound`` if there is no such run.
        """
        return self._manage(requests.all_notifications(workflow_id))
