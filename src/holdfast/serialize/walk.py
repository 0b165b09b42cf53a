"""The careful way from a value to portable JSON: every part is looked at, and what does not fit is named.

:func:`fits` answers, without copying anything, whether the encoder's own output already is what our rules ask
for. :class:`Walk` rebuilds a value that does not, or raises :class:`CannotSerialize` with the path of the
part to blame. Both follow the same rules; a test holds them to the same text.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from math import isfinite
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.errors import CannotSerialize
from holdfast.serialize.models import dumped
from holdfast.serialize.scalars import CHECKS, SCALARS, SETTLED, UnfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_DEPTH = 128
"""How many containers may stand inside one another."""

_LEAVES: frozenset[type] = SETTLED | {int, str}
"""Types of which the encoder writes every value by our rules, or raises."""

_ADVICE = "give it fields (a dataclass, a pydantic model, a Struct), or pass the parts that matter"
_PATH_SHOWN = 200
_only_str = frozenset({str}).issuperset


def fits(value: Any, depth: int = 1) -> bool:
    """Say whether the encoder writes *value* by our rules; to be asked only after it has written it.

    A false answer is no verdict: :class:`Walk` gives that.
    """
    kind = type(value)
    if kind in _LEAVES:
        return True
    if kind in CHECKS:
        return CHECKS[kind](value)
    parts = _parts(value, kind)
    if parts is None or depth > MAX_DEPTH:
        return False
    for part in parts:  # the hot path: leaves and floats are settled here, without a call
        kind = type(part)
        if kind not in _LEAVES and not (isfinite(part) if kind is float else fits(part, depth + 1)):
            return False
    return True


def _parts(value: Any, kind: type) -> Iterable[Any] | None:
    """Return what is inside *value*; None if it is nothing that the encoder takes apart by our rules."""
    if kind is dict:
        return value.values() if _only_str(map(type, value)) else None
    if kind is list or kind is tuple:
        parts: Iterable[Any] = value
        return parts
    names = field_names(kind)
    return None if names is None else [getattr(value, name, None) for name in names]


def field_names(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass, attrs class or Struct; None for any other type."""
    if hasattr(kind, "__dataclass_fields__"):
        return tuple(field.name for field in fields(kind))  # not what is the class's own (ClassVar)
    if (attributes := getattr(kind, "__attrs_attrs__", None)) is not None:
        return tuple(attribute.name for attribute in attributes)
    return getattr(kind, "__struct_fields__", None)


class Walk:
    """One walk through one value; remembers where it is, so that a refusal can say it."""

    def __init__(self) -> None:
        self._path = ["$"]
        self._open: set[int] = set()

    def value(self, value: Any) -> Any:
        """Return *value* in types whose encoding follows our rules."""
        kind = type(value)
        if kind in SETTLED:
            return value
        if isinstance(value, Enum):
            return self._enum(value)
        if (container := self._container(kind)) is not None:
            return self._inside(value, container)
        for base in kind.__mro__:
            if (scalar := SCALARS.get(base)) is not None:
                return self._scalar(scalar, value)
        if kind is CoroutineType:
            return self._refuse("it is a coroutine, which nobody has awaited")
        return self._refuse(f"the type {kind.__qualname__} has no portable form; {_ADVICE}")

    def _container(self, kind: type) -> Callable[[Any], Any] | None:
        if hasattr(kind, "model_dump") and hasattr(kind, "model_validate_json"):
            return self._model
        if issubclass(kind, msgspec.Struct):
            return self._struct
        if field_names(kind) is not None:
            return self._fields
        if issubclass(kind, dict):
            return self._items
        if issubclass(kind, list | tuple):
            return self._elements
        return self._members if issubclass(kind, set | frozenset) else None

    def _refuse(self, why: str) -> NoReturn:
        path = "".join(self._path)
        if len(path) > _PATH_SHOWN:
            path = f"{path[: _PATH_SHOWN // 2]}…{path[-_PATH_SHOWN // 2 :]}"
        raise CannotSerialize(f"Cannot store the value at {path}: {why}.") from None

    def _inside(self, value: Any, convert: Callable[[Any], Any]) -> Any:
        """Convert a container, refusing one that contains itself or stands too deep."""
        if id(value) in self._open:
            self._refuse("it contains itself, and JSON has no references")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"it stands more than {MAX_DEPTH} containers deep")
        self._open.add(id(value))
        try:
            return convert(value)
        finally:
            self._open.discard(id(value))

    def _part(self, step: str, value: Any) -> Any:
        self._path.append(step)
        converted = self.value(value)
        self._path.pop()
        return converted

    def _scalar(self, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except UnfitError as unfit:
            return self._refuse(str(unfit))

    def _enum(self, value: Enum) -> Any:
        plain = value.value
        if isinstance(plain, bool) or not isinstance(plain, str | int):
            self._refuse(f"{value} has a value of type {type(plain).__qualname__}; only str and int can be read back")
        return self.value(plain)

    def _fields(self, value: Any) -> dict[str, Any]:
        return self._present({name: getattr(value, name, msgspec.UNSET) for name in field_names(type(value)) or ()})

    def _present(self, members: dict[str, Any]) -> dict[str, Any]:
        return {name: self._part(_step(name), one) for name, one in members.items() if one is not msgspec.UNSET}

    def _struct(self, value: Any) -> Any:
        config = value.__struct_config__
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        tag = {} if config.tag is None else {config.tag_field: config.tag}
        written = tag | self._present({wire: getattr(value, name) for wire, name in names})
        return list(written.values()) if config.array_like else written

    def _model(self, value: Any) -> Any:
        try:
            written = dumped(value, round_trip=True)
        except Exception as error:  # noqa: BLE001 -- a model's own serializers may raise anything
            self._refuse(f"model_dump of its {type(value).__qualname__} raised {type(error).__name__}")
        return self.value(written)

    def _items(self, value: dict[Any, Any]) -> dict[str, Any]:
        written = {}
        for key, member in value.items():
            name = key if type(key) is str and key.isascii() else self._key(key)
            written[name] = self._part(_step(name), member)
        if len(written) != len(value):
            self._refuse("two of its keys are written alike")
        return written

    def _key(self, key: Any) -> str:
        # What is a string as a value is one as a key, and an annotation brings both back. A number would come
        # back as a number from a list and as text from a key: it is refused.
        name = msgspec.to_builtins(self._part(".(key)", key))
        if isinstance(name, str):
            return name
        return self._refuse(f"it has a key of type {type(key).__qualname__}; use strings, or a list of pairs")

    def _elements(self, value: Iterable[Any]) -> list[Any]:
        return [self._part(f"[{index}]", element) for index, element in enumerate(value)]

    def _members(self, value: Iterable[Any]) -> list[Any]:
        # Sorted by what is written: the order of a set changes from process to process, and the text must
        # not.
        return sorted(self._elements(value), key=msgspec.json.encode)


class Outline(Walk):
    """A walk that refuses nothing: what has no form counts by the name of its class.

    For telling whether two values are the same, in whichever process.
    """

    def value(self, value: Any) -> Any:
        """Return *value* in types whose encoding is the same everywhere."""
        try:
            return super().value(value)
        except Exception:  # noqa: BLE001 -- what it is made of is not ours, and may raise anything when it is looked at
            return type(value).__qualname__

    def _part(self, step: str, value: Any) -> Any:  # noqa: ARG002 -- nothing is refused, so no path is told
        return self.value(value)

    def _key(self, key: Any) -> str:
        name = msgspec.to_builtins(self.value(key))
        return name if isinstance(name, str) else msgspec.json.encode(name).decode()


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{msgspec.json.encode(name).decode()}]"


__all__ = ["MAX_DEPTH", "Outline", "Walk", "fits"]
