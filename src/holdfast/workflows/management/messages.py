"""Looking at messages and events from outside: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.workflows.messaging import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from holdfast.workflows.management.desk import Desk
    from holdfast.workflows.messaging import NotificationInfo

T = TypeVar("T")


class AsyncMessageManagement(ABC):
    """What can be asked about messages and events; awaited."""

    @abstractmethod
    async def _manage(
        self, name: str, call: Callable[[Desk], Coroutine[Any, Any, T]], arguments: Mapping[str, Any], type_: Any
    ) -> T:
        """Carry out *call* for the method *name*; *arguments* and *type_* are for whoever records it."""

    async def get_all_events(self, workflow_id: str) -> dict[str, Any]:
        """Return the events a run has set, by their keys, as plain JSON. Raises ``WorkflowNotFound``."""
        return await self._manage(*requests.all_events(workflow_id))

    async def get_all_notifications(self, workflow_id: str) -> list[NotificationInfo]:
        """Return the messages to a run in the order in which they were sent, received or not.

        ``WorkflowNotFound`` if there is no such run.
        """
        return await self._manage(*requests.all_notifications(workflow_id))


class MessageManagement(ABC):
    """What can be asked about messages and events; blocking."""

    @abstractmethod
    def _manage(
        self, name: str, call: Callable[[Desk], Coroutine[Any, Any, T]], arguments: Mapping[str, Any], type_: Any
    ) -> T:
        """Carry out *call* for the method *name*; *arguments* and *type_* are for whoever records it."""

    def get_all_events(self, workflow_id: str) -> dict[str, Any]:
        """Return the events a run has set, by their keys, as plain JSON. Raises ``WorkflowNotFound``."""
        return self._manage(*requests.all_events(workflow_id))

    def get_all_notifications(self, workflow_id: str) -> list[NotificationInfo]:
        """Return the messages to a run in the order in which they were sent, received or not.

        ``WorkflowNotFound`` if there is no such run.
        """
        return self._manage(*requests.all_notifications(workflow_id))
