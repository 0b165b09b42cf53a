"""What works on a task: a coroutine function, or a plain function, which runs in a thread; never one that yields."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import ConfigurationError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.stores.tasks.task import Task

Handler: TypeAlias = "Callable[[Task], Awaitable[Any]] | Callable[[Task], Any]"


def checked_handler(handler: Any, queue_name: str) -> Handler:
    """Return *handler*; ``ConfigurationError`` for what cannot be called, or whose calls would do nothing yet."""
    looks = _looks(handler)
    if not callable(handler):
        raise ConfigurationError(f"The handler of the queue {queue_name!r} is a function, no {type(handler).__name__}.")
    if any(inspect.isgeneratorfunction(look) or inspect.isasyncgenfunction(look) for look in looks):
        raise ConfigurationError(
            f"The handler of the queue {queue_name!r} yields, so that a call of it does nothing yet: have it return."
        )
    made: Handler = handler
    return made


def is_awaited(handler: Handler) -> bool:
    """Whether a call of *handler* is a coroutine; so it is of an object whose ``__call__`` is async."""
    return any(map(inspect.iscoroutinefunction, _looks(handler)))


async def outcome(found: Any) -> Any:
    """Return what came of a handler in a thread; it may have returned what is to be awaited, as lambdas do."""
    if inspect.isgenerator(found) or inspect.isasyncgen(found):
        raise MisuseError(
            "The handler returned a generator, which has done nothing yet: have it return when all is done."
        )
    return await found if inspect.isawaitable(found) else found


def _looks(handler: Any) -> list[Any]:
    called = handler
    while isinstance(called, functools.partial):
        called = called.func
    return [called, getattr(called, "__call__", None)]  # noqa: B004 -- an object whose call is one


__all__ = ["Handler", "checked_handler", "is_awaited", "outcome"]
