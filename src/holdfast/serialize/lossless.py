"""Python values as JSON that come back as they were, without annotations to type them.

What JSON cannot tell apart is an object with one key: ``{"$tuple": [...]}``. Dataclasses, pydantic models and enums
are named by their class, ``{"$dataclass": ["module:Class", {...}]}``, which is looked for among the modules that are
loaded: reading imports nothing. What cannot be kept is refused with its path.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from holdfast.errors import CannotDeserialize, CannotSerialize
from holdfast.serialize.failure import decode_error, encode_error

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 128
_LARGEST = 2**63
_SHOWN = 100
_LEAVES = frozenset({str, bool, type(None)})


def dump(value: Any) -> bytes:
    """Return *value* as JSON. Raises ``CannotSerialize`` with the path of what cannot be kept."""
    if _is_plain(value, 1):
        with suppress(UnicodeEncodeError):  # which part it is, the careful way says
            return msgspec.json.encode(value)
    return msgspec.json.encode(_tag(value, "$", 1))


def load(text: bytes | str) -> Any:
    """Return the value that :func:`dump` wrote. Raises ``CannotDeserialize`` for anything else."""
    written = text if isinstance(text, bytes) else text.encode()
    try:
        decoded = msgspec.json.decode(written)
        return _untag(decoded) if b'"$' in written else decoded
    except CannotDeserialize:
        raise
    except Exception as error:  # a damaged text, or a class that does not take its own fields
        raise CannotDeserialize(f"The stored value cannot be read: {error}") from error


def _is_plain(value: Any, depth: int) -> bool:
    """Say whether JSON itself keeps *value*; the common case, which is then written without a copy."""
    kind = type(value)
    if kind is dict:
        parts = value.values()
        if not all(type(key) is str and key[:1] != "$" for key in value):
            return False
    elif kind is list:
        parts = value
    else:
        return _is_plain_leaf(value, kind)
    if depth > MAX_DEPTH:
        return False
    for part in parts:
        kind = type(part)
        if kind is dict or kind is list:
            if not _is_plain(part, depth + 1):
                return False
        elif kind not in _LEAVES and not _is_plain_leaf(part, kind):
            return False
    return True


def _is_plain_leaf(value: Any, kind: type) -> bool:
    if kind is int:
        return bool(-_LARGEST <= value < _LARGEST)
    return isfinite(value) if kind is float else kind in _LEAVES


def _tag(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if _is_plain_leaf(value, kind):
        return value
    if depth > MAX_DEPTH:
        raise CannotSerialize(f"{path[:_SHOWN]}…: the value is nested more than {MAX_DEPTH} deep, or holds itself.")
    if kind in _TEXTS:
        return {f"${kind.__name__}": _TEXTS[kind](value)}
    if kind is dict:
        return _tag_dict(value, path, depth)
    if kind in (list, tuple, set, frozenset):
        parts = [_tag(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(value)]
        if kind is set or kind is frozenset:
            parts.sort(key=repr)  # the same text in every process, whatever the order of the set there
        return parts if kind is list else {f"${kind.__name__}": parts}
    return _tag_object(value, kind, path, depth)


def _text(value: str, path: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CannotSerialize(f"{path}: the text is not Unicode: {error.reason}.") from None
    return value


def _tag_dict(value: dict[Any, Any], path: str, depth: int) -> Any:
    if all(type(key) is str and key[:1] != "$" for key in value):
        return {_text(key, path): _tag(part, f"{path}.{key}", depth + 1) for key, part in value.items()}
    return {
        "$dict": [
            [_tag(key, f"{path}: the key {key!r}", depth + 1), _tag(part, f"{path}[{key!r}]", depth + 1)]
            for key, part in value.items()
        ]
    }


def _tag_object(value: Any, kind: type, path: str, depth: int) -> Any:
    if isinstance(value, Enum):
        return {"$enum": [_named(kind, path), value.name]}
    if isinstance(value, BaseException):
        return {"$error": msgspec.json.decode(encode_error(value))}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kept = {name: _tag(part, f"{path}.{name}", depth + 1) for name, part in fields.items()}
        return {"$dataclass": [_named(kind, path), kept]}
    if (names := getattr(kind, "model_fields", None)) is not None and hasattr(kind, "model_construct"):
        kept = {name: _tag(getattr(value, name), f"{path}.{name}", depth + 1) for name in names}
        return {"$model": [_named(kind, path), kept]}
    raise CannotSerialize(
        f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be kept. "
        "Give it fields (a dataclass, a pydantic model), or keep the parts that matter."
    )


def _named(kind: type, path: str) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _find(name) is not kind:
        raise CannotSerialize(f"{path}: {name} is not found by its name; define the class at the top of a module.")
    return name


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _untag(written: Any) -> Any:
    if isinstance(written, list):
        return [_untag(part) for part in written]
    if not isinstance(written, dict):
        return written
    if len(written) == 1 and (name := next(iter(written))) in _READERS:
        return _READERS[name](written[name])
    return {key: _untag(part) for key, part in written.items()}


def _object(written: Any) -> Any:
    name, fields = written
    kind: Any = _class_of(name)
    values = {key: _untag(part) for key, part in fields.items()}
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**values)
    made: Any = object.__new__(kind)  # as it was, without its __init__ and what that would do a second time
    for key, value in values.items():
        object.__setattr__(made, key, value)
    return made


def _class_of(name: str) -> Any:
    kind = _find(name)
    is_ours = isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, Enum) or hasattr(kind, "model_construct")
    )
    if not is_ours:
        raise CannotDeserialize(
            f"The stored value has a {name.replace(':', '.')}, which is not loaded here. Import its module first."
        )
    return kind


def _many(written: Any) -> list[Any]:
    return [_untag(part) for part in written]


_TEXTS: dict[type, Callable[[Any], Any]] = {
    int: str,
    float: repr,
    bytes: lambda value: base64.b64encode(value).decode("ascii"),
    bytearray: lambda value: base64.b64encode(value).decode("ascii"),
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: lambda value: [repr(value.real), repr(value.imag)],
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$float": float,
    "$bytes": base64.b64decode,
    "$bytearray": lambda written: bytearray(base64.b64decode(written)),
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda written: timedelta(*written),
    "$Decimal": Decimal,
    "$UUID": UUID,
    "$complex": lambda written: complex(float(written[0]), float(written[1])),
    "$tuple": lambda written: tuple(_many(written)),
    "$set": lambda written: set(_many(written)),
    "$frozenset": lambda written: frozenset(_many(written)),
    "$dict": lambda written: {_untag(key): _untag(part) for key, part in written},
    "$enum": lambda written: _class_of(written[0])[written[1]],
    "$dataclass": _object,
    "$model": _object,
    "$error": lambda written: decode_error(msgspec.json.encode(written).decode()),
}

__all__ = ["MAX_DEPTH", "dump", "load"]
