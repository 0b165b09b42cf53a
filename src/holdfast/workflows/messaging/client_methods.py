"""``send`` and ``get_event`` as clients have them, in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.core.durations import patience
from holdfast.workflows.messaging.message import Message, several

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.db.portal import Portal
    from holdfast.model.workflow import Duration
    from holdfast.workflows.remote.remote import Remote

T = TypeVar("T")


class ClientMessaging:
    """Messages and events from outside; blocking."""

    _remote: Remote
    _portal: Portal

    def send(
        self, destination_id: str, message: Any, topic: str | None = None, *, idempotency_key: str | None = None
    ) -> None:
        """Send a message to a run, ended or not; return when it is stored. ``WorkflowNotFound`` if there is none.

        A second message with the same *idempotency_key* is ignored; ``MessageConflict`` if the first one went to
        another run.
        """
        self.send_many([Message(destination_id, message, topic, idempotency_key)])

    def send_many(self, messages: Iterable[Message]) -> None:
        """Send several messages in one commit, in their order: all of them, or none if one is refused; see ``send``."""
        self._portal.call(self._remote.send(several(messages)))

    @overload
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: type[T]) -> T | None: ...
    @overload
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: None = None) -> Any: ...
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: Any = None) -> Any:  # noqa: A002 -- as users say it
        """Return an event of a run as it was set last; None if it is not set within *timeout*, which may be None.

        The run need not be there yet. The value comes back as *type* or, without one, as plain JSON values.
        """
        return self._portal.call(self._remote.get_event(workflow_id, key, patience(timeout), type))


class AsyncClientMessaging:
    """Messages and events from outside; awaited."""

    _remote: Remote

    async def send(
        self, destination_id: str, message: Any, topic: str | None = None, *, idempotency_key: str | None = None
    ) -> None:
        """Send a message to a run, ended or not; return when it is stored. ``WorkflowNotFound`` if there is none.

        A second message with the same *idempotency_key* is ignored; ``MessageConflict`` if the first one went to
        another run.
        """
        await self.send_many([Message(destination_id, message, topic, idempotency_key)])

    async def send_many(self, messages: Iterable[Message]) -> None:
        """Send several messages in one commit, in their order: all of them, or none if one is refused; see ``send``."""
        await self._remote.send(several(messages))

    @overload
    async def get_event(
        self,
        workflow_id: str,
        key: str,
        timeout: Duration | None = 60,  # noqa: ASYNC109 -- the same name in both colours
        *,
        type: type[T],
    ) -> T | None: ...
    @overload
    async def get_event(
        self,
        workflow_id: str,
        key: str,
        timeout: Duration | None = 60,  # noqa: ASYNC109 -- the same name in both colours
        *,
        type: None = None,
    ) -> Any: ...
    async def get_event(
        self,
        workflow_id: str,
        key: str,
        timeout: Duration | None = 60,  # noqa: ASYNC109 -- the same name in both colours
        *,
        type: Any = None,  # noqa: A002 -- as users say it
    ) -> Any:
        """Return an event of a run as it was set last; None if it is not set within *timeout*, which may be None.

        The run need not be there yet. The value comes back as *type* or, without one, as plain JSON values.
        """
        return await self._remote.get_event(workflow_id, key, patience(timeout), type)
