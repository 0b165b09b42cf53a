"""Which texts every database keeps; those that users give as ids, keys and names are checked by it at the door."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from holdfast.errors import ConfigurationError

LONGEST_TEXT = 255  # what a column with an index holds on every database

_HAS_A_TEXT = (int, float, UUID, date)
_LAST = "\U0010ffff"
_SURROGATES = range(0xD800, 0xE000)


def is_kept(text: str) -> bool:
    """Say whether *text* has neither a NUL nor half a character in it, which one database or another refuses."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def as_text(text: str) -> str:
    """Return *text* as what it says and nothing more: a member of an enum is a text that may be written otherwise."""
    return text if type(text) is str else str.__str__(text)


def fits(text: str, longest: int = LONGEST_TEXT) -> bool:
    """Say whether *text* has something in it and fits its column on every database."""
    return 0 < len(text) <= longest and is_kept(text)


def after_prefix(prefix: str) -> str | None:
    """Return the first text, in the order of characters, after all that begin with *prefix*; None if there is none.

    So a search by prefix is a search between two texts, and has no wildcards.
    """
    for end in range(len(prefix), 0, -1):
        if prefix[end - 1] != _LAST:
            following = ord(prefix[end - 1]) + 1
            return prefix[: end - 1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def demand_text(what: str, text: object) -> str:
    """Return *text*; raise ``ConfigurationError``, which begins with *what* it is, unless it is one."""
    if not isinstance(text, str):
        instead = f": pass {str(text)!r}" if isinstance(text, _HAS_A_TEXT) else ""
        raise ConfigurationError(f"{what} is a text, not {text!r:.100}{instead}.")
    return text


def check_text(what: str, text: object, longest: int = LONGEST_TEXT) -> str:
    """Return *text*; raise ``ConfigurationError`` unless it is one, and fits its column on every database."""
    checked = demand_text(what, text)
    if not fits(checked, longest):
        raise ConfigurationError(
            f"{what} has 1 to {longest} Unicode characters and no NUL; {checked[:80]!r} has {len(checked)}."
        )
    return checked


__all__ = ["LONGEST_TEXT", "after_prefix", "as_text", "check_text", "demand_text", "fits", "is_kept"]
