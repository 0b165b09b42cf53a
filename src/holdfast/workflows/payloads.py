"""What goes into the record and comes out of it: calls, results and errors, through the application's serialization."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.core.fingerprint import fingerprint
from holdfast.errors import CannotSerialize, SerializationError
from holdfast.serialize import PortableJSON, error_name
from holdfast.serialize.marker import unreadable
from holdfast.serialize.models import encode_by_name
from holdfast.serialize.sets import are_in_order
from holdfast.serialize.walk import Outline
from holdfast.workflows.declaring.codec import FunctionCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.model.workflow import Recorded
    from holdfast.serialize import Serialization


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

    def codec(self, function: Callable[..., Any], *, skip: int = 0) -> FunctionCodec:
        """Return the reader of a function's calls and results; *skip* leading parameters are not in the record."""
        return FunctionCodec(self._serialization, function, skip=skip)

    def shown(self, text: str | None, format_: str | None) -> Any:
        """Return a value to be looked at: as plain JSON, or a word for it that says what cannot be opened here."""
        try:
            return self.plain.load(text, format_)
        except SerializationError:
            return unreadable(format_)

    def dump(self, value: Any, of: str | None = None) -> tuple[str, str]:
        """Return text and marker of *value*; ``CannotSerialize`` names the path of what does not fit.

        If it is the result *of* a function, that is named too.
        """
        try:
            return self._serialization.dump(value)
        except CannotSerialize as error:
            raise _named(error, "result", of) from None

    def dump_open(self, value: Any) -> str:
        """Return *value* as plain JSON whatever the codecs: for what must be searched and shown, like attributes."""
        return self._open.serialize(value)

    def dump_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any], of: str | None = None) -> tuple[str, str]:
        """Return text and marker of the arguments of a call; whoever refuses one *of* a function names it."""
        try:
            return self._serialization.dump_call(arguments, keywords)
        except CannotSerialize as error:
            raise _named(error, "call", of) from None

    def dump_error(self, error: BaseException) -> tuple[str, str]:
        """Return text and marker of an error; never fails for what the error is."""
        return self._serialization.dump_error(error)

    def load_error(self, text: str, format_: str | None) -> BaseException:
        """Return the recorded error: of its own class if this process has loaded it, else a stand-in."""
        return self._serialization.load_error(text, format_, self._known)

    def check_readable(self, recorded: Recorded) -> None:
        """Raise ``SerializationError`` if the outcome of an operation cannot be opened here."""
        if recorded.error is not None:
            self._serialization.load_error(recorded.error, recorded.serialization)
        elif recorded.output is not None:
            self._serialization.check_readable(recorded.output, recorded.serialization)

    def as_recorded(self, error: BaseException, text: str, format_: str | None) -> BaseException:
        """Return what a replay would raise for *error*: the same from the record, with the place where it arose."""
        known = LoadedErrors(type(error))
        return self._serialization.load_error(text, format_, known).with_traceback(error.__traceback__)

    def mark(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Return the fingerprint of a call. What has no JSON form counts by the name of its class only."""
        call = [arguments, keywords]
        try:
            written = encode_by_name(call)
            is_settled = are_in_order(call, written)
        except (TypeError, ValueError, ArithmeticError, msgspec.MsgspecError, RecursionError):
            is_settled = False
        return fingerprint(name, written if is_settled else encode_by_name(Outline().value(call)))


class LoadedErrors(Mapping[str, type[BaseException]]):
    """The exception classes this process has loaded, by recorded name. Nothing is ever imported to find one.

    Of a class that was defined anew, by ``reload()`` or in another cell, it is *raised*, if that is one of them; else
    the one that code now means by the name, or that was defined last.
    """

    def __init__(self, raised: type[BaseException] | None = None) -> None:
        self._raised = raised

    def __getitem__(self, name: str) -> type[BaseException]:
        if "." not in name or "<locals>" in name:  # built in, or one of many of the same name
            raise KeyError(name)
        raised = self._raised
        if raised is not None and issubclass(raised, Exception) and error_name(raised) == name:
            return raised
        found = _bound(name)
        if found is not None:
            return found
        kinds = [kind for kind in _subclasses(Exception) if error_name(kind) == name]
        if not kinds:
            raise KeyError(name)
        return kinds[-1]

    def __iter__(self) -> Iterator[str]:
        return (error_name(kind) for kind in _subclasses(Exception))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _named(error: CannotSerialize, what: str, of: str | None) -> CannotSerialize:
    return error if of is None else CannotSerialize(f"{error} It stands in the {what} of {of!r}.")


def _bound(name: str) -> type[BaseException] | None:
    """Return the class that a module which is loaded has under the recorded *name*."""
    module = name
    while "." in module:
        module = module.rpartition(".")[0]
        found: Any = sys.modules.get(module)
        for part in name[len(module) + 1 :].split("."):
            found = getattr(found, "__dict__", {}).get(part)  # not by getattr, for which a module may import something
        if isinstance(found, type) and issubclass(found, Exception) and error_name(found) == name:
            return found
    return None


def _subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in type.__subclasses__(kind):
        yield each
        yield from _subclasses(each)
