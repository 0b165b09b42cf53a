"""What works on a task: a coroutine function, or a plain function, which runs in a thread; never one that yields."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.functions import makes_generator
from holdfast.errors import ConfigurationError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.stores.tasks.task import Task

Handler: TypeAlias = "Callable[[Task], Awaitable[Any]] | Callable[[Task], Any]"


def checked_handler(handler: Any, queue_name: str) -> Handler:
    """Return *handler*; ``ConfigurationError`` for what cannot be called, or whose calls would do nothing yet."""
    if not callable(handler):
        raise ConfigurationError(f"The handler of the queue {queue_name!r} is a function, no {type(handler).__name__}.")
    if makes_generator(handler):
        raise ConfigurationError(
            f"The handler of the queue {queue_name!r} yields, so that a call of it does nothing yet: have it return."
        )
    made: Handler = handler
    return made


async def outcome(found: Any) -> Any:
    """Return what came of a handler in a thread; it may have returned what is to be awaited, as lambdas do."""
    if inspect.isgenerator(found) or inspect.isasyncgen(found):
        raise MisuseError(
            "The handler returned a generator, which has done nothing yet: have it return when all is done."
        )
    return await found if inspect.isawaitable(found) else found


__all__ = ["Handler", "checked_handler", "outcome"]
