"""What may be the key of a stored thing, the same on every backend."""

from __future__ import annotations

from holdfast.core.texts import as_text, is_kept
from holdfast.errors import InvalidKey, TooLong

LONGEST_KEY = 512  # characters; the shortest index of the three databases holds as many of any kind


def checked_key(key: str, what: str) -> str:
    """Return *key* if every backend can keep it; raise ``InvalidKey`` or ``TooLong`` if not. It is never cut."""
    if not isinstance(key, str):
        raise TypeError(f"The {what} is text, not {type(key).__name__}.")
    if not key:
        raise InvalidKey(f"The {what} is empty: it names something, so it has at least one character.")
    if len(key) > LONGEST_KEY:
        raise TooLong(f"The {what} has {len(key)} characters, the longest may have {LONGEST_KEY}: store a hash of it.")
    if not is_kept(key):
        raise InvalidKey(f"The {what} has a NUL character or half a character in it, which no database keeps.")
    return as_text(key)


__all__ = ["LONGEST_KEY", "checked_key"]
