"""What is let in: values that every backend keeps as they are, or an error that names the part that does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core import numbers
from holdfast.core.texts import as_text, is_kept
from holdfast.errors import CannotSerialize, TooLong
from holdfast.model.dead_letter import FailedOperationStatus
from holdfast.serialize import PortableJSON
from holdfast.stores.moments import checked_datetime, in_utc

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

LONGEST_WORD = 255  # characters of what is searched for
_format = PortableJSON()
_STATUSES = frozenset(FailedOperationStatus)
_MOST_RETRIES = 1_000_000_000  # so that no retry is ever one too many for its column
_NUMBERS = range(-(2**63), 2**63)


def word(value: str, what: str) -> str:
    """Return *value*, by which records are found; ``TooLong``, ``ValueError`` or ``TypeError`` if it cannot be kept."""
    if not isinstance(value, str):
        raise TypeError(f"The {what} of a dead letter is text, not {type(value).__name__}.")
    if len(value) > LONGEST_WORD:
        raise TooLong(f"The {what} of a dead letter has {len(value)} characters, the longest may have {LONGEST_WORD}.")
    if "\0" in value or (not value.isascii() and text(value) != value):
        raise ValueError(f"The {what} of a dead letter has a NUL or half a character in it, which no database keeps.")
    return as_text(value)


def text(value: str, what: str = "error") -> str:
    """Return *value* with the characters replaced that no database keeps: an error must not be lost for their sake."""
    if not isinstance(value, str):
        raise TypeError(f"The {what} of a dead letter is text, not {type(value).__name__}.")
    if value.isascii() and "\0" not in value:
        return as_text(value)
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def status(value: str) -> str:
    """Return *value* if it is a status; ``ValueError`` if it is not."""
    if value not in _STATUSES:
        raise ValueError(f"There is no status {value!r}; there are {', '.join(FailedOperationStatus)}.")
    return as_text(value)


def number(value: int | None, what: str) -> int | None:
    """Return *value* if it fits into 64 bits; ``ValueError`` if not."""
    return None if value is None else numbers.number(value, what)


def count(value: int, what: str) -> int:
    """Return *value* if it is a number that can be counted to; ``ValueError`` if not."""
    return numbers.count(value, what)


def retries(value: int, what: str) -> int:
    """Return *value* if an operation may be tried so often; ``ValueError`` if not."""
    return numbers.count(value, what, most=_MOST_RETRIES)


def cap(value: int, what: str) -> int:
    """Return a number that retries are to stay below; one that none comes near is as good as the greatest of them."""
    if type(value) is not int:
        raise ValueError(f"{what} is a whole number, not {value!r:.50}.")
    return max(0, min(value, numbers.MOST_COUNTED))


def can_be(**words: str | None) -> bool:
    """Whether a record can have these words, as far as they are given; ``TypeError`` for one that is no text.

    What no database keeps is nowhere. And a number is not let through: to MariaDB, 0 is every text.
    """
    for what, value in words.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"The {what} of a dead letter is text, not {type(value).__name__}.")
    return all(value is None or is_kept(value) for value in words.values())


def meant(value: str, what: str) -> str:
    """Return a word that says what is meant; ``TypeError`` for None, which elsewhere stands for all there are."""
    if not isinstance(value, str):
        raise TypeError(f"The {what} of a dead letter is text, not {type(value).__name__}: say which is meant.")
    return value


def several(ids: Iterable[str]) -> list[str]:
    """Return ids, each once; ``TypeError`` for a single one, whose characters are none."""
    if isinstance(ids, str | bytes):
        raise TypeError(f"ids are several, in a list, not {type(ids).__name__}: pass [id] for a single one.")
    return list(dict.fromkeys(ids))


def moment(value: datetime, what: str) -> datetime:
    """Return *value* in UTC; ``TypeError`` if it is no datetime, ``ValueError`` if it has no time zone."""
    if checked_datetime(value, f"The {what}").utcoffset() is None:
        raise ValueError(f"The {what} needs a time zone: {value.isoformat()} could be any hour of the day.")
    return in_utc(value, f"The {what}")


def moment_or_none(value: datetime | None, what: str) -> datetime | None:
    """Return *value* in UTC, as ``moment`` does, if it is given."""
    return None if value is None else moment(value, what)


def json(value: Any, what: str) -> Any:
    """Return what comes back of *value* when it is read again; ``CannotSerialize`` names the part that does not fit."""
    if type(value) is dict and _is_flat(value):
        return value.copy()
    try:
        return _format.deserialize(_format.serialize(value))
    except CannotSerialize as error:
        raise CannotSerialize(f"{what}: {error}") from None


def _is_flat(value: dict[Any, Any]) -> bool:
    """Whether a mapping is of words to plain values, as most are: then it comes back as it is."""
    for name, part in value.items():
        if type(name) is not str or not name.isascii():
            return False
        kind = type(part)
        if not ((kind is str and part.isascii()) or (kind is int and part in _NUMBERS) or kind is bool or part is None):
            return False
    return True


def mapping(value: dict[str, Any] | None, what: str) -> dict[str, Any]:
    """Return a mapping as ``json`` does; empty if it is None. ``TypeError`` for what is none."""
    if not value:
        return {}
    plain = json(value, what)
    if type(plain) is not dict:
        raise TypeError(
            f"The {what} of a dead letter is a dict, not {type(value).__name__}: give it a name in one, or make it the "
            "payload, which may be any JSON."
        )
    return plain


__all__ = [
    "can_be",
    "cap",
    "count",
    "json",
    "mapping",
    "meant",
    "moment",
    "moment_or_none",
    "number",
    "retries",
    "several",
    "status",
    "text",
    "word",
]
