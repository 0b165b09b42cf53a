"""What goes into the record and comes out of it: calls, results and errors, through the application's serialization."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, get_args, get_origin

import msgspec

from holdfast.core.fingerprint import fingerprint
from holdfast.serialize import CallCodec, PortableJSON, error_name
from holdfast.serialize.annotations import hints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.serialize import Serialization


_PLAIN: frozenset[type] = frozenset({str, int, float, bool, type(None)})


def _for_mark(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None and not isinstance(value, type) else type(value).__qualname__


_encode_mark = msgspec.json.Encoder(enc_hook=_for_mark, order="sorted").encode


class Codec(Protocol):
    """Reads the stored results of one kind of operation."""

    def load(self, text: str | None, format_: str | None) -> Any:
        """Return the value; None for an operation without one."""

    def delivered(self, value: Any, text: str, format_: str) -> Any:
        """Return *value*, which was just stored as *text*, as a replay would deliver it."""


class ValueCodec:
    """Reads stored values of one type."""

    __slots__ = ("_serialization", "_type")

    def __init__(self, serialization: Serialization, type_: Any) -> None:
        self._serialization = serialization
        self._type = type_

    def load(self, text: str | None, format_: str | None) -> Any:
        """Return the value as the type."""
        return None if text is None else self._serialization.load(text, format_, self._type)

    def delivered(self, value: Any, text: str, format_: str) -> Any:
        """Return *value* as a replay would."""
        return value if type(value) is self._type else self.load(text, format_)


class ResultCodec:
    """Reads the stored results of one function; made once per function."""

    __slots__ = ("_as_they_are", "_calls", "_plain", "_serialization")

    def __init__(self, serialization: Serialization, function: Callable[..., Any], *, skip: int = 0) -> None:
        self._serialization = serialization
        try:
            self._calls = CallCodec(function, skip=skip)
        except ValueError:  # some built-in functions have no signature
            self._calls = CallCodec(_anything)
        hints = hints_of(function)[0]
        self._as_they_are = _as_they_are(hints.get("return", Any))
        self._plain = _plain_parameters(function, hints, skip)

    def load(self, text: str | None, format_: str | None) -> Any:
        """Return the result as the type of the function's return annotation; None for an operation without one."""
        return None if text is None else self._serialization.load_result(text, format_, self._calls)

    def delivered(self, value: Any, text: str, format_: str) -> Any:
        """Return *value* as a replay would: as it is if the record and the annotation keep it so, else read back."""
        return value if type(value) in self._as_they_are else self.load(text, format_)

    def delivered_call(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], text: str, format_: str
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, just stored as *text*, as a replay would: as they are if the record keeps them so."""
        plain = self._plain
        if plain is not None and not keywords and len(arguments) == len(plain):
            for value, types in zip(arguments, plain, strict=True):
                if type(value) not in types:
                    break
            else:
                return arguments, keywords
        self._calls.check_live(len(arguments), keywords)
        return self.load_call(text, format_)

    def load_call(self, text: str | None, format_: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as the types of the function's annotations."""
        return ((), {}) if text is None else self._serialization.load_call(text, format_, self._calls)


class Payloads:
    """The serialization of an application as the workflow room uses it."""

    def __init__(self, serialization: Serialization) -> None:
        self._serialization = serialization
        self._open = PortableJSON()
        self._known = LoadedErrors()
        self.plain = ValueCodec(serialization, Any)

    def typed(self, type_: Any) -> ValueCodec:
        """Return the reader of values of one type."""
        return ValueCodec(self._serialization, type_)

    def codec(self, function: Callable[..., Any], *, skip: int = 0) -> ResultCodec:
        """Return the reader of a function's calls and results; *skip* leading parameters are not in the record."""
        return ResultCodec(self._serialization, function, skip=skip)

    def dump(self, value: Any) -> tuple[str, str]:
        """Return text and marker of *value*; ``CannotSerialize`` names the path of what does not fit."""
        return self._serialization.dump(value)

    def dump_open(self, value: Any) -> str:
        """Return *value* as plain JSON whatever the codecs: for what must be searched and shown, like attributes."""
        return self._open.serialize(value)

    def dump_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[str, str]:
        """Return text and marker of the arguments of a call."""
        return self._serialization.dump_call(arguments, keywords)

    def dump_error(self, error: BaseException) -> tuple[str, str]:
        """Return text and marker of an error; never fails for what the error is."""
        return self._serialization.dump_error(error)

    def load_error(self, text: str, format_: str | None) -> BaseException:
        """Return the recorded error: of its own class if this process has loaded it, else a stand-in."""
        return self._serialization.load_error(text, format_, self._known)

    def as_recorded(self, error: BaseException, text: str, format_: str | None) -> BaseException:
        """Return what a replay would raise for *error*: the same from the record, with the place where it arose."""
        rebuilt = self.load_error(text, format_).with_traceback(error.__traceback__)
        if type(rebuilt) is not type(error):
            rebuilt.__cause__ = error
        return rebuilt

    def mark(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Return the fingerprint of a call. What has no JSON form counts by the name of its class only."""
        try:
            return fingerprint(name, _encode_mark([arguments, keywords]))
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
            shapes = [type(value).__qualname__ for value in arguments], sorted(keywords)
            return fingerprint(name, repr(shapes).encode())


def _as_they_are(annotation: Any) -> frozenset[type]:
    """Return the types whose values come back from the record unchanged under *annotation*.

    An ``int`` under ``float`` does not, nor a ``str`` under ``Decimal``.
    """
    if annotation is Any:
        return _PLAIN
    types: tuple[Any, ...] = (annotation,)
    if get_origin(annotation) in {Union, UnionType}:
        types = get_args(annotation)
    return _PLAIN.intersection(types) if _PLAIN.issuperset(types) else frozenset()


def _plain_parameters(
    function: Callable[..., Any], hints: Mapping[str, Any], skip: int
) -> tuple[frozenset[type], ...] | None:
    """Return for each parameter the types that come back unchanged; None if not all can be given by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except ValueError:  # some built-in functions have no signature
        return None
    if any(one.kind not in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD} for one in parameters):
        return None
    return tuple(_as_they_are(hints.get(one.name, Any)) for one in parameters)


def _anything(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


class LoadedErrors(Mapping[str, type[BaseException]]):
    """The exception classes this process has loaded, by recorded name. Nothing is ever imported to find one."""

    def __getitem__(self, name: str) -> type[BaseException]:
        if "." not in name or "<locals>" in name:  # built in, or one of many of the same name
            raise KeyError(name)
        for kind in _subclasses(Exception):
            if error_name(kind) == name:
                return kind
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (error_name(kind) for kind in _subclasses(Exception))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in type.__subclasses__(kind):
        yield each
        yield from _subclasses(each)
