"""Sagas: what was done is undone, in reverse order, when a later part fails; the undoing is as durable as the doing."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from holdfast.errors import MisuseError, UndoFailed
from holdfast.serialize.exact import safe_text
from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
from holdfast.workflows.operations.branches import refuse_results
from holdfast.workflows.operations.place import WorkflowPlace, here
from holdfast.workflows.operations.stopping import as_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from holdfast.workflows.running.run import CutAt, Undoing

P = ParamSpec("P")

logger = logging.getLogger("holdfast.workflows")


class Steps(Protocol):
    """What a saga needs of its application."""

    def run_step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a step."""


class Saga:
    """A block of a workflow that is undone if it raises: ``with app.saga() as saga`` or ``async with``.

    What ``undo`` has noted is called in reverse order, each call recorded, so that a crash in the middle of the
    undoing goes on where it stopped. Then the error is raised again. Undoing goes on past an undo that fails; at the
    end ``UndoFailed`` names what was not undone, from the error that began it. A run that is cancelled undoes nothing:
    it may be resumed. A run that is tried again does an undone block anew from its first operation; after
    ``UndoFailed`` it is not tried again.
    """

    def __init__(self, app: Steps) -> None:
        self._app = app
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._cut_at: CutAt | None = None
        self._first = 0

    def undo(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Note what to call if the block fails later: a step, or a function that is then called as one.

        A workflow is run as a child, and its ``start`` and ``enqueue`` leave one behind. What is returned is dropped.
        ``MisuseError`` for what cannot be called: the result of a call that was made already, for instance.
        """
        refuse_results("undo", [function], "write `undo(cancel, flight)` in place of `undo(cancel(flight))`")
        self._undo.append((function, args, kwargs))

    def __enter__(self) -> Self:
        if inspect.iscoroutinefunction(self._app.run_step):
            raise MisuseError("What a saga of an async application undoes is awaited: write `async with app.saga()`.")
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or not _has_failed(error):
            self._tell_not_undone()
            return
        failed: list[tuple[str, Exception]] = []
        undoing = self._begin_undoing()
        while self._undo:
            function, args, kwargs = self._undo.pop()
            try:
                self._call(function, args, kwargs)
            except Exception as refused:  # noqa: BLE001 -- the step boundary: recorded, and told at the end
                failed.append((_name(function), refused))
        self._end(undoing, failed, error)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or not _has_failed(error):
            self._tell_not_undone()
            return
        failed: list[tuple[str, Exception]] = []
        undoing = self._begin_undoing()
        while self._undo:
            function, args, kwargs = self._undo.pop()
            try:
                called = self._call(function, args, kwargs)
                if inspect.isawaitable(called):
                    await called
            except Exception as refused:  # noqa: BLE001 -- the step boundary: recorded, and told at the end
                failed.append((_name(function), refused))
        self._end(undoing, failed, error)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what a workflow records by itself as it is: methods of the application, and workflows, as children."""
        owner = getattr(function, "__self__", function)
        if owner is self._app or isinstance(owner, Workflow | AsyncWorkflow):
            return function(*args, **kwargs)
        return self._app.run_step(function, *args, **kwargs)

    def _enter(self) -> None:
        place = here.get()
        if isinstance(place, WorkflowPlace) and place.run.cut_at is not None:
            self._cut_at = place.run.cut_at
            self._first = place.position_ahead()

    def _tell_not_undone(self) -> None:
        """Warn if the time of a part was over around this block: nothing in it can be recorded any more."""
        place = here.get()
        if self._undo and isinstance(place, WorkflowPlace) and place.branch.is_closed:
            logger.warning(
                "A saga of run %s was cut off by the timeout() around it and is not undone. To be undone by hand: %s. "
                "Put the timeout inside of the saga.",
                place.run.id,
                ", ".join(_name(function) for function, _, _ in reversed(self._undo)),
            )

    def _begin_undoing(self) -> Undoing | None:
        """Have a run that may be tried again know that this block is not to be kept in parts."""
        return self._cut_at.undoing(self._first) if self._undo and self._cut_at is not None else None

    def _end(self, undoing: Undoing | None, failed: list[tuple[str, Exception]], error: BaseException) -> None:
        place = here.get()
        if undoing is not None and isinstance(place, WorkflowPlace):
            undoing.ended(place.position, wholly=not failed)
        _tell(failed, error)


def _has_failed(error: BaseException) -> bool:
    """Whether what leaves a block is its failure: a block that is stopped may go on later, and is not undone."""
    place = here.get()
    if not isinstance(place, WorkflowPlace):
        return isinstance(error, Exception)
    return as_failure(place, error) is not None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _tell(failed: list[tuple[str, Exception]], error: BaseException) -> None:
    if failed:
        what = "; ".join(f"{name}: {type(refused).__name__}: {safe_text(refused)}" for name, refused in failed)
        raise UndoFailed(
            f"The saga failed with {type(error).__name__}: {safe_text(error)}, and was not wholly undone. "
            f"To be undone by hand: {what}"
        ) from error
