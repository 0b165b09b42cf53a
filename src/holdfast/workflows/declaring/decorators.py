"""The exact types of the decorators with options: what they make of a sync and of an async function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
    from holdfast.workflows.declaring.steps import Step

P = ParamSpec("P")
R = TypeVar("R")
F_co = TypeVar("F_co", covariant=True)  # what a fallback gives
G = TypeVar("G")
L = TypeVar("L", bound="Callable[[FailedOperationData], object]")
W = TypeVar("W", bound="Workflow[..., Any, Any] | AsyncWorkflow[..., Any, Any] | Step[..., Any]")


class WorkflowDecorator(Protocol):
    """``@app.workflow(...)`` of a ``Holdfast`` application."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Workflow[P, R, R]: ...


class AsyncWorkflowDecorator(Protocol):
    """``@app.workflow(...)`` of an ``AsyncHoldfast`` application."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncWorkflow[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncWorkflow[P, R, R]: ...


class StepDecorator(Protocol):
    """``@app.step(...)`` of both."""

    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...


class FallbackStepDecorator(Protocol[F_co]):  # type: ignore[misc]  # no variance suits its first form
    """``@app.step(fallback=...)``. What an async function gives as a fallback is awaited if the step is async too."""

    @overload
    def __call__(
        self: FallbackStepDecorator[Coroutine[Any, Any, G]], function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Step[P, Coroutine[Any, Any, R | G]]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, Coroutine[Any, Any, R | F_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R | F_co]: ...


class FallbackDecorator(Protocol[F_co]):  # type: ignore[misc]  # no variance suits its first form
    """``@app.protect(..., fallback=...)``. What an async function gives as a fallback is awaited by an async one."""

    @overload
    def __call__(
        self: FallbackDecorator[Coroutine[Any, Any, G]], function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | G]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | F_co]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | F_co]: ...


class ReplayDecorator(Protocol):
    """``@app.replay_handler(...)`` of a workflow or a step, which get arguments, or a function that gets the letter."""

    @overload
    def __call__(self, handler: W, /) -> W: ...
    @overload
    def __call__(self, handler: L, /) -> L: ...
