"""What ``@app.workflow`` gives back: a workflow that is called like the function it was."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from holdfast.errors import ConfigurationError, MisuseError
from holdfast.workflows.declaring.names import named
from holdfast.workflows.declaring.registry import bound_to
from holdfast.workflows.enqueueing.options import (
    NONE_SAID,
    check_queue_options,
    chosen,
    merged,
    refuse_queue_options,
)
from holdfast.workflows.enqueueing.rows import work_of
from holdfast.workflows.operations.place import refuse_unawaited, task_place, thread_place
from holdfast.workflows.outbox.outbox import put_in, put_in_blocking
from holdfast.workflows.running.handles import AsyncHandle, Handle
from holdfast.workflows.running.starts import awaited
from holdfast.workflows.running.ticket import Call, PlannedCall, Ticket, call_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Literal, Self

    from holdfast.model.workflow import Duration, StartOptions
    from holdfast.workflows.declaring.class_functions import AsyncWorkflowOfClass, WorkflowOfClass
    from holdfast.workflows.declaring.registry import Definition
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.enqueueing.rows import Work
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.outbox.outbox import AwaitedTransaction, BlockingTransaction

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")


class Options(TypedDict, total=False):
    """What may be said about a single run; the same as ``StartOptions``, for type checkers."""

    workflow_id: str | None
    timeout: Duration | None
    attributes: Mapping[str, Any] | None
    authenticated_user: str | None
    assumed_role: str | None
    authenticated_roles: tuple[str, ...] | None
    application_version: str | None
    on_conflict: Literal["reject", "return_existing"]
    queue_name: str | None
    priority: int
    delay: Duration | None
    delay_until: datetime | None
    deduplication_id: str | None
    queue_partition_key: str | None
    on_duplicate: Literal["reject", "return_existing"]
    debounce_timeout: Duration | None


def given_by_name(workflow: object, kind: type[_Workflow[..., Any, Any]], parameters: object) -> dict[str, Any]:
    """Return the *parameters* of ``execute``; ``ConfigurationError`` unless it was given a workflow of *kind*."""
    if not isinstance(workflow, kind):
        raise ConfigurationError(
            f"execute() takes a workflow of this application, the function below @app.workflow, not {workflow!r:.100}; "
            "by name a workflow is put in a queue, with enqueue()."
        )
    given = {} if parameters is None else parameters
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ConfigurationError(f"parameters are names and values, as in {{'order': 17}}, not {parameters!r:.100}.")
    return dict(given)


class _Workflow(Generic[P, R, C]):
    """What workflows of both application classes have in common."""

    def __init__(
        self,
        engine: Engine,
        definition: Definition,
        *,
        options: StartOptions | None = None,
        instance: Any = None,
    ) -> None:
        functools.update_wrapper(self, definition.function)
        self._engine = engine
        self._options = options or NONE_SAID
        self._instance = instance
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Run durably and return the value: of a sync function here, of an async one when awaited."""
        call = self._call(args, kwargs, "A call")
        if self.definition.is_async:
            refuse_unawaited(self._engine, self.definition, "start() it and ask its handle for the result")
            return cast("C", named(self._run(call), self.definition.name))
        return cast("C", self._run_blocking(call))

    def options(self, **options: Unpack[Options]) -> Self:
        """Return a copy that starts or enqueues its runs with these options: ``workflow_id``, ``queue_name`` ...

        See ``StartOptions`` for all of them.
        """
        return self._copy(chosen(self._options, options), self._instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self._engine.registry.classes.add(owner)

    def _get(self, instance: Any, owner: type | None) -> Any:
        bound = bound_to(self.definition.binds, instance, owner)
        return self if bound is None else self._copy(self._options, bound)

    def __repr__(self) -> str:
        return f"<workflow {self.definition.name}>"

    def _copy(self, options: StartOptions, instance: Any) -> Self:
        return type(self)(self._engine, self.definition, options=options, instance=instance)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> PlannedCall[R]:
        """Return this call with its options, not made yet, for ``enqueue_many``."""
        return PlannedCall(Call(self.definition, self._bound_instance(), args, kwargs, self._options))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], verb: str) -> Call:
        """Return a call that begins at once; *verb* names it."""
        self._check_launched()
        refuse_queue_options(self._options, verb)
        return Call(self.definition, self._bound_instance(), args, kwargs, self._options)

    def _work(self, args: tuple[Any, ...], kwargs: dict[str, Any], verb: str = "enqueue()") -> Work:
        """Return a call that goes into a queue."""
        self._check_launched()
        check_queue_options(self._options, verb)
        return work_of(Call(self.definition, self._bound_instance(), args, kwargs, self._options))

    def _works(self, calls: Iterable[PlannedCall[R]]) -> list[Work]:
        """Return calls that go into queues together; what a call does not say of itself is said here."""
        self._check_launched()
        works: list[Work] = []
        known: dict[int, tuple[StartOptions, StartOptions]] = {}  # calls made alike share their options
        for planned in calls:
            call = call_of(planned)
            if call.definition is not self.definition:
                raise MisuseError(
                    f"enqueue_many() of {self.definition.name!r} was given a call of {call.definition.name!r}; "
                    "make its calls with call() of the same workflow."
                )
            if id(call.options) not in known:
                known[id(call.options)] = call.options, merged(call.options, self._options)
                check_queue_options(known[id(call.options)][1], "enqueue_many()")
            works.append(work_of(call._replace(options=known[id(call.options)][1])))
        return works

    def _check_launched(self) -> None:
        if not self._engine.launched:
            self._engine.check_launched(
                f"The workflow {self.definition.name!r} was called while its application is not launched; call it in "
                "the with block."
            )

    def _bound_instance(self) -> Any:
        instance = self._instance
        if self.definition.binds == "instance":
            self._engine.registry.check_instance(instance, self.definition.name)
        if self.definition.binds == "class" and instance is None:
            raise ConfigurationError(
                f"The workflow {self.definition.name!r} does not see its class: put @app.workflow above @classmethod."
            )
        return instance

    async def _run(self, call: Call) -> Any:
        engine = self._engine
        place = task_place(engine)
        if place is not None:
            ticket = await engine.durable.start_child(place, call, called=True)
            with awaited(ticket):
                return await engine.durable.result(place, ticket)
        self._check_launched()  # once more: what was called may be awaited later
        outcome = await engine.reach(engine.starts.start_and_wait(call))
        return outcome.delivered()

    def _run_blocking(self, call: Call) -> Any:
        engine = self._engine
        place = thread_place(engine)
        if place is not None:
            return engine.durable.result_blocking(place, engine.durable.start_child_blocking(place, call, here=True))
        if engine.is_loop_thread():
            raise MisuseError(
                f"The sync workflow {self.definition.name!r} was called on the event loop, which it would block; "
                "await its start() and the handle."
            )
        outcome = engine.waiting.outcome_blocking(engine.starts.start_blocking(call, here=True))
        return outcome.delivered()

    async def _started(self, call: Call) -> Ticket:
        place = task_place(self._engine)
        if place is not None:
            return await self._engine.durable.start_child(place, call)
        return await self._engine.starts.start(call)

    def _started_blocking(self, call: Call) -> Ticket:
        place = thread_place(self._engine)
        if place is not None:
            return self._engine.durable.start_child_blocking(place, call)
        self._refuse_loop("start()")
        return self._engine.starts.start_blocking(call)

    def _thread_place(self, verb: str) -> WorkflowPlace | None:
        place = thread_place(self._engine)
        if place is None:
            self._refuse_loop(verb)
        return place

    def _refuse_loop(self, verb: str) -> None:
        if self._engine.is_loop_thread():
            raise MisuseError(
                f"{verb} of a Holdfast application was called on its own event loop; call it from a thread."
            )


class Workflow(_Workflow[P, R, C]):
    """A workflow of a ``Holdfast`` application."""

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return Handle(self._engine, self._started_blocking(self._call(args, kwargs, "start()")))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Put a run in the queue of ``options(queue_name=...)``; the handle comes back once that is durable.

        Any executor that listens to the queue and has the function begins it. ``Deduplicated`` if the queue has a run
        with the deduplication id. In a workflow the run is a child, and enqueued once.
        """
        work = self._work(args, kwargs)
        return Handle(self._engine, self._engine.enqueues.enqueue_blocking(self._thread_place("enqueue()"), work))

    def enqueue_many(self, calls: Iterable[PlannedCall[R]]) -> list[Handle[R]]:
        """Put runs in queues, thousands at once: all of them, or none if one of them is refused.

        *calls* are made with ``call()``; what one does not say by options of its own, the options here say.
        """
        works = self._works(calls)
        tickets = self._engine.enqueues.enqueue_many_blocking(self._thread_place("enqueue_many()"), works)
        return [Handle(self._engine, each) for each in tickets]

    def debounce(self, key: str, period: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a run when *period* has passed without another call with *key*; the last arguments count.

        At the latest when ``debounce_timeout``, if it was said, has passed since the first call.
        """
        work = self._work(args, kwargs, "debounce()")
        place = self._thread_place("debounce()")
        return Handle(self._engine, self._engine.enqueues.debounce_blocking(place, work, key, period))

    def enqueue_in(self, transaction: BlockingTransaction, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Put a run in a queue within a transaction of your own: neither is there without the other.

        *transaction* is one of ours, or a session or connection of SQLAlchemy, in the application's database. The run
        is begun when a process looks for work after the commit.
        """
        work = self._work(args, kwargs, "enqueue_in()")
        return Handle(self._engine, put_in_blocking(self._engine, transaction, work))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> WorkflowOfClass[P, R, C]: ...
    @overload
    def __get__(
        self: Workflow[Concatenate[T, Q], R, C], instance: T, owner: type[T] | None = None
    ) -> Workflow[Q, R, C]: ...
    @overload
    def __get__(
        self: Workflow[Concatenate[type[T], Q], R, C], instance: T, owner: type[T] | None = None
    ) -> Workflow[Q, R, C]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._get(instance, owner)


class AsyncWorkflow(_Workflow[P, R, C]):
    """A workflow of an ``AsyncHoldfast`` application."""

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return AsyncHandle(self._engine, await self._started(self._call(args, kwargs, "start()")))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Put a run in the queue of ``options(queue_name=...)``; the handle comes back once that is durable.

        Any executor that listens to the queue and has the function begins it. ``Deduplicated`` if the queue has a run
        with the deduplication id. In a workflow the run is a child, and enqueued once.
        """
        work = self._work(args, kwargs)
        return AsyncHandle(self._engine, await self._engine.enqueues.enqueue(task_place(self._engine), work))

    async def enqueue_many(self, calls: Iterable[PlannedCall[R]]) -> list[AsyncHandle[R]]:
        """Put runs in queues, thousands at once: all of them, or none if one of them is refused.

        *calls* are made with ``call()``; what one does not say by options of its own, the options here say.
        """
        tickets = await self._engine.enqueues.enqueue_many(task_place(self._engine), self._works(calls))
        return [AsyncHandle(self._engine, each) for each in tickets]

    async def debounce(self, key: str, period: Duration, /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Enqueue a run when *period* has passed without another call with *key*; the last arguments count.

        At the latest when ``debounce_timeout``, if it was said, has passed since the first call.
        """
        work = self._work(args, kwargs, "debounce()")
        place = task_place(self._engine)
        return AsyncHandle(self._engine, await self._engine.enqueues.debounce(place, work, key, period))

    async def enqueue_in(self, transaction: AwaitedTransaction, /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Put a run in a queue within a transaction of your own: neither is there without the other.

        *transaction* is one of ours, or a session or connection of SQLAlchemy, in the application's database. The run
        is begun when a process looks for work after the commit.
        """
        work = self._work(args, kwargs, "enqueue_in()")
        return AsyncHandle(self._engine, await put_in(self._engine, transaction, work))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> AsyncWorkflowOfClass[P, R, C]: ...
    @overload
    def __get__(
        self: AsyncWorkflow[Concatenate[T, Q], R, C], instance: T, owner: type[T] | None = None
    ) -> AsyncWorkflow[Q, R, C]: ...
    @overload
    def __get__(
        self: AsyncWorkflow[Concatenate[type[T], Q], R, C], instance: T, owner: type[T] | None = None
    ) -> AsyncWorkflow[Q, R, C]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._get(instance, owner)
