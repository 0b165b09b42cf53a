"""Calling a user's sync function from a task, on a thread."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

P = ParamSpec("P")
T = TypeVar("T")


def on_thread(
    pool: Executor | None, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> asyncio.Future[T]:
    """Call *function* on a thread of *pool*, by default the loop's, in a copy of this context; return its future.

    The thread goes on to its end whatever becomes of the future. ``StopIteration``, ``GeneratorExit``,
    ``SystemExit`` and ``KeyboardInterrupt`` come back as the cause of a ``RuntimeError``: no future takes the first, so
    that whoever waits for it would wait for ever; the second would close the coroutines of those who wait, which then
    cannot give back what they hold; the others would end the loop and all that goes on in it.
    """
    call = contextvars.copy_context().run
    return asyncio.get_running_loop().run_in_executor(pool, lambda: call(called, function, *args, **kwargs))


def called(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *function*, and turn what no task may get from a thread into ``RuntimeError``."""
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt) as error:
        name = getattr(function, "__qualname__", repr(function))
        raise RuntimeError(f"{name} raised {type(error).__name__} on a thread: {error}") from error


__all__ = ["called", "on_thread"]
