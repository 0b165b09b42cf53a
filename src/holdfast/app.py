"""``Holdfast`` and ``AsyncHoldfast``: what a user makes. They wire the rooms, start them and stop them.

Both are the same engine. ``AsyncHoldfast`` lives on the caller's event loop; ``Holdfast`` has one in its own thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from holdfast.core.durations import checked_seconds
from holdfast.db.portal import Portal
from holdfast.model.workflow import DEFAULT_MAX_RECOVERY_ATTEMPTS
from holdfast.workflows.application.application import Application
from holdfast.workflows.application.configuration import refuse_one_loop
from holdfast.workflows.application.life import AppLife, AsyncAppLife
from holdfast.workflows.application.stores import AppStores, AsyncAppStores
from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow, given_by_name
from holdfast.workflows.declaring.steps import unbound
from holdfast.workflows.management.management import AsyncManagement, Management
from holdfast.workflows.management.managing import Managing
from holdfast.workflows.messaging.methods import AsyncMessagingMethods, MessagingMethods
from holdfast.workflows.operations import branches, patches
from holdfast.workflows.operations.place import task_place, thread_place
from holdfast.workflows.operations.steps import run_step, run_step_blocking
from holdfast.workflows.running.handles import AsyncHandle, Handle, ticket_of, values, waited_for
from holdfast.workflows.transactions import TransactionStep

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from holdfast.model.workflow import Duration, Retry
    from holdfast.workflows.application.configuration import Settings
    from holdfast.workflows.declaring.decorators import AsyncWorkflowDecorator, WorkflowDecorator
    from holdfast.workflows.management.desk import Request
    from holdfast.workflows.remote.remote import QueueOptions
    from holdfast.workflows.streams import AsyncStreamReader, StreamReader
    from holdfast.workflows.streams.reading import Reading

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


class Holdfast(Application, AppLife, Management[Handle[Any]], MessagingMethods, AppStores):
    """A durable application for code without an event loop.

    *url* names the database; without it ``HOLDFAST_DATABASE_URL``, then ``DATABASE_URL``, then the SQLite file
    ``{name}.sqlite``. See the reference for all settings.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None, **settings: Unpack[Settings]) -> None:
        super().__init__(url, **settings)
        refuse_one_loop(self._engine.settings.world)
        self._portal = Portal(opened_by="launch()")

    @overload
    def workflow(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def workflow(self, function: Callable[P, R], /) -> Workflow[P, R, R]: ...
    @overload
    def workflow(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS,
        dead_letter: bool | str | None = None,
    ) -> WorkflowDecorator: ...
    def workflow(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS,
        dead_letter: bool | str | None = None,
    ) -> Any:
        """Make a function a durable workflow; as ``@app.workflow`` or ``@app.workflow(name=..., retry=Retry(...))``.

        A run that fails is tried again as *retry* says, from the operation that failed. With *dead_letter* one that
        ends as ERROR becomes a dead letter, of the domain ``workflow`` or the one that is given.
        """

        def decorate(function: Any) -> Any:
            return Workflow(self._engine, self._define(function, name, retry, max_recovery_attempts, dead_letter))

        return decorate if function is None else decorate(function)

    @overload
    def run_step(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run_step(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def run_step(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a step that was not declared as one; in an async function, wait for its result."""
        if isinstance(function, TransactionStep):
            return function.run_blocking(*args, **kwargs)
        called, given = unbound(function, args)
        return run_step_blocking(self._engine, thread_place(self._engine), self._ad_hoc(called), given, kwargs)

    def execute(self, workflow: Workflow[..., R, Any], parameters: Mapping[str, Any] | None = None) -> tuple[R, str]:
        """Run a workflow with named *parameters*; return its result and the id of the run."""
        given = given_by_name(workflow, Workflow, parameters)
        handle = workflow.start(**given)
        return handle.result(), handle.workflow_id

    def enqueue(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[QueueOptions],
    ) -> Handle[Any]:
        """Put a run of a workflow, which another process may have, in a queue; return when it is stored.

        ``WorkflowConflict`` if the id belongs to another call, ``Deduplicated`` if the *deduplication_id* belongs to a
        run that has not ended.
        """
        work = self._running.enqueues.named(workflow_name, args, kwargs, options, queue_name)
        return Handle(self._engine, self._engine.enqueues.enqueue_blocking(thread_place(self._engine), work))

    def retrieve_workflow(self, workflow_id: str) -> Handle[Any]:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""
        return Handle(self._engine, self._ticket(workflow_id))

    def write_stream(self, key: str, value: Any, *, live: bool = False) -> None:
        """Append *value* to the stream *key* of this run; ``StreamClosed`` behind its end.

        In a workflow a recorded operation. In a step it is kept until the step is recorded, and dropped if the attempt
        fails; with *live* it is seen at once, and void if the step is recorded with another attempt.
        """
        self._running.streams.write_blocking(key, value, live=live)

    def close_stream(self, key: str) -> None:
        """Close the stream *key* of this run: nothing more is written to it, and who reads it comes to its end."""
        self._running.streams.close_blocking(key)

    def sleep(self, duration: Duration) -> None:
        """Sleep; in a workflow until a recorded moment, whatever happens meanwhile."""
        length = checked_seconds(duration, "What sleep() is given", past=True)
        place = thread_place(self._engine)
        if place is None:
            self._engine.ask_blocking(self._engine.settings.world.sleep(length))
        else:
            self._running.durable.sleep_blocking(place, length)

    def now(self) -> datetime:
        """Return the database's time; in a workflow the same on every replay."""
        return self._running.durable.now_blocking(thread_place(self._engine))

    def random(self) -> float:
        """Return a random number from 0 to 1; in a workflow the same on every replay."""
        return self._running.durable.random_blocking(thread_place(self._engine))

    def uuid(self) -> UUID:
        """Return a fresh UUID; in a workflow the same on every replay."""
        return self._running.durable.uuid_blocking(thread_place(self._engine))

    @overload
    def gather(self, one: Callable[[], R], two: Callable[[], T], /) -> list[R | T]: ...
    @overload
    def gather(self, one: Callable[[], R], two: Callable[[], T], three: Callable[[], U], /) -> list[R | T | U]: ...
    @overload
    def gather(
        self, one: Callable[[], R], two: Callable[[], T], three: Callable[[], U], four: Callable[[], V], /
    ) -> list[R | T | U | V]: ...
    @overload
    def gather(self, *parts: Callable[[], R]) -> list[R]: ...
    def gather(self, *parts: Callable[[], Any]) -> list[Any]:
        """Run callables side by side, each a branch of the workflow; return their results in order."""
        return branches.gather_blocking(thread_place(self._engine), parts, self._engine.threads)

    def timeout(self, duration: Duration, part: Callable[[], R]) -> R:
        """Run *part* for so long, then raise ``TimeoutError``; in a workflow the same on every replay.

        *part* runs on a thread of its own. When its time is over the thread goes on, but nothing it does is recorded.
        """
        result: R = branches.within_blocking(
            self._running.durable, thread_place(self._engine), duration, part, self._engine.threads
        )
        return result

    def wait_first(self, handles: Iterable[Handle[R]]) -> Handle[R]:
        """Wait until one of several runs has ended, and return its handle; in a workflow the same on every replay."""
        given = waited_for(handles, Handle, "wait_first")
        branches.refuse_no_handles(given)
        place, tickets = thread_place(self._engine), [ticket_of(handle) for handle in given]
        if place is None:
            return given[self._running.waiting.first_of_blocking(tickets)]
        return given[self._running.durable.first_of_blocking(place, tickets)]

    def wait_all(self, handles: Iterable[Handle[R]]) -> list[R]:
        """Wait for several runs; return their results in order, or raise the error of the first that has one."""
        given = waited_for(handles, Handle, "wait_all")
        if thread_place(self._engine) is not None:
            return [handle.result() for handle in given]
        waiting = self._running.waiting.outcomes([ticket_of(handle) for handle in given])
        with self._engine.threads.waiting():  # the runs it waits for may need its place
            return values(self._engine.ask_blocking(waiting))

    def patch(self, name: str) -> bool:
        """Return whether this run goes the new way of a change called *name*; runs from before it go the old way."""
        place = patches.in_workflow(thread_place(self._engine), "patch")
        return self._running.patches.patch_blocking(place, name)

    def deprecate_patch(self, name: str) -> None:
        """Say that every run goes the new way of *name* now; its marker in older records is passed over."""
        place = patches.in_workflow(thread_place(self._engine), "deprecate_patch")
        self._running.patches.deprecate_blocking(place, name)

    def _manage(self, request: Request[T]) -> T:
        return Managing(self._running, request).carry_out_blocking(thread_place(self._engine))

    def _reader(self, reading: Reading, type_: Any) -> StreamReader[Any]:
        return self._running.stream_reads.reader_blocking(reading, type_)


class AsyncHoldfast(
    Application, AsyncAppLife, AsyncManagement[AsyncHandle[Any]], AsyncMessagingMethods, AsyncAppStores
):
    """A durable application on the caller's event loop; the same as ``Holdfast``, awaited."""

    @overload
    def workflow(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncWorkflow[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def workflow(self, function: Callable[P, R], /) -> AsyncWorkflow[P, R, R]: ...
    @overload
    def workflow(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS,
        dead_letter: bool | str | None = None,
    ) -> AsyncWorkflowDecorator: ...
    def workflow(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS,
        dead_letter: bool | str | None = None,
    ) -> Any:
        """Make a function a durable workflow; as ``@app.workflow`` or ``@app.workflow(name=..., retry=Retry(...))``.

        A run that fails is tried again as *retry* says, from the operation that failed. With *dead_letter* one that
        ends as ERROR becomes a dead letter, of the domain ``workflow`` or the one that is given.
        """

        def decorate(function: Any) -> Any:
            return AsyncWorkflow(self._engine, self._define(function, name, retry, max_recovery_attempts, dead_letter))

        return decorate if function is None else decorate(function)

    @overload
    async def run_step(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run_step(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def run_step(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a step that was not declared as one; a sync function runs on a thread."""
        if isinstance(function, TransactionStep):
            return await function.run(*args, **kwargs)
        called, given = unbound(function, args)
        return await run_step(self._engine, task_place(self._engine), self._ad_hoc(called), given, kwargs)

    async def execute(
        self, workflow: AsyncWorkflow[..., R, Any], parameters: Mapping[str, Any] | None = None
    ) -> tuple[R, str]:
        """Run a workflow with named *parameters*; return its result and the id of the run."""
        given = given_by_name(workflow, AsyncWorkflow, parameters)
        handle = await workflow.start(**given)
        return await handle.result(), handle.workflow_id

    async def enqueue(
        self,
        workflow_name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue_name: str,
        **options: Unpack[QueueOptions],
    ) -> AsyncHandle[Any]:
        """Put a run of a workflow, which another process may have, in a queue; return when it is stored.

        ``WorkflowConflict`` if the id belongs to another call, ``Deduplicated`` if the *deduplication_id* belongs to a
        run that has not ended.
        """
        work = self._running.enqueues.named(workflow_name, args, kwargs, options, queue_name)
        return AsyncHandle(self._engine, await self._engine.enqueues.enqueue(task_place(self._engine), work))

    def retrieve_workflow(self, workflow_id: str) -> AsyncHandle[Any]:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""
        return AsyncHandle(self._engine, self._ticket(workflow_id))

    async def write_stream(self, key: str, value: Any, *, live: bool = False) -> None:
        """Append *value* to the stream *key* of this run; ``StreamClosed`` behind its end.

        In a workflow a recorded operation. In a step it is kept until the step is recorded, and dropped if the attempt
        fails; with *live* it is seen at once, and void if the step is recorded with another attempt.
        """
        await self._running.streams.write(key, value, live=live)

    async def close_stream(self, key: str) -> None:
        """Close the stream *key* of this run: nothing more is written to it, and who reads it comes to its end."""
        await self._running.streams.close(key)

    async def sleep(self, duration: Duration) -> None:
        """Sleep; in a workflow until a recorded moment, whatever happens meanwhile."""
        length = checked_seconds(duration, "What sleep() is given", past=True)
        place = task_place(self._engine)
        if place is None:
            await self._engine.settings.world.sleep(length)
        else:
            await self._running.durable.sleep(place, length)

    async def now(self) -> datetime:
        """Return the database's time; in a workflow the same on every replay."""
        return await self._running.durable.now(task_place(self._engine))

    async def random(self) -> float:
        """Return a random number from 0 to 1; in a workflow the same on every replay."""
        return await self._running.durable.random(task_place(self._engine))

    async def uuid(self) -> UUID:
        """Return a fresh UUID; in a workflow the same on every replay."""
        return await self._running.durable.uuid(task_place(self._engine))

    @overload
    async def gather(self, one: Awaitable[R], two: Awaitable[T], /) -> list[R | T]: ...
    @overload
    async def gather(self, one: Awaitable[R], two: Awaitable[T], three: Awaitable[U], /) -> list[R | T | U]: ...
    @overload
    async def gather(
        self, one: Awaitable[R], two: Awaitable[T], three: Awaitable[U], four: Awaitable[V], /
    ) -> list[R | T | U | V]: ...
    @overload
    async def gather(self, *parts: Awaitable[R]) -> list[R]: ...
    async def gather(self, *parts: Awaitable[Any]) -> list[Any]:
        """Run awaitables side by side, each a branch of the workflow; return their results in order."""
        with branches.dropped_unless_ready(parts):
            place = task_place(self._engine)
        return await branches.gather(place, parts)

    async def timeout(self, duration: Duration, part: Awaitable[R]) -> R:
        """Await *part* for so long, then raise ``TimeoutError``; in a workflow the same on every replay."""
        with branches.dropped_unless_ready((part,)):
            durable, place = self._running.durable, task_place(self._engine)
        result: R = await branches.within(durable, place, duration, part)
        return result

    async def wait_first(self, handles: Iterable[AsyncHandle[R]]) -> AsyncHandle[R]:
        """Wait until one of several runs has ended, and return its handle; in a workflow the same on every replay."""
        given = waited_for(handles, AsyncHandle, "wait_first")
        branches.refuse_no_handles(given)
        place, tickets = task_place(self._engine), [ticket_of(handle) for handle in given]
        if place is None:
            return given[await self._running.waiting.first_of(tickets)]
        return given[await self._running.durable.first_of(place, tickets)]

    async def wait_all(self, handles: Iterable[AsyncHandle[R]]) -> list[R]:
        """Wait for several runs; return their results in order, or raise the error of the first that has one."""
        given = waited_for(handles, AsyncHandle, "wait_all")
        if task_place(self._engine) is not None:
            return [await handle.result() for handle in given]
        return values(await self._running.waiting.outcomes([ticket_of(handle) for handle in given]))

    async def patch(self, name: str) -> bool:
        """Return whether this run goes the new way of a change called *name*; runs from before it go the old way."""
        place = patches.in_workflow(task_place(self._engine), "patch")
        return await self._running.patches.patch(place, name)

    async def deprecate_patch(self, name: str) -> None:
        """Say that every run goes the new way of *name* now; its marker in older records is passed over."""
        place = patches.in_workflow(task_place(self._engine), "deprecate_patch")
        await self._running.patches.deprecate(place, name)

    async def _manage(self, request: Request[T]) -> T:
        return await Managing(self._running, request).carry_out(task_place(self._engine))

    def _reader(self, reading: Reading, type_: Any) -> AsyncStreamReader[Any]:
        return self._running.stream_reads.reader(reading, type_)
