"""What stands behind a callable: the function whose code runs, and whose annotations count."""

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


__all__ = ["plain_function"]
