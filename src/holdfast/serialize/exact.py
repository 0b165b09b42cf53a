"""Python values inside error records, tagged so that they come back as they were.

The arguments of an exception have no annotation to type them on the way back, and ``args`` of a replayed
error must be those of the live one. So what JSON cannot tell apart is written as an object with one key:
``{"$tuple": [...]}``. A member of an enum is named by its class, which is looked for among the modules that are loaded.
A text or number of a class of its own is written as what it is without that. What is not in the table is written as its
``repr`` and comes back as that text.
"""

from __future__ import annotations

import base64
import reprlib
import sys
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_DEPTH = 16
_MAX_ITEMS = 1_000
_MAX_REPR = 500


def tag(value: Any, depth: int = 0) -> Any:
    """Return *value* as JSON types; never raises."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and value.bit_length() < 4096):
        return value
    if kind is str:
        return value if _is_unicode(value) else {"$str": value.encode("unicode_escape").decode("ascii")}
    if kind is float:
        return value if isfinite(value) else {"$float": repr(value)}
    if kind in _TEXTS:
        return {f"${kind.__name__}": _TEXTS[kind](value)}
    if depth < _MAX_DEPTH and kind in (list, tuple, set, frozenset, dict) and len(value) <= _MAX_ITEMS:
        return _tag_container(value, kind, depth + 1)
    return _tag_other(value, kind, depth)


def untag(written: Any) -> Any:
    """Return the value that :func:`tag` wrote; raises some ``Exception`` for anything else."""
    if isinstance(written, list):
        return [untag(one) for one in written]
    if not isinstance(written, dict):
        return written
    if len(written) == 1 and (name := next(iter(written))) in _READERS:
        return _READERS[name](written[name])
    return {key: untag(one) for key, one in written.items()}


def safe_repr(value: object) -> str:
    """Return a short repr of *value*, whatever its ``__repr__`` does."""
    try:
        shown = reprlib.repr(value)
    except Exception:  # noqa: BLE001 -- the __repr__ is not ours
        shown = f"<{type(value).__name__}>"
    return clean(shown, _MAX_REPR)


def safe_text(error: BaseException) -> str:
    """Return what *error* says of itself, whatever its ``__str__`` does."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- the __str__ is not ours
        return f"<{type(error).__name__} whose text cannot be shown>"


def clean(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters and with lone surrogates escaped, so that it can be stored."""
    rest = len(text) - limit
    kept = text if rest <= 0 else f"{text[:limit]}… ({rest} characters more)"
    return kept.encode("utf-8", "backslashreplace").decode()


def _tag_container(value: Any, kind: type, depth: int) -> Any:
    if kind is dict:
        if all(type(key) is str and key[:1] != "$" and _is_unicode(key) for key in value):
            return {key: tag(one, depth) for key, one in value.items()}
        return {"$dict": [[tag(key, depth), tag(one, depth)] for key, one in value.items()]}
    parts = [tag(one, depth) for one in value]
    if kind is set or kind is frozenset:
        parts.sort(key=repr)  # the same text in every process, whatever the order of the set there
    return parts if kind is list else {f"${kind.__name__}": parts}


def _tag_other(value: Any, kind: type, depth: int) -> Any:
    if isinstance(value, Enum):
        return {"$enum": [kind.__module__, kind.__qualname__, value.name, tag(value.value, depth + 1)]}
    for base, plain in _BASES.items():
        if isinstance(value, base) and kind is not base:
            return tag(plain(value), depth)
    return {"$repr": safe_repr(value)}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _member(written: Any) -> Any:
    """Return a member of an enum; its bare value if the class is not loaded, or has no such member any more."""
    module, path, name, value = written
    kind: Any = sys.modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, part, None)
    plain = untag(value)
    if not isinstance(kind, type) or not issubclass(kind, Enum):
        return plain
    with suppress(Exception):  # of its _missing_; several members of a Flag together are found by their value
        return kind.__members__[name] if name in kind.__members__ else kind(plain)
    return plain


def _untag_all(written: Iterable[Any]) -> list[Any]:
    return [untag(one) for one in written]


_TEXTS: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: base64.b64encode(value).decode("ascii"),
    datetime: datetime.isoformat,
    date: date.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: lambda value: [tag(value.real), tag(value.imag)],
}

_BASES: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__index__, float: float.__float__}

_READERS: dict[str, Callable[[Any], Any]] = {
    "$str": lambda written: written.encode("ascii").decode("unicode_escape"),
    "$float": float,
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$timedelta": lambda written: timedelta(*written),
    "$Decimal": Decimal,
    "$UUID": UUID,
    "$enum": _member,
    "$complex": lambda written: complex(*_untag_all(written)),
    "$list": _untag_all,
    "$tuple": lambda written: tuple(_untag_all(written)),
    "$set": lambda written: set(_untag_all(written)),
    "$frozenset": lambda written: frozenset(_untag_all(written)),
    "$dict": lambda written: {untag(key): untag(one) for key, one in written},
    "$repr": str,
}

__all__ = ["clean", "safe_repr", "safe_text", "tag", "untag"]
