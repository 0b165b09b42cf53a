"""Whether a call is awaited, asked once for each function that is guarded."""

from __future__ import annotations

from typing import Any

from holdfast.core.functions import makes_coroutine, makes_generator
from holdfast.errors import ConfigurationError


def is_awaited(function: Any, guard: str) -> bool:
    """Return whether a call of *function* is a coroutine; so it is of an object whose ``__call__`` is async.

    ``ConfigurationError`` for what *guard* cannot guard: a call of a generator function only makes the generator, and
    what it does comes later.
    """
    if not callable(function):
        raise ConfigurationError(
            f"{guard} guards functions, not {type(function).__name__}: put @classmethod and the like around it."
        )
    if makes_generator(function):
        raise ConfigurationError(
            f"{guard} cannot guard the generator function {name_of(function)}, whose calls do nothing yet: "
            "guard what it calls, or return a list."
        )
    return makes_coroutine(function)


def name_of(function: Any) -> str:
    """Return what *function* is called in an error."""
    return str(getattr(function, "__qualname__", repr(function)))


__all__ = ["is_awaited", "name_of"]
