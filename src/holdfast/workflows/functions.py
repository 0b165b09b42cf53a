"""What the decorators give back: steps and workflows that are called like the functions they were."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from holdfast.errors import ConfigurationError, MisuseError, NotInitialized
from holdfast.model.workflow import StartOptions
from holdfast.workflows.handles import AsyncHandle, Handle
from holdfast.workflows.place import WorkflowPlace, task_place, thread_place
from holdfast.workflows.ticket import Call, Ticket

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Self

    from holdfast.workflows.engine import Engine
    from holdfast.workflows.registry import Definition, StepDefinition

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


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
        place = _of(self._engine, thread_place())
        if place is None:
            return cast("C", self.definition.function(*args, **kwargs))
        return cast("C", self._engine.durable.step_blocking(place, self.definition, args, kwargs))

    async def _invoke(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = _of(self._engine, task_place())
        if place is None:
            return await self.definition.function(*args, **kwargs)
        return await self._engine.durable.step(place, self.definition, args, kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

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

    def options(self, **options: Any) -> Self:
        """Return a copy that starts its runs with these options: ``workflow_id``, ``timeout``, ``attributes`` ...

        See ``StartOptions`` for all of them.
        """
        try:
            chosen = replace(self._options, **options)
        except TypeError as error:
            raise ConfigurationError(f"{error}: the options are {', '.join(StartOptions.__slots__)}.") from None
        return self._copy(chosen, self._instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self._engine.registry.classes[owner.__qualname__] = owner

    def __get__(self, instance: object | None, owner: type | None = None) -> Self:
        bound = owner if self.definition.binds == "class" else instance if self.definition.binds == "instance" else None
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
        if self.definition.binds == "instance":
            self._engine.registry.check_instance(self._instance, self.definition.name)
        return Call(self.definition, self._instance, args, kwargs, self._options)

    async def _run(self, call: Call) -> Any:
        engine = self._engine
        place = _of(engine, task_place())
        if place is not None:
            ticket = await engine.durable.start_child(place, call, here=True)
            return await engine.durable.result(place, ticket)
        outcome = await _on_engine(engine, engine.start_and_wait(call))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def _run_blocking(self, call: Call) -> Any:
        engine = self._engine
        place = _of(engine, thread_place())
        if place is not None:
            return engine.durable.result_blocking(place, engine.durable.start_child_blocking(place, call, here=True))
        if engine.is_loop_thread():
            raise MisuseError(
                f"The sync workflow {self.definition.name!r} was called on the event loop, which it would block; "
                "await its start() and the handle."
            )
        outcome = engine.wait_blocking(engine.start_blocking(call, here=True))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def _started(self, call: Call) -> Ticket:
        place = _of(self._engine, task_place())
        if place is not None:
            return await self._engine.durable.start_child(place, call)
        return await self._engine.start(call)

    def _started_blocking(self, call: Call) -> Ticket:
        place = _of(self._engine, thread_place())
        if place is not None:
            return self._engine.durable.start_child_blocking(place, call)
        if self._engine.is_loop_thread():
            raise MisuseError(
                "start() of a Holdfast application was called on its own event loop; call it from a thread."
            )
        return self._engine.start_blocking(call)


class Workflow(_Workflow[P, R, C]):
    """A workflow of a ``Holdfast`` application."""

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return Handle(self._engine, self._started_blocking(self._call(args, kwargs)))


class AsyncWorkflow(_Workflow[P, R, C]):
    """A workflow of an ``AsyncHoldfast`` application."""

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Start a run in the background; the handle comes back once the start is durable."""
        return AsyncHandle(self._engine, await self._started(self._call(args, kwargs)))


def _of(engine: Engine, place: WorkflowPlace | None) -> WorkflowPlace | None:
    """Return *place* if it belongs to a run of *engine*: what another application's workflow calls is a plain call."""
    return place if place is not None and place.run.engine is engine else None


async def _on_engine(engine: Engine, work: Coroutine[Any, Any, Any]) -> Any:
    """Await *work* on the engine's loop, from whatever loop this is."""
    if engine.is_loop_thread():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, engine.loop()))
