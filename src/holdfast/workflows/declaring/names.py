"""What may be the name of a function or of an object with workflows, wherever one is said; and of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

_LONGEST = 255


def check_name(name: object) -> str:
    """Return *name*; raise ``ConfigurationError`` for one that no function can be registered under."""
    if not isinstance(name, str):
        raise ConfigurationError(f"The name of a function is a text, not a {type(name).__name__}.")
    if not 0 < len(name) <= _LONGEST or '"' in name or "\\" in name or not name.isprintable():
        raise ConfigurationError(
            f"The name {name[:80]!r} cannot be recorded: use 1 to {_LONGEST} printable characters "
            "without quotation marks and backslashes."
        )
    return name


def named(call: Coroutine[Any, Any, Any], name: str) -> Coroutine[Any, Any, Any]:
    """Give a call the name of what is called, for Python's warning of a call that nobody has awaited."""
    call.__qualname__ = name  # type: ignore[attr-defined]  # what an async def makes has one
    return call


__all__ = ["check_name", "named"]
