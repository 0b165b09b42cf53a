"""Reading streams, and dispatch state, from outside: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way; only that a reader is no single request.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from holdfast.workflows.dispatch_state import DispatchState
from holdfast.workflows.management.asking import Asking, AsyncAsking
from holdfast.workflows.streams import requests
from holdfast.workflows.streams.reading import Reading

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.streams import AsyncStreamReader, StreamReader, StreamReset, StreamState

T = TypeVar("T")


class AsyncStreamManagement(AsyncAsking):
    """What can be read of streams, and the state of event dispatchers; awaited."""

    @abstractmethod
    def _reader(self, reading: Reading, type_: Any) -> AsyncStreamReader[Any]:
        """Return a reader of values of *type_*."""

    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: Literal[False] = False,
        type: type[T],
    ) -> AsyncStreamReader[T]: ...
    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: Literal[True],
        type: type[T],
    ) -> AsyncStreamReader[T | StreamReset]: ...
    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: bool = False,
        type: Any = Any,
    ) -> AsyncStreamReader[Any]: ...
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: bool = False,
        type: Any = Any,  # noqa: A002 -- the word for it
    ) -> AsyncStreamReader[Any]:
        """Return an iterator over the values of a run's stream from *offset* on, each as *type*.

        It gives values as they come, and ends when the stream is closed or the run has ended; with ``follow=False``
        when it has given what is there. Its ``offset`` says where another reader would go on. *timeout* is how long it
        waits for a value: ``TimeoutError`` then. ``WorkflowNotFound`` if there is no such run.

        With *resets* it gives a ``StreamReset`` where an attempt that wrote live came to nothing. In a workflow each
        value is a recorded operation.
        """
        reading = Reading.of(workflow_id, key, offset, timeout, follow=follow, resets=resets)
        return self._reader(reading, type)

    async def get_all_stream_entries(self, workflow_id: str) -> dict[str, list[Any]]:
        """Return the values of all streams of a run by their keys, in order; ``WorkflowNotFound`` if there is none."""
        return await self._manage(requests.all_entries(workflow_id))

    async def list_streams(self, workflow_id: str) -> list[StreamState]:
        """Return which streams a run has and how many values are in each; ``WorkflowNotFound`` if there is none."""
        return await self._manage(requests.list_streams(workflow_id))

    async def get_dispatch_state(self, service_name: str, workflow_fn_name: str, key: str) -> DispatchState | None:
        """Return how far a dispatcher of events has come; None if nothing is stored."""
        return await self._manage(requests.get_dispatch_state(service_name, workflow_fn_name, key))

    async def put_dispatch_state(
        self,
        service_name: str,
        workflow_fn_name: str,
        key: str,
        value: str | None,
        *,
        update_seq: int | None = None,
        update_time: float | None = None,
    ) -> DispatchState:
        """Store how far a dispatcher of events has come, and return what is stored then.

        A higher *update_seq* wins, and any wins over none; where neither has one, the later *update_time*, in seconds
        since the epoch and by default now. What loses changes nothing.
        """
        state = DispatchState(
            service_name=service_name,
            workflow_fn_name=workflow_fn_name,
            key=key,
            value=value,
            update_seq=update_seq,
            update_time=update_time,
        )
        return await self._manage(requests.put_dispatch_state(state))


class StreamManagement(Asking):
    """What can be read of streams, and the state of event dispatchers; blocking."""

    @abstractmethod
    def _reader(self, reading: Reading, type_: Any) -> StreamReader[Any]:
        """Return a reader of values of *type_*."""

    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: Literal[False] = False,
        type: type[T],
    ) -> StreamReader[T]: ...
    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: Literal[True],
        type: type[T],
    ) -> StreamReader[T | StreamReset]: ...
    @overload
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: bool = False,
        type: Any = Any,
    ) -> StreamReader[Any]: ...
    def read_stream(
        self,
        workflow_id: str,
        key: str,
        *,
        offset: int = 0,
        timeout: Duration | None = None,
        follow: bool = True,
        resets: bool = False,
        type: Any = Any,  # noqa: A002 -- the word for it
    ) -> StreamReader[Any]:
        """Return an iterator over the values of a run's stream from *offset* on, each as *type*.

        It gives values as they come, and ends when the stream is closed or the run has ended; with ``follow=False``
        when it has given what is there. Its ``offset`` says where another reader would go on. *timeout* is how long it
        waits for a value: ``TimeoutError`` then. ``WorkflowNotFound`` if there is no such run.

        With *resets* it gives a ``StreamReset`` where an attempt that wrote live came to nothing. In a workflow each
        value is a recorded operation.
        """
        reading = Reading.of(workflow_id, key, offset, timeout, follow=follow, resets=resets)
        return self._reader(reading, type)

    def get_all_stream_entries(self, workflow_id: str) -> dict[str, list[Any]]:
        """Return the values of all streams of a run by their keys, in order; ``WorkflowNotFound`` if there is none."""
        return self._manage(requests.all_entries(workflow_id))

    def list_streams(self, workflow_id: str) -> list[StreamState]:
        """Return which streams a run has and how many values are in each; ``WorkflowNotFound`` if there is none."""
        return self._manage(requests.list_streams(workflow_id))

    def get_dispatch_state(self, service_name: str, workflow_fn_name: str, key: str) -> DispatchState | None:
        """Return how far a dispatcher of events has come; None if nothing is stored."""
        return self._manage(requests.get_dispatch_state(service_name, workflow_fn_name, key))

    def put_dispatch_state(
        self,
        service_name: str,
        workflow_fn_name: str,
        key: str,
        value: str | None,
        *,
        update_seq: int | None = None,
        update_time: float | None = None,
    ) -> DispatchState:
        """Store how far a dispatcher of events has come, and return what is stored then.

        A higher *update_seq* wins, and any wins over none; where neither has one, the later *update_time*, in seconds
        since the epoch and by default now. What loses changes nothing.
        """
        state = DispatchState(
            service_name=service_name,
            workflow_fn_name=workflow_fn_name,
            key=key,
            value=value,
            update_seq=update_seq,
            update_time=update_time,
        )
        return self._manage(requests.put_dispatch_state(state))
