"""``send``, ``recv``, ``set_event`` and ``get_event`` as applications have them, in both colours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.core.durations import patience
from holdfast.errors import MisuseError
from holdfast.workflows.messaging.message import Message, several
from holdfast.workflows.operations.place import StepPlace, WorkflowPlace, here, task_place, thread_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.model.workflow import Duration
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.payloads import Codec

T = TypeVar("T")


class _OfEngine(ABC):
    @property
    @abstractmethod
    def _running(self) -> Engine:
        """The engine, if it is launched."""


class MessagingMethods(_OfEngine):
    """Messages and events; blocking."""

    def send(
        self, destination_id: str, message: Any, topic: str | None = None, *, idempotency_key: str | None = None
    ) -> None:
        """Send a message to a run, ended or not; return when it is stored. ``WorkflowNotFound`` if there is none.

        In a workflow it is sent once, whatever happens. In a step it is sent when the step has succeeded, together with
        its record. A second message with the same *idempotency_key* is ignored; ``MessageConflict`` if the first one
        went to another run.
        """
        self.send_many([Message(destination_id, message, topic, idempotency_key)])

    def send_many(self, messages: Iterable[Message]) -> None:
        """Send several messages in one commit, in their order: all of them, or none if one is refused; see ``send``."""
        engine = self._running
        engine.communication.messages.send_blocking(thread_place(engine), several(messages))

    @overload
    def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: type[T]) -> T | None: ...
    @overload
    def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: None = None) -> Any: ...
    def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: Any = None) -> Any:  # noqa: A002 -- likewise
        """Return the next message of *topic* to this run; None if there is none within *timeout*, which may be None.

        Only in a workflow. Each message is received once, in the order in which they were sent. It comes back as *type*
        or, without one, as plain JSON values. The time goes on while no process runs the workflow.
        """
        engine = self._running
        place = _in_workflow(thread_place(engine))
        return engine.communication.messages.recv_blocking(place, topic, patience(timeout), _codec(engine, type))

    def set_event(self, key: str, value: Any) -> None:
        """Set an event of this run, which anybody can get; in a workflow, or in a step with the step's record."""
        engine = self._running
        engine.communication.events.set_blocking(thread_place(engine), key, value)

    @overload
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: type[T]) -> T | None: ...
    @overload
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: None = None) -> Any: ...
    def get_event(self, workflow_id: str, key: str, timeout: Duration | None = 60, *, type: Any = None) -> Any:  # noqa: A002 -- likewise
        """Return an event of a run as it was set last; None if it is not set within *timeout*, which may be None.

        The run need not be there yet. The value comes back as *type* or, without one, as plain JSON values. In a
        workflow it is the same on every replay.
        """
        engine = self._running
        get = engine.communication.events.get_blocking
        return get(thread_place(engine), workflow_id, key, patience(timeout), _codec(engine, type))


class AsyncMessagingMethods(_OfEngine):
    """Messages and events; awaited."""

    async def send(
        self, destination_id: str, message: Any, topic: str | None = None, *, idempotency_key: str | None = None
    ) -> None:
        """Send a message to a run, ended or not; return when it is stored. ``WorkflowNotFound`` if there is none.

        In a workflow it is sent once, whatever happens. In a step it is sent when the step has succeeded, together with
        its record. A second message with the same *idempotency_key* is ignored; ``MessageConflict`` if the first one
        went to another run.
        """
        await self.send_many([Message(destination_id, message, topic, idempotency_key)])

    async def send_many(self, messages: Iterable[Message]) -> None:
        """Send several messages in one commit, in their order: all of them, or none if one is refused; see ``send``."""
        engine = self._running
        await engine.communication.messages.send(task_place(engine), several(messages))

    @overload
    async def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: type[T]) -> T | None: ...  # noqa: ASYNC109 -- as users say it
    @overload
    async def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: None = None) -> Any: ...  # noqa: ASYNC109 -- likewise
    async def recv(self, topic: str | None = None, timeout: Duration | None = 60, *, type: Any = None) -> Any:  # noqa: A002, ASYNC109 -- likewise
        """Return the next message of *topic* to this run; None if there is none within *timeout*, which may be None.

        Only in a workflow. Each message is received once, in the order in which they were sent. It comes back as *type*
        or, without one, as plain JSON values. The time goes on while no process runs the workflow.
        """
        engine = self._running
        place = _in_workflow(task_place(engine))
        return await engine.communication.messages.recv(place, topic, patience(timeout), _codec(engine, type))

    async def set_event(self, key: str, value: Any) -> None:
        """Set an event of this run, which anybody can get; in a workflow, or in a step with the step's record."""
        engine = self._running
        await engine.communication.events.set(task_place(engine), key, value)

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

        The run need not be there yet. The value comes back as *type* or, without one, as plain JSON values. In a
        workflow it is the same on every replay.
        """
        engine = self._running
        get = engine.communication.events.get
        return await get(task_place(engine), workflow_id, key, patience(timeout), _codec(engine, type))


def _codec(engine: Engine, type_: Any) -> Codec:
    return engine.payloads.plain if type_ is None else engine.payloads.typed(type_)


def _in_workflow(place: WorkflowPlace | None) -> WorkflowPlace:
    if place is not None:
        return place
    if isinstance(here.get(), StepPlace):
        raise MisuseError(
            "recv() was called in a step, which may be tried again and would then have lost its message: receive it in "
            "the workflow, and pass it to the step."
        )
    raise MisuseError("recv() receives messages to the run that calls it, and this code belongs to none.")
