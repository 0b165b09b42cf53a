"""Whether a call is awaited, asked once for each function that is guarded."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from holdfast.errors import ConfigurationError


def is_awaited(function: Any, guard: str) -> bool:
    """Return whether a call of *function* is a coroutine; so it is of an object whose ``__call__`` is async.

    ``ConfigurationError`` for what *guard* cannot guard: a call of a generator function only makes the generator, and
    what it does comes later.
    """
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    if not callable(called):
        raise ConfigurationError(
            f"{guard} guards functions, not {type(called).__name__}: put @classmethod and the like around it."
        )
    # What is neither a function nor a class may still look like a function, as mocks do.
    looks = [called] if inspect.isroutine(called) or inspect.isclass(called) else [called, type(called).__call__]
    if any(inspect.isgeneratorfunction(look) or inspect.isasyncgenfunction(look) for look in looks):
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigurationError(
            f"{guard} cannot guard the generator function {name}, whose calls do nothing yet: "
            "guard what it calls, or return a list."
        )
    return any(map(inspect.iscoroutinefunction, looks))


__all__ = ["is_awaited"]
