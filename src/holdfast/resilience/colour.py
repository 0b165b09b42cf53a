"""What a call of a function makes: its result, a coroutine or a generator; asked once for each function."""

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
    called = _called(function)
    if not callable(called):
        raise ConfigurationError(
            f"{guard} guards functions, not {type(called).__name__}: put @classmethod and the like around it."
        )
    if is_generator(function):
        raise ConfigurationError(
            f"{guard} cannot guard the generator function {name_of(function)}, whose calls do nothing yet: "
            "guard what it calls, or return a list."
        )
    return any(map(inspect.iscoroutinefunction, _looks(called)))


def is_generator(function: Any) -> bool:
    """Return whether a call of *function* makes a generator, which does nothing before somebody goes through it."""
    looks = _looks(_called(function))
    return any(inspect.isgeneratorfunction(look) or inspect.isasyncgenfunction(look) for look in looks)


def name_of(function: Any) -> str:
    """Return what *function* is called in an error."""
    return str(getattr(function, "__qualname__", repr(function)))


def _called(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _looks(called: Any) -> list[Any]:
    """Return what is called: what is neither a function nor a class may still look like a function, as mocks do."""
    return [called] if inspect.isroutine(called) or inspect.isclass(called) else [called, type(called).__call__]


__all__ = ["is_awaited", "is_generator", "name_of"]
