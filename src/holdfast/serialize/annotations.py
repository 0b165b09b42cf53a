"""From annotations to decoders: what a function's signature promises is what a stored value comes back as.

Built once per function or type and kept by whoever asked; nothing here remembers anything. No code is run by
a stored name: the only constructors called are those of types the program's own annotations name.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Container, Iterable, Reversible
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from holdfast.core.functions import plain_function
from holdfast.errors import CannotDeserialize, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

_VALUE_SHOWN = re.compile(r"^(Invalid (?:enum )?value) .*?(?= - at `|$)", re.DOTALL)
_UNTYPED = (typing.ParamSpecArgs, typing.ParamSpecKwargs)
_FOR_CHECKERS = ((typing.Never, Any), (typing.NoReturn, Any), (typing.LiteralString, str))
"""What only type checkers tell apart from the other: what is never returned need not be read either."""

_LISTS = (Iterable, Reversible, Container)
"""What a function asks for that is content with any list; msgspec knows the more exact ones."""


class Decoder:
    """Reads portable JSON as one type. *what* says in error messages whose value it is."""

    def __init__(self, annotation: Any, what: str = "the value") -> None:
        self._what = what
        annotation = next((plain for special, plain in _FOR_CHECKERS if annotation is special), annotation)
        try:
            self._decode = msgspec.json.Decoder(annotation, dec_hook=_rebuild).decode
        except (TypeError, NameError, NotImplementedError) as error:
            raise ConfigurationError(
                f"The annotation of {what} cannot be read back from portable JSON: {error}. Annotate a type"
                " that can be told apart in JSON (a tagged Struct, a pydantic model), or Any for plain JSON.",
            ) from error

    def decode(self, text: str | msgspec.Raw, at: str = "$") -> Any:
        """Return the value in *text*.

        Raises :class:`CannotDeserialize` with the path, which begins with *at*. The message names types and
        never the value, and hides the cause, which may show it.
        """
        try:
            return self._decode(text)
        except msgspec.ValidationError as error:
            message, _, path = _VALUE_SHOWN.sub(r"\1", str(error)).rpartition(" - at `")
            why = message or path
            where = at + path.rstrip("`").removeprefix("$") if message else at
        except msgspec.DecodeError as error:
            why, where = f"it is not JSON ({error})", at
        except RecursionError:
            why, where = "it is nested too deeply", at
        except Exception as error:  # noqa: BLE001 -- __post_init__ and validators of the user's types may raise anything
            why, where = f"building it raised {type(error).__name__}", at
        # Raised here and not in the handlers: the error that was caught may show the value.
        raise CannotDeserialize(f"Cannot read {self._what} at {where}: {why}.")


def _rebuild(annotation: Any, plain: Any) -> Any:
    """Build what msgspec does not know from plain JSON; a wrong type is refused by msgspec after us."""
    origin = get_origin(annotation) or annotation
    if not isinstance(origin, type):
        return plain
    if getattr(origin, "_is_protocol", False) and not getattr(origin, "_is_runtime_protocol", False):
        raise TypeError(f"{origin.__name__} is a Protocol, and nothing can be built as one: annotate a class, or Any")
    if hasattr(origin, "model_validate_json"):
        return _validate(origin, plain)
    if issubclass(origin, str | int | float) and type(plain) in origin.__mro__:
        return origin(plain)
    if origin in _LISTS and isinstance(plain, list):
        return msgspec.convert(plain, list.__class_getitem__(get_args(annotation) or Any), dec_hook=_rebuild)
    if issubclass(origin, dict) and isinstance(plain, dict):
        return _fill(origin.__new__(origin), plain, get_args(annotation))
    return plain


def _fill(made: dict[Any, Any], plain: dict[str, Any], types: tuple[Any, ...]) -> dict[Any, Any]:
    """Fill an OrderedDict, defaultdict or Counter; the last has but one type argument, that of its keys."""
    key, value = (*types, Any, Any)[:2]
    made.update(msgspec.convert(plain, dict.__class_getitem__((key, value)), dec_hook=_rebuild))
    return made


def _validate(model: Any, plain: Any) -> Any:
    # As JSON and not as Python values: a strict model takes "2024-01-01" for a date only in JSON. By name,
    # because values are written by name; by alias, because a client in another language knows the aliases.
    validate = model.model_validate_json
    names = {"by_name": True, "by_alias": True} if "by_name" in (validate.__kwdefaults__ or ()) else {}
    try:
        return validate(msgspec.json.encode(plain), **names)
    except ValueError as error:
        raise ValueError(_without_input(error)) from None


def _without_input(error: Any) -> str:
    """Say what a pydantic error says, without the values it shows."""
    if not hasattr(error, "errors"):
        return type(error).__name__
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or '(root)'}: {one['type']}" for one in found)


def hints_of(fn: Callable[..., Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the resolved annotations of *fn*, and the names of those that could not be resolved.

    A name imported only for type checkers cannot be resolved when the program runs; such a parameter is read
    as plain JSON, and the others are not affected.
    """
    plain = plain_function(fn)
    written = dict(getattr(plain, "__annotations__", {}))
    globalns = getattr(plain, "__globals__", {})
    localns = _closure(plain)
    hints: dict[str, Any] = {}
    for name, annotation in written.items():
        holder = SimpleNamespace(__annotations__={name: annotation})
        try:
            hint = typing.get_type_hints(holder, globalns, localns, include_extras=True)[name]
        except Exception:  # noqa: BLE001, S112 -- evaluating an annotation may raise anything; it is reported as untyped
            continue
        if not isinstance(hint, _UNTYPED) and get_origin(hint) is not typing.Unpack:
            hints[name] = hint
    return hints, tuple(name for name in written if name not in hints)


def _closure(fn: Any) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(fn).nonlocals)
    except (TypeError, ValueError):
        return {}


__all__ = ["Decoder", "hints_of"]
