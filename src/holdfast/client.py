"""``Client`` and ``AsyncClient``: runs seen and steered from a process that does not have their functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from holdfast.core.options import refuse_unknown
from holdfast.core.texts import check_text
from holdfast.db.portal import Portal
from holdfast.model.world import RealWorld, World
from holdfast.workflows.application.configuration import (
    connection_settings,
    refuse_one_loop,
    resolve_url,
    serialization_of,
)
from holdfast.workflows.enqueueing.rows import given
from holdfast.workflows.management.management import AsyncManagement, Management
from holdfast.workflows.messaging.client_methods import AsyncClientMessaging, ClientMessaging
from holdfast.workflows.remote.enqueues import NamedCall
from holdfast.workflows.remote.handles import AsyncClientHandle, ClientHandle
from holdfast.workflows.remote.remote import DebounceOptions, QueueOptions, Remote, RemoteSettings, RunOptions
from holdfast.workflows.running.ids import sought_id
from holdfast.workflows.streams.reading import (
    AsyncStreamReader,
    Cursor,
    Item,
    StreamReader,
    next_item,
    next_item_blocking,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from holdfast.model.workflow import Duration
    from holdfast.serialize import Serialization
    from holdfast.workflows.management.desk import Request
    from holdfast.workflows.streams.reading import Reading

T = TypeVar("T")


class ClientSettings(TypedDict, total=False):
    """What a client may be given besides its URL."""

    name: str
    schema: str
    serializer: Serialization | None
    pool_size: int
    pool_timeout: Duration
    connect_timeout: Duration
    pooled: bool
    prepared: bool
    application_name: str
    world: World | None
    clock_offset_ms: str | None


def remote_settings(
    url: str | os.PathLike[str] | None,
    *,
    name: str = "holdfast",
    schema: str = "holdfast",
    serializer: Serialization | None = None,
    pool_size: int = 5,
    pool_timeout: Duration = 30.0,
    connect_timeout: Duration = 10.0,
    pooled: bool = True,
    prepared: bool = True,
    application_name: str = "holdfast-client",
    world: World | None = None,
    clock_offset_ms: str | None = None,
) -> RemoteSettings:
    """Return the settings of a client; the URL is found as an application of that *name* finds it."""
    found = resolve_url(url, check_text("name", name))
    return RemoteSettings(
        url=found,
        name=name,
        schema=schema,
        serialization=serialization_of(serializer),
        connection=connection_settings(
            found,
            schema,
            pool_size=pool_size,
            pool_timeout=pool_timeout,
            connect_timeout=connect_timeout,
            pooled=pooled,
            prepared=prepared,
            application_name=application_name,
        ),
        world=world or RealWorld(),
        clock_offset_ms=clock_offset_ms,
    )


def _remote(url: str | os.PathLike[str] | None, settings: ClientSettings) -> Remote:
    refuse_unknown("A client", settings, ClientSettings.__annotations__, "setting")
    return Remote(remote_settings(url, **settings))


class Client(Management[ClientHandle], ClientMessaging):
    """Looks at runs, starts them by name and changes them, for code without an event loop; safe for many threads.

    *url* is found as by ``Holdfast``. The tables must be there and of this release: a client never migrates.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None, **settings: Unpack[ClientSettings]) -> None:
        refuse_one_loop(settings.get("world"))
        self._remote = _remote(url, settings)
        self._portal = Portal("holdfast-client", opened_by="open()")

    def open(self) -> None:
        """Connect, and check that the tables are ours and of this release; a second call changes nothing.

        Raises ``NotOurDatabase``, ``SchemaTooOld`` or ``SchemaTooNew``. Nothing is created or changed.
        """
        if self._portal.is_running:
            return
        self._portal.start()
        try:
            self._portal.call(self._remote.open())
        except BaseException:
            self._portal.stop()
            raise

    def close(self) -> None:
        """End the connections; whoever still waits for a result is told. A second call changes nothing."""
        if self._portal.is_running:
            self._portal.call(self._remote.close())
            self._portal.stop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_workflow(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> ClientHandle:
        """Have a workflow run by any executor that has it; return when the run is stored.

        With a *workflow_id* that is taken by the same call, the handle is that run's; ``WorkflowConflict`` otherwise.
        """
        return self.retrieve_workflow(self._portal.call(self._remote.start(workflow_name, args, kwargs, options)))

    def enqueue(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[QueueOptions],
    ) -> ClientHandle:
        """Put a run of a workflow in a queue; return when it is stored.

        ``WorkflowConflict`` if the id belongs to another call, ``Deduplicated`` if the *deduplication_id* belongs to a
        run that has not ended.
        """
        made = self._remote.enqueues.enqueue(workflow_name, args, kwargs, options, queue_name)
        return self.retrieve_workflow(self._portal.call(made))

    def call(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[QueueOptions],
    ) -> NamedCall:
        """Return a call that is not made, with options of its own, for ``enqueue_many``."""
        return NamedCall(workflow_name, *given(args, kwargs), options)

    def enqueue_many(
        self, calls: Iterable[NamedCall], *, queue_name: str, **options: Unpack[QueueOptions]
    ) -> list[ClientHandle]:
        """Put runs in a queue, thousands at once: all of them, or none if one of them is refused.

        *calls* are made with ``call()``; what one does not say by options of its own, the options here say.
        """
        made = self._remote.enqueues.enqueue_many(calls, options, queue_name)
        return [self.retrieve_workflow(each) for each in self._portal.call(made)]

    def debounce(
        self,
        workflow_name: str,
        key: str,
        period: Duration,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[DebounceOptions],
    ) -> ClientHandle:
        """Enqueue a run when *period* has passed without another call with *key*; the last arguments count.

        At the latest when *debounce_timeout*, if it was said, has passed since the first call. Calls of the workflow
        itself with this key, by an application, are counted with these.
        """
        made = self._remote.enqueues.debounce(workflow_name, key, period, args, kwargs, options, queue_name)
        return self.retrieve_workflow(self._portal.call(made))

    def retrieve_workflow(self, workflow_id: str) -> ClientHandle:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""
        return ClientHandle(self._remote, self._portal, sought_id(workflow_id))

    def _manage(self, request: Request[T]) -> T:
        return self._portal.call(self._remote.ask(request))

    def _reader(self, reading: Reading, type_: Any) -> StreamReader[Any]:
        remote, portal = self._remote, self._portal

        def step(cursor: Cursor) -> Item:
            return next_item_blocking(cursor, lambda reading, offset: portal.call(remote.read(reading, offset)))

        return StreamReader(Cursor(reading), remote.payloads.typed(type_), step)


class AsyncClient(AsyncManagement[AsyncClientHandle], AsyncClientMessaging):
    """Looks at runs, starts them by name and changes them, on the caller's event loop; as ``Client``, awaited.

    *url* is found as by ``Holdfast``. The tables must be there and of this release: a client never migrates.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None, **settings: Unpack[ClientSettings]) -> None:
        self._remote = _remote(url, settings)

    async def open(self) -> None:
        """Connect, and check that the tables are ours and of this release; a second call changes nothing.

        Raises ``NotOurDatabase``, ``SchemaTooOld`` or ``SchemaTooNew``. Nothing is created or changed.
        """
        await self._remote.open()

    async def close(self) -> None:
        """End the connections; whoever still waits for a result is told. A second call changes nothing."""
        await self._remote.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start_workflow(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncClientHandle:
        """Have a workflow run by any executor that has it; return when the run is stored.

        With a *workflow_id* that is taken by the same call, the handle is that run's; ``WorkflowConflict`` otherwise.
        """
        return self.retrieve_workflow(await self._remote.start(workflow_name, args, kwargs, options))

    async def enqueue(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[QueueOptions],
    ) -> AsyncClientHandle:
        """Put a run of a workflow in a queue; return when it is stored.

        ``WorkflowConflict`` if the id belongs to another call, ``Deduplicated`` if the *deduplication_id* belongs to a
        run that has not ended.
        """
        made = self._remote.enqueues.enqueue(workflow_name, args, kwargs, options, queue_name)
        return self.retrieve_workflow(await made)

    def call(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[QueueOptions],
    ) -> NamedCall:
        """Return a call that is not made, with options of its own, for ``enqueue_many``."""
        return NamedCall(workflow_name, *given(args, kwargs), options)

    async def enqueue_many(
        self, calls: Iterable[NamedCall], *, queue_name: str, **options: Unpack[QueueOptions]
    ) -> list[AsyncClientHandle]:
        """Put runs in a queue, thousands at once: all of them, or none if one of them is refused.

        *calls* are made with ``call()``; what one does not say by options of its own, the options here say.
        """
        made = self._remote.enqueues.enqueue_many(calls, options, queue_name)
        return [self.retrieve_workflow(each) for each in await made]

    async def debounce(
        self,
        workflow_name: str,
        key: str,
        period: Duration,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[DebounceOptions],
    ) -> AsyncClientHandle:
        """Enqueue a run when *period* has passed without another call with *key*; the last arguments count.

        At the latest when *debounce_timeout*, if it was said, has passed since the first call. Calls of the workflow
        itself with this key, by an application, are counted with these.
        """
        made = self._remote.enqueues.debounce(workflow_name, key, period, args, kwargs, options, queue_name)
        return self.retrieve_workflow(await made)

    def retrieve_workflow(self, workflow_id: str) -> AsyncClientHandle:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""
        return AsyncClientHandle(self._remote, sought_id(workflow_id))

    async def _manage(self, request: Request[T]) -> T:
        return await self._remote.ask(request)

    def _reader(self, reading: Reading, type_: Any) -> AsyncStreamReader[Any]:
        remote = self._remote

        async def step(cursor: Cursor) -> Item:
            return await next_item(cursor, remote.read)

        return AsyncStreamReader(Cursor(reading), remote.payloads.typed(type_), step)


__all__ = ["AsyncClient", "AsyncClientHandle", "Client", "ClientHandle", "NamedCall"]
