"""Errors to and from the record: a replay raises an error of the type and with the arguments of the live one.

A record is an object with ``name``, ``message``, ``code`` (always there, may be null) and, optional,
``data``. What only Python needs (arguments, attributes, notes, the cause, the members of a group) stands in
``data.python``.

Writing never fails, because a run that failed must be able to say so. Reading never imports anything and
never runs the ``__init__`` of a recorded class: only built-in errors, Holdfast's own, and the classes the
application names are rebuilt. Anything else comes back as :class:`RecordedError`, and so does what would stop
the process if it were raised, like ``SystemExit``.
"""

from __future__ import annotations

import builtins
import traceback as tracebacks
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import errors
from holdfast.errors import RecordedError
from holdfast.serialize.annotations import Decoder
from holdfast.serialize.exact import clean, safe_text, tag, untag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_MESSAGE = 16_384
"""Characters of a message that are kept."""

MAX_DETAILS = 65_536
"""Bytes that the arguments and attributes of one error may take; beyond, they are left out."""

MAX_RECORD = 1_048_576
"""Bytes that a whole record may take; beyond, only name, message and code are kept."""

MAX_CHAIN = 8
"""How many causes of causes, or groups in groups, are followed."""

MAX_ERRORS = 100
"""How many errors one record holds, the members of groups and the causes included."""

MAX_NOTES = 32
"""How many notes of one error are kept."""

_PLACES: dict[type[BaseException], tuple[str, ...]] = {
    OSError: ("filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}
"""Attributes that CPython keeps neither in ``args`` nor in ``__dict__``."""

_encode = msgspec.json.encode


class _Record(msgspec.Struct):
    name: str
    message: str = ""
    code: Any = None
    data: Any = None


_decoder = Decoder(_Record, "the recorded error")


def error_name(kind: type[BaseException]) -> str:
    """Return the name that errors of class *kind* are recorded under: dotted, but bare for a built-in one."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def encode_error(error: BaseException, *, traceback: bool = False) -> str:
    """Return the record of *error* as JSON text; never fails. *traceback* adds its text to the data.

    What is too long is cut or left out, by the limits of this module; what has no exact form is kept as its
    repr.
    """
    try:
        record = _Writer().record(error)
        if traceback:
            text = "".join(tracebacks.format_exception(error))[-MAX_MESSAGE:]
            record.setdefault("data", {})["traceback"] = clean(text, MAX_MESSAGE)
        written = _encode(record)
        if len(written) <= MAX_RECORD:
            return written.decode()
    except Exception:  # noqa: BLE001, S110 -- the error's own methods may raise anything; the short record follows
        pass
    return _encode({"name": _name(error), "message": _message(error), "code": None}).decode()


def decode_error(text: str, known: Mapping[str, type[BaseException]] | None = None) -> BaseException:
    """Return the error recorded in *text*, of its own class if that is built in, ours, or in *known*.

    *known* is asked for the full recorded name, then for its last part. Raises :class:`CannotDeserialize`
    only when *text* is no error record at all.
    """
    record = _decoder.decode(text)
    return _Reader({} if known is None else known).error(record.name, record.message, record.code, record.data)


class _Writer:
    """Writes one error with its causes and members, and counts them."""

    def __init__(self) -> None:
        self._left = MAX_ERRORS

    def record(self, error: BaseException, depth: int = 0) -> dict[str, Any]:
        self._left -= 1
        if type(error) is RecordedError:
            return _again(error)
        message = _message(error)
        record: dict[str, Any] = {"name": _name(error), "message": message, "code": _code(error)}
        details = _details(error, message) | self._related(error, depth + 1)
        if details:
            record["data"] = {"python": details}
        return record

    def _related(self, error: BaseException, depth: int) -> dict[str, Any]:
        related: dict[str, Any] = {}
        if isinstance(error, BaseExceptionGroup):
            members = [self.record(one, depth) for one in error.exceptions if self._has_room(depth)]
            related["group"] = {"message": clean(error.message, MAX_MESSAGE), "errors": members}
        if error.__cause__ is not None and self._has_room(depth):
            related["cause"] = self.record(error.__cause__, depth)
        elif error.__context__ is not None and not error.__suppress_context__ and self._has_room(depth):
            related["context"] = self.record(error.__context__, depth)
        return related

    def _has_room(self, depth: int) -> bool:
        return depth <= MAX_CHAIN and self._left > 0


class _Reader:
    """Rebuilds one record with its causes and members."""

    def __init__(self, known: Mapping[str, type[BaseException]]) -> None:
        self._known = known

    def error(self, name: str, message: str, code: Any, data: Any, depth: int = 0) -> BaseException:
        details = data.get("python") if isinstance(data, dict) else None
        from_python = isinstance(details, dict) or (data is None and code is None)
        kind = self._class(name) if from_python else None
        details = details if isinstance(details, dict) else {}
        error: BaseException = RecordedError(name, message, code, data)
        if kind is not None:
            with suppress(Exception):  # a class that has changed cannot be filled; the stand-in says all there is
                error = self._rebuild(kind, message, details, depth + 1)
        return self._relate(error, details, depth + 1)

    def _class(self, name: str) -> type[BaseException] | None:
        named = self._known.get(name) or self._known.get(name.rpartition(".")[2])
        if named is not None:
            return named
        home, _, bare = name.rpartition(".")
        places: dict[str, object] = {"": builtins, errors.__name__: errors}
        found = getattr(places.get(home), bare, None)
        return found if isinstance(found, type) and issubclass(found, Exception) else None

    def _rebuild(self, kind: type[BaseException], message: str, details: dict[str, Any], depth: int) -> BaseException:
        if (group := details.get("group")) is not None:
            args: tuple[Any, ...] = (group["message"], [self._nested(one, depth) for one in group["errors"]])
        else:
            args = tuple(untag(details["args"])) if "args" in details else (message,)
        # Those of the nearest built-in class set what CPython itself keeps (errno, start, value); a __new__ or
        # __init__ of the class itself would take other arguments than it passed up, and may do anything.
        native: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        error: BaseException = native.__new__(kind, *args)
        native.__init__(error, *args)
        if group is None and error.args != args:
            error.args = args
        for name, value in untag(details.get("places", {})).items():
            setattr(error, name, value)
        vars(error).update(untag(details.get("attributes", {})))
        return error

    def _relate(self, error: BaseException, details: dict[str, Any], depth: int) -> BaseException:
        notes = details.get("notes")
        for note in notes if isinstance(notes, list) else ():
            BaseException.add_note(error, str(note))
        if depth <= MAX_CHAIN + 1:
            if isinstance(details.get("cause"), dict):
                error.__cause__ = self._nested(details["cause"], depth)
            elif isinstance(details.get("context"), dict):
                error.__context__ = self._nested(details["context"], depth)
        return error

    def _nested(self, record: dict[str, Any], depth: int) -> BaseException:
        name, message = str(record.get("name")), str(record.get("message", ""))
        return self.error(name, message, record.get("code"), record.get("data"), depth)


def _again(error: RecordedError) -> dict[str, Any]:
    record = {"name": error.name, "message": error.message, "code": error.code}
    return record if error.data is None else record | {"data": error.data}


def _details(error: BaseException, message: str) -> dict[str, Any]:
    """Return the arguments, attributes and notes, as far as they have a form and fit."""
    details: dict[str, Any] = {}
    if not isinstance(error, BaseExceptionGroup) and error.args != (message,):
        details["args"] = [tag(one) for one in error.args]
    own = {name: value for name, value in vars(error).items() if name != "__notes__"}
    if own:
        details["attributes"] = tag(own)
    if places := _places(error):
        details["places"] = tag(places)
    if len(_encode(details)) > MAX_DETAILS:
        details = {}
    if notes := getattr(error, "__notes__", None):
        details["notes"] = [clean(note, MAX_MESSAGE) for note in notes[:MAX_NOTES] if isinstance(note, str)]
    return details


def _places(error: BaseException) -> dict[str, Any]:
    names = [name for kind, names in _PLACES.items() if isinstance(error, kind) for name in names]
    return {name: value for name in names if (value := getattr(error, name, None)) is not None}


def _attempt(read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001 -- __str__ and properties of the user's error may raise anything
        return otherwise


def _name(error: BaseException) -> str:
    return clean(_attempt(lambda: error_name(type(error)), "Exception"), MAX_MESSAGE)


def _message(error: BaseException) -> str:
    return clean(safe_text(error), MAX_MESSAGE)


def _code(error: BaseException) -> str | int | None:
    """Return the error's own ``code``, where it has one that JSON can hold as it is."""
    code = _attempt(lambda: getattr(error, "code", None), None)
    if isinstance(code, str):
        return clean(str.__str__(code), MAX_MESSAGE)
    return int(code) if isinstance(code, int) and type(code) is not bool and code.bit_length() < 64 else None


__all__ = ["decode_error", "encode_error", "error_name"]
