"""What ``@app.step`` gives back: a step that is called like the function it was."""

from __future__ import annotations

import functools
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from holdfast.workflows.declaring.names import named
from holdfast.workflows.declaring.registry import bound_to
from holdfast.workflows.operations.place import refuse_unawaited, task_place, thread_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.workflows.declaring.class_functions import StepOfClass
    from holdfast.workflows.declaring.registry import StepDefinition
    from holdfast.workflows.engine.engine import Engine

P = ParamSpec("P")
Q = ParamSpec("Q")
C = TypeVar("C")
T = TypeVar("T")


class Step(Generic[P, C]):
    """A step: in a workflow its outcome is recorded once; anywhere else calling it is a plain call."""

    def __init__(self, engine: Engine, definition: StepDefinition) -> None:
        functools.update_wrapper(self, definition.function)
        self._engine = engine
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function; recorded if this is a workflow."""
        if self.definition.is_async:
            refuse_unawaited(self._engine, self.definition, "call it by app.run_step(step, ...)")
            return cast("C", named(self._invoke(args, kwargs), self.definition.name))
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
    def __get__(self, instance: None, owner: type | None = None) -> StepOfClass[P, C]: ...
    @overload
    def __get__(self: Step[Concatenate[T, Q], C], instance: T, owner: type[T] | None = None) -> Callable[Q, C]: ...
    @overload
    def __get__(
        self: Step[Concatenate[type[T], Q], C], instance: T, owner: type[T] | None = None
    ) -> Callable[Q, C]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bound = bound_to(self.definition.binds, instance, owner)
        return self if bound is None else MethodType(self, bound)

    def __repr__(self) -> str:
        return f"<step {self.definition.name}>"


def unbound(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return a step that is a method as it was declared, with its object before *args*; anything else as it is."""
    if isinstance(function, MethodType) and isinstance(function.__func__, Step):
        return function.__func__, (function.__self__, *args)
    return function, args
