"""Whether two calls are the same: a digest of what is called and of its arguments, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from holdfast.serialize.models import encode_by_name
from holdfast.serialize.sets import are_in_order

_NO_JSON = (TypeError, ValueError, ArithmeticError)  # UnicodeEncodeError is among them, and OverflowError
_LARGEST = 64  # bits; the interpreter refuses to write very long numbers in decimal digits


def digest(name: str, parameters: dict[str, Any]) -> str:
    """Return SHA-256 digits of a call of *name*. A part that has no JSON form counts by the name of its class."""
    call = (name, parameters)
    try:
        data = encode_by_name(call)
        is_settled = are_in_order(call, data)
    except _NO_JSON:
        is_settled = False
    if not is_settled:
        data = encode_by_name(_plain(call))
    return hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    """Return a *value* that JSON does not take, in parts that it takes; sets and dicts in an order of their own.

    Such are dict keys that are no text, sets of what has no order, halves of characters, and very large numbers.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, int) and value.bit_length() > _LARGEST:
        return hex(value)
    if isinstance(value, Mapping):
        return sorted(([_plain(key), _plain(part)] for key, part in value.items()), key=encode_by_name)
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=encode_by_name)
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    kind = type(value)
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    if names:
        return [kind.__qualname__, [[name, _plain(getattr(value, name, None))] for name in names]]
    try:
        encode_by_name(value)
    except _NO_JSON:
        return kind.__qualname__
    return value


__all__ = ["digest"]
