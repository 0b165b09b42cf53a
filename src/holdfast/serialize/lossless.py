"""Python values as JSON that come back as they were, without annotations to type them.

What JSON cannot tell apart is an object with one key: ``{"$tuple": [...]}``. Dataclasses, pydantic models, named tuples
and enums are named by their class, ``{"$dataclass": ["module:Class", {...}]}``, which is looked for among the modules
that are loaded: reading imports nothing. What cannot be kept is refused with its path.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import cached_property
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from holdfast.errors import CannotDeserialize, CannotSerialize
from holdfast.serialize.failure import decode_error, encode_error
from holdfast.serialize.models import is_model, model_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 128
_LARGEST = 2**63
_SHOWN = 100
_LARGE = 4096  # bytes of a text that is worth reading in parts
_TEXT = frozenset({str})
_CONTAINERS = frozenset({dict, list})
_PLAIN = frozenset({dict, list, int, float, str, bool, type(None)})


def dump(value: Any) -> bytes:
    """Return *value* as JSON. Raises ``CannotSerialize`` with the path of what cannot be kept."""
    try:
        return msgspec.json.encode(_Tagger().tag(value))
    except UnicodeEncodeError:  # somewhere in what was passed as it is; the careful way says where
        return msgspec.json.encode(_Tagger(careful=True).tag(value))


def load(text: bytes | str) -> Any:
    """Return the value that :func:`dump` wrote. Raises ``CannotDeserialize`` for anything else."""
    try:
        return _read(text if isinstance(text, bytes) else text.encode())
    except CannotDeserialize:
        raise
    except Exception as error:  # a damaged text, or a class that does not take its own fields
        raise CannotDeserialize(f"The stored value cannot be read: {error}") from error


def _read(written: bytes | msgspec.Raw) -> Any:
    """Read a text, its large parts one by one: those without a marker are left to the decoder, which is far quicker."""
    text = bytes(written)
    if b'"$' not in text:
        return msgspec.json.decode(text)
    if len(text) > _LARGE and text[:1] == b"{":
        parts = _decode_object(text)
        if len(parts) > 1 or not parts.keys() <= _READERS.keys():
            return {key: _read(part) for key, part in parts.items()}
    if len(text) > _LARGE and text[:1] == b"[":
        return [_read(part) for part in _decode_array(text)]
    return _untag(msgspec.json.decode(text))


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _is_plain(value: Any, depth: int = 1) -> bool:
    """Say whether JSON itself keeps *value*; the common case, which is then written without a copy.

    It is looked at level by level, all values of a level at once, so that the interpreter's own loops do the work.
    """
    level = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds <= _PLAIN or not _are_plain_numbers(level, kinds):
            return False
        dicts = [part for part in level if type(part) is dict] if dict in kinds else []
        lists = [part for part in level if type(part) is list] if list in kinds else []
        # All of them: a member of an enum that equals a text of another dictionary is not among those that differ.
        if not set(map(type, chain.from_iterable(dicts))) <= _TEXT:
            return False
        if any(key[:1] == "$" for key in set(chain.from_iterable(dicts))):
            return False
        if depth > MAX_DEPTH and (dicts or lists):
            return False
        once = {id(part): part for part in dicts}.values(), {id(part): part for part in lists}.values()
        level = list(chain.from_iterable(chain(map(dict.values, once[0]), once[1])))
        depth += 1
    return True


def _are_plain_numbers(values: list[Any], kinds: set[type]) -> bool:
    """Say whether JSON keeps the numbers among *values*, which are of these *kinds*."""
    if int in kinds:
        numbers = [value for value in values if type(value) is int]
        if min(numbers) < -_LARGEST or max(numbers) >= _LARGEST:
            return False
    return float not in kinds or all(map(isfinite, [value for value in values if type(value) is float]))


class _Tagger:
    """Puts markers where JSON would lose something. What JSON keeps is passed as it is, unless one is *careful*."""

    def __init__(self, *, careful: bool = False) -> None:
        self._careful = careful
        self._above: set[int] = set()

    def tag(self, value: Any, path: str = "$", depth: int = 1) -> Any:
        kind = type(value)
        if kind is str:
            return _text(value, path)
        if kind in _PLAIN and not value:  # None, false, zero, or a container with nothing in it
            return value
        if kind in _PLAIN and not (self._careful and kind in _CONTAINERS) and _is_plain(value, depth):
            return value
        if kind in _TEXTS:
            return {f"${kind.__name__}": _TEXTS[kind](value)}
        if depth > MAX_DEPTH or id(value) in self._above:
            raise CannotSerialize(f"{path[:_SHOWN]}…: the value is nested more than {MAX_DEPTH} deep, or holds itself.")
        self._above.add(id(value))
        try:
            return self._container(value, kind, path, depth + 1)
        finally:
            self._above.discard(id(value))

    def _container(self, value: Any, kind: type, path: str, depth: int) -> Any:
        if kind is dict:
            return self._dict(value, path, depth)
        if kind in (list, tuple, set, frozenset):
            parts = [self.tag(part, f"{path}[{at}]", depth) for at, part in enumerate(value)]
            if kind is set or kind is frozenset:
                parts.sort(key=repr)  # the same text in every process, whatever the order of the set there
            return parts if kind is list else {f"${kind.__name__}": parts}
        return self._object(value, kind, path, depth)

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {_text(key, path): self.tag(part, f"{path}.{key}", depth) for key, part in value.items()}
        return {
            "$dict": [
                [self.tag(key, f"{path}: the key {key!r}", depth), self.tag(part, f"{path}[{key!r}]", depth)]
                for key, part in value.items()
            ]
        }

    def _object(self, value: Any, kind: type, path: str, depth: int) -> Any:
        if isinstance(value, Flag):  # several members together have no name, nor has none of them
            return {"$flag": [_named(kind, path), self.tag(value.value, path, depth)]}
        if isinstance(value, Enum):
            return {"$enum": [_named(kind, path), value.name]}
        if _is_named_tuple(kind):
            return {"$namedtuple": [_named(kind, path), self._parts(value._asdict(), path, depth)]}
        if isinstance(value, BaseException):
            return {"$error": msgspec.json.decode(encode_error(value))}
        if dataclasses.is_dataclass(value) and _is_made_of_fields(kind):
            return {"$dataclass": [_named(kind, path), self._parts(_attributes(value, kind), path, depth)]}
        if is_model(kind):
            fields, rest = parts_of(value)
            parts = [self._parts(fields, path, depth), *([self._parts(rest, path, depth)] if rest else [])]
            return {"$model": [_named(kind, path), *parts]}
        raise CannotSerialize(
            f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be kept. "
            "Give it fields (a dataclass, a pydantic model), or keep the parts that matter."
        )

    def _parts(self, parts: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        return {name: self.tag(part, f"{path}.{name}", depth) for name, part in parts.items()}


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CannotSerialize(f"{path}: the text is not Unicode: {error.reason}.") from None
    return value


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


def _is_made_of_fields(kind: type) -> bool:
    """Say whether an instance is nothing but its fields: one that is a dict or a text besides would lose that."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_field_defaults")


def _named_tuple(written: Any) -> Any:
    name, parts = written
    kind = _class_of(name)
    known = kind._field_defaults | {key: _untag(part) for key, part in parts.items()}
    return tuple.__new__(kind, [known[field] for field in kind._fields])


def _attributes(value: Any, kind: type) -> dict[str, Any]:
    """Return all attributes of an instance, fields first; without those that a cached property makes again."""
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(kind) if hasattr(value, each.name)}
    others = getattr(value, "__dict__", {}).keys() - fields.keys()
    kept = [name for name in others if name[:2] != "__" and not isinstance(getattr(kind, name, None), cached_property)]
    return fields | {name: vars(value)[name] for name in sorted(kept)}


def _dataclass(written: Any) -> Any:
    name, parts = written
    kind = _class_of(name)
    made: Any = object.__new__(kind)  # as it was, without its __init__ and what that would do a second time
    attributes = {key: _untag(part) for key, part in parts.items()}
    for each in dataclasses.fields(kind):  # one that the class has gained since then has its default
        if each.name not in attributes and each.default is not dataclasses.MISSING:
            attributes[each.name] = each.default
        elif each.name not in attributes and each.default_factory is not dataclasses.MISSING:
            attributes[each.name] = each.default_factory()
    for key, part in attributes.items():
        object.__setattr__(made, key, part)
    return made


def _model(written: Any) -> Any:
    name, *parts = written
    fields, rest = ({key: _untag(part) for key, part in each.items()} for each in (*parts, {})[:2])
    return model_of(_class_of(name), fields, rest)


def _class_of(name: str) -> Any:
    kind = _find(name)
    is_ours = isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, Enum) or is_model(kind) or _is_named_tuple(kind)
    )
    if not is_ours:
        raise CannotDeserialize(
            f"The stored value has a {name.replace(':', '.')}, which is not loaded here. Import its module first."
        )
    return kind


class _Loaded(Mapping[str, type[BaseException]]):
    """Classes of errors by their dotted names, among the modules that are loaded."""

    def __getitem__(self, name: str) -> type[BaseException]:
        module, found = name, None
        while found is None and "." in module:
            module = module.rpartition(".")[0]
            found = _find(f"{module}:{name[len(module) + 1 :]}")
        if isinstance(found, type) and issubclass(found, Exception):
            return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())  # they are asked for by name

    def __len__(self) -> int:
        return 0


_LOADED = _Loaded()


def _clock(value: datetime | time) -> Any:
    """Return the time as shown, with the name of its zone if it has one, and ``fold`` where a time comes twice."""
    zone = getattr(value.tzinfo, "key", None)
    shown = (value if zone is None else value.replace(tzinfo=None)).isoformat()
    return shown if zone is None and not value.fold else [shown, zone, value.fold]


def _on_clock(kind: type[datetime | time], written: Any) -> datetime | time:
    if isinstance(written, str):
        return kind.fromisoformat(written)
    shown, zone, fold = written
    value = kind.fromisoformat(shown)
    return value.replace(tzinfo=value.tzinfo if zone is None else ZoneInfo(zone), fold=fold)


def _many(written: Any) -> list[Any]:
    return [_untag(part) for part in written]


_TEXTS: dict[type, Callable[[Any], Any]] = {
    int: hex,  # Python refuses to write, and to read, very long decimal ones
    float: repr,
    bytes: lambda value: base64.b64encode(value).decode("ascii"),
    bytearray: lambda value: base64.b64encode(value).decode("ascii"),
    datetime: _clock,
    date: date.isoformat,
    time: _clock,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: lambda value: [repr(value.real), repr(value.imag)],
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda written: int(written, 0),
    "$float": float,
    "$bytes": base64.b64decode,
    "$bytearray": lambda written: bytearray(base64.b64decode(written)),
    "$datetime": lambda written: _on_clock(datetime, written),
    "$date": date.fromisoformat,
    "$time": lambda written: _on_clock(time, written),
    "$timedelta": lambda written: timedelta(*written),
    "$Decimal": Decimal,
    "$UUID": UUID,
    "$complex": lambda written: complex(float(written[0]), float(written[1])),
    "$tuple": lambda written: tuple(_many(written)),
    "$set": lambda written: set(_many(written)),
    "$frozenset": lambda written: frozenset(_many(written)),
    "$dict": lambda written: {_untag(key): _untag(part) for key, part in written},
    "$enum": lambda written: _class_of(written[0])[written[1]],
    "$flag": lambda written: _class_of(written[0])(_untag(written[1])),
    "$dataclass": _dataclass,
    "$namedtuple": _named_tuple,
    "$model": _model,
    "$error": lambda written: decode_error(msgspec.json.encode(written).decode(), _LOADED),
}

__all__ = ["MAX_DEPTH", "dump", "load"]
