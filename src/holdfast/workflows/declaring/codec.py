"""The calls and results of one function, into the record and out of it, by what its annotations say."""

from __future__ import annotations

import inspect
import logging
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from holdfast.errors import CannotDeserialize, ConfigurationError
from holdfast.serialize.calls import CallCodec, anything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.serialize import Serialization

logger = logging.getLogger("holdfast.workflows")

_PLAIN: frozenset[type] = frozenset({str, int, float, bool, type(None)})
_RESULT = "return"
_NO_ANNOTATION = "it has no annotation. Annotate it, with Any if plain JSON is what you want"
_NOT_KNOWN = "its annotation is not known when the program runs. Import what it names outside of `if TYPE_CHECKING:`"


class FunctionCodec:
    """Reads the stored calls and results of *function*; made once per function.

    *skip* leading parameters are not in the record.
    """

    __slots__ = ("_as_they_are", "_calls", "_parameters", "_plain", "_serialization", "_untyped")

    def __init__(self, serialization: Serialization, function: Callable[..., Any], *, skip: int = 0) -> None:
        self._serialization = serialization
        self._parameters = _parameters(function, skip)
        self._calls = CallCodec(anything) if self._parameters is None else CallCodec(function, skip=skip)
        self._as_they_are: frozenset[type] = frozenset()
        self._plain: tuple[frozenset[type], ...] | None = None
        self._untyped: dict[str, str] = {}  # what has no type here, and why
        if not self._calls.is_early:  # else nothing goes round the look that is still to come
            self._read_annotations()

    @property
    def parameters(self) -> Sequence[inspect.Parameter]:
        """The parameters of the function that are in the record; none if it does not say."""
        return self._parameters or ()

    def _read_annotations(self) -> None:
        hints = self._calls.hints
        self._as_they_are = _as_they_are(hints.get(_RESULT, Any))
        self._plain = _plain_parameters(self._parameters, hints)
        names = [*(each.name for each in self._parameters or ()), _RESULT]
        self._untyped = {
            name: _NOT_KNOWN if name in self._calls.untyped else _NO_ANNOTATION for name in names if name not in hints
        }

    def load(self, text: str | None, format_: str | None) -> Any:
        """Return the result as the type of the function's return annotation; None for an operation without one."""
        self._look_again()
        return None if text is None else self._serialization.load_result(text, format_, self._calls)

    def delivered(self, value: Any, text: str, format_: str) -> Any:
        """Return *value* as a replay would: as it is if the record and the annotation keep it so, else read back."""
        if type(value) in self._as_they_are:
            return value
        back = self.load(text, format_)
        self._compare([(_RESULT, value, back)])
        return back

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
        self._look_again()
        self._calls.check_live(len(arguments), keywords)
        args, kwargs = self.load_call(text, format_)
        if self._untyped:
            names = [each.name for each in self._parameters or ()]
            self._compare(zip(names, arguments, args, strict=False))
            self._compare((name, value, kwargs[name]) for name, value in keywords.items())
        return args, kwargs

    def load_call(self, text: str | None, format_: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as the types of the function's annotations."""
        self._look_again()
        return ((), {}) if text is None else self._serialization.load_call(text, format_, self._calls)

    def _look_again(self) -> None:
        """Look up what was not known when the function was declared; ``CannotDeserialize`` if JSON cannot hold it.

        It is too late to refuse the declaration, and a run that cannot be read must end like any other such run.
        """
        if self._calls.is_early:
            try:
                self._calls.look_again()
            except ConfigurationError as error:
                raise CannotDeserialize(str(error)) from error
            self._read_annotations()

    def _compare(self, given: Iterable[tuple[str, Any, Any]]) -> None:
        """Say of the first value that is no plain one, and comes back as another type for want of an annotation."""
        for name, value, back in given:
            if type(value) in _PLAIN or (why := self._untyped.pop(name, None)) is None:
                continue
            if (changed := _changed(value, back)) is not None:
                what = "the result" if name == _RESULT else f"the argument {name!r}"
                logger.warning("In %s of %s a %s comes back as %s: %s.", what, self._calls.name, *changed, why)


def _changed(value: Any, back: Any) -> tuple[str, str] | None:
    """Return the types of a part of *value* that came back as another one. A tuple may come back as a list."""
    given, got = type(value), type(back)
    if given is dict and got is dict:
        pairs: Iterable[tuple[Any, Any]] = [(part, back[key]) for key, part in value.items() if key in back]
    elif given in {list, tuple} and got in {list, tuple}:
        pairs = zip(value, back, strict=False)
    else:
        return None if given is got else (given.__name__, got.__name__)
    return next((found for one, other in pairs if (found := _changed(one, other)) is not None), None)


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


def _parameters(function: Callable[..., Any], skip: int) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())[skip:]
    except ValueError:  # some built-in functions have no signature
        return None


def _plain_parameters(
    parameters: list[inspect.Parameter] | None, hints: Mapping[str, Any]
) -> tuple[frozenset[type], ...] | None:
    """Return for each parameter the types that come back unchanged; None if not all can be given by position."""
    if parameters is None or any(
        one.kind not in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD} for one in parameters
    ):
        return None
    return tuple(_as_they_are(hints.get(one.name, Any)) for one in parameters)


__all__ = ["FunctionCodec"]
