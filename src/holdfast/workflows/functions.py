"""What the decorators give back: steps and workflows that are called like the functions they were."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from holdfast.errors import ConfigurationError, MisuseError, NotInitialized
from holdfast.model.workflow import Duration, StartOptions
from holdfast.workflows.handles import AsyncHandle, Handle
from holdfast.workflows.place import task_place, thread_place
from holdfast.workflows.ticket import Call, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Literal, Self

    from holdfast.workflows.engine import Engine
    from holdfast.workflows.registry import Binds, Definition, StepDefinition

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")

_POLICIES = ("reject", "return_existing")


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


class Step(Generic[P, C]):
    """A step: in a workflow its outcome is recorded once; anywhere else calling it is a plain call."""

    def __init__(self, engine: Engine, definition: StepDefinition) -> None:
        functools.update_wrapper(self, definition.function)
        self._engine = engine
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function; recorded if this is a workflow."""
        if self.definition.is_async:
            return cast("C", self._invoke(args, kwargs))
        place = thread_place(self._engine)
        if place is None:
            return cast("C", self.definition.function(*args, **kwargs))
        return cast("C", self._engine.durable.step_blocking(place, self.definition, args, kwargs))

    async def _invoke(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = task_place(self._engine)
        if place is None:
            return await self.definition.function(*args, **kwargs)
        return await self._engine.durable.step(place, self.definition, args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> _StepOfClass[P, C]: ...
    @overload
    def __get__(self: Step[Concatenate[T, Q], C], instance: T, owner: type[T] | None = None) -> Callable[Q, C]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bound = _bound(self.definition.binds, instance, owner)
        return self if bound is None else MethodType(self, bound)

    def __repr__(self) -> str:
        return f"<step {self.definition.name}>"


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
        self._options = options or StartOptions()
        self._instance = instance
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Run durably and return the value: of a sync function here, of an async one when awaited."""
        call = self._call(args, kwargs)
        if self.definition.is_async:
            return cast("C", self._run(call))
        return cast("C", self._run_blocking(call))

    def options(self, **options: Unpack[Options]) -> Self:
        """Return a copy that starts its runs with these options: ``workflow_id``, ``timeout``, ``attributes`` ...

        See ``StartOptions`` for all of them.
        """
        try:
            chosen = replace(self._options, **options)
        except TypeError as error:
            raise ConfigurationError(f"{error}: the options are {', '.join(StartOptions.__slots__)}.") from None
        if chosen.on_conflict not in _POLICIES:
            raise ConfigurationError(f"on_conflict may be {' or '.join(_POLICIES)}, not {chosen.on_conflict!r}.")
        return self._copy(chosen, self._instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self._engine.registry.classes.add(owner)

    def _get(self, instance: Any, owner: type | None) -> Any:
        bound = _bound(self.definition.binds, instance, owner)
        return self if bound is None else self._copy(self._options, bound)

    def __repr__(self) -> str:
        return f"<workflow {self.definition.name}>"

    def _copy(self, options: StartOptions, instance: Any) -> Self:
        return type(self)(self._engine, self.definition, options=options, instance=instance)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if not self._engine.launched:
            raise NotInitialized(
                f"The workflow {self.definition.name!r} was called before launch(); use the app in a with block."
            )
        instance = self._instance
        if self.definition.binds == "instance":
            self._engine.registry.check_instance(instance, self.definition.name)
        if self.definition.binds == "class" and instance is None:
            raise ConfigurationError(
                f"The workflow {self.definition.name!r} does not see its class: put @app.workflow above @classmethod."
            )
        return Call(self.definition, instance, args, kwargs, self._options)

    async def _run(self, call: Call) -> Any:
        engine = self._engine
        place = task_place(engine)
        if place is not None:
            ticket = await engine.durable.start_child(place, call)
            return await engine.durable.result(place, ticket)
        outcome = await _on_engine(engine, engine.starts.start_and_wait(call))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

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
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def _started(self, call: Call) -> Ticket:
        place = task_place(self._engine)
        if place is not None:
            return await self._engine.durable.start_child(place, call)
        return await self._engine.starts.start(call)

    def _started_blocking(self, call: Call) -> Ticket:
        place = thread_place(self._engine)
        if place is not None:
            return self._engine.durable.start_child_blocking(place, call)
        if self._engine.is_loop_thread():
            raise MisuseError(
                "start() of a Holdfast application was called on its own event loop; call it from a thread."
            )
        return self._engine.starts.start_blocking(call)


class Workflow(_Workflow[P, R, C]):
    """A workflow of a ``Holdfast`` application."""

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return Handle(self._engine, self._started_blocking(self._call(args, kwargs)))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> _WorkflowOfClass[P, R, C]: ...
    @overload
    def __get__(
        self: Workflow[Concatenate[T, Q], R, C], instance: T, owner: type[T] | None = None
    ) -> Workflow[Q, R, C]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._get(instance, owner)


class AsyncWorkflow(_Workflow[P, R, C]):
    """A workflow of an ``AsyncHoldfast`` application."""

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return AsyncHandle(self._engine, await self._started(self._call(args, kwargs)))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> _AsyncWorkflowOfClass[P, R, C]: ...
    @overload
    def __get__(
        self: AsyncWorkflow[Concatenate[T, Q], R, C], instance: T, owner: type[T] | None = None
    ) -> AsyncWorkflow[Q, R, C]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._get(instance, owner)


def _bound(binds: Binds, instance: Any, owner: type | None) -> Any:
    """Return what a method is bound to: its object, its class, or None for a function."""
    if binds == "class":
        return owner if owner is not None else type(instance)
    return instance if binds == "instance" else None


async def _on_engine(engine: Engine, work: Coroutine[Any, Any, Any]) -> Any:
    """Await *work* on the engine's loop, from whatever loop this is."""
    if engine.is_loop_thread():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, engine.loop()))


if TYPE_CHECKING:
    # How type checkers see a static or class method that is reached through its class: with its parameters as they
    # are, or without the class. mypy cannot tell one from the other, and so takes whichever fits the call.

    class _StepOfClass(Step[P, C]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
        @overload
        def __call__(self: _StepOfClass[Concatenate[type[Any], Q], C], *args: Q.args, **kwargs: Q.kwargs) -> C: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    class _WorkflowOfClass(Workflow[P, R, C]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
        @overload
        def __call__(
            self: _WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
        ) -> C: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        @overload
        def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
        @overload
        def start(
            self: _WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
        ) -> Handle[R]: ...
        def start(self, *args: Any, **kwargs: Any) -> Any: ...

    class _AsyncWorkflowOfClass(AsyncWorkflow[P, R, C]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
        @overload
        def __call__(
            self: _AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
        ) -> C: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        @overload
        async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
        @overload
        async def start(
            self: _AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
        ) -> AsyncHandle[R]: ...
        async def start(self, *args: Any, **kwargs: Any) -> Any: ...
