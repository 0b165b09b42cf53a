"""What stands behind a callable, whose annotations count, and what a call of it makes."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def plain_function(called: Any) -> Any:
    """Return the function behind decorators, methods, partials, and objects that can be called.

    A class, and what is not written in Python, is returned as it is.
    """
    while True:
        called = inspect.unwrap(called)
        if isinstance(called, functools.partial):
            called = called.func
        elif inspect.ismethod(called):
            called = called.__func__
        elif inspect.isroutine(called) or isinstance(called, type) or not callable(called):
            return called
        else:
            called = type(called).__call__


def makes_coroutine(called: Any) -> bool:
    """Whether a call makes a coroutine; so it does of an object whose ``__call__`` is async.

    What stands behind a decorator does not count: it may await for its caller.
    """
    return any(map(inspect.iscoroutinefunction, _looks(called)))


def makes_generator(called: Any) -> bool:
    """Whether a call makes a generator, which does nothing before somebody goes through it."""
    return any(inspect.isgeneratorfunction(look) or inspect.isasyncgenfunction(look) for look in _looks(called))


def _looks(called: Any) -> list[Any]:
    """Return what is called: what is neither a function nor a class may still look like a function, as mocks do."""
    while isinstance(called, functools.partial):
        called = called.func
    if inspect.isroutine(called) or isinstance(called, type) or not callable(called):
        return [called]
    return [called, type(called).__call__]


__all__ = ["makes_coroutine", "makes_generator", "plain_function"]
