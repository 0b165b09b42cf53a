"""Sagas: what was done is undone, in reverse order, when a later part fails; the undoing is as durable as the doing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from holdfast.errors import UndoFailed
from holdfast.serialize.exact import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

P = ParamSpec("P")

logger = logging.getLogger("holdfast.workflows")


class Steps(Protocol):
    """What a saga needs of its application."""

    def run_step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a step."""


class Saga:
    """A block of a workflow that is undone if it raises: ``with app.saga() as saga`` or ``async with``.

    What ``undo`` has noted is called in reverse order, each call a recorded step, so that a crash in the middle of the
    undoing goes on where it stopped. Then the error is raised again. Undoing goes on past an undo that fails; at the
    end ``UndoFailed`` names what was not undone, from the error that began it. A run that is cancelled undoes nothing:
    it may be resumed.
    """

    def __init__(self, app: Steps) -> None:
        self._app = app
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def undo(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Note what to call if the block fails later: a step, or a function that is then called as one."""
        self._undo.append((function, args, kwargs))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        failed: list[tuple[str, Exception]] = []
        while self._undo:
            function, args, kwargs = self._undo.pop()
            try:
                self._app.run_step(function, *args, **kwargs)
            except Exception as refused:  # noqa: BLE001 -- the step boundary: recorded, and told at the end
                failed.append((_name(function), refused))
        _tell(failed, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        failed: list[tuple[str, Exception]] = []
        while self._undo:
            function, args, kwargs = self._undo.pop()
            try:
                await self._app.run_step(function, *args, **kwargs)
            except Exception as refused:  # noqa: BLE001 -- the step boundary: recorded, and told at the end
                failed.append((_name(function), refused))
        _tell(failed, error)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _tell(failed: list[tuple[str, Exception]], error: Exception) -> None:
    if failed:
        what = "; ".join(f"{name}: {type(refused).__name__}: {safe_text(refused)}" for name, refused in failed)
        raise UndoFailed(
            f"The saga failed with {type(error).__name__}: {safe_text(error)}, and was not wholly undone. "
            f"To be undone by hand: {what}"
        ) from error
