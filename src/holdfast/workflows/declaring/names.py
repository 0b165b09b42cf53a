"""What may be the name of a function or of an object with workflows, wherever one is said."""

from __future__ import annotations

from holdfast.errors import ConfigurationError

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


__all__ = ["check_name"]
