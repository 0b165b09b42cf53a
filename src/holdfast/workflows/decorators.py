"""The exact types of the decorators with options: what they make of a sync and of an async function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.workflows.functions import AsyncWorkflow, Step, Workflow

P = ParamSpec("P")
R = TypeVar("R")


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
