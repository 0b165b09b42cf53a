"""The arguments and the result of one function, typed by its signature."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.functions import plain_function
from holdfast.errors import CannotDeserialize
from holdfast.serialize.annotations import Decoder, hints_of

if TYPE_CHECKING:
    from collections.abc import Callable

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Call(msgspec.Struct):
    positional: list[msgspec.Raw] | None = msgspec.field(name="positionalArgs", default=None)
    named: dict[str, msgspec.Raw] | None = msgspec.field(name="namedArgs", default=None)


class CallCodec:
    """Reads recorded calls and results of *fn* as the types of its annotations; make it once per function.

    *skip* leading parameters are given by the library and are not in the record. ``untyped`` names the
    annotations that could not be resolved, whose values come back as plain JSON: a caller should warn about
    them. They may name what stands further down in their module, so they are looked up once more at the first
    use; ``is_early`` until then. An annotation that portable JSON cannot tell apart raises
    :class:`ConfigurationError` here, before anything is recorded.
    """

    def __init__(self, fn: Callable[..., Any], *, skip: int = 0) -> None:
        self.name = str(getattr(plain_function(fn), "__qualname__", type(fn).__qualname__))
        self._fn = fn
        self._skip = skip
        self._read_annotations()
        self.is_early = bool(self.untyped)

    def look_again(self) -> None:
        """Look up, once, what was not known when the function was declared."""
        if self.is_early:
            self._read_annotations()
            self.is_early = False

    def _read_annotations(self) -> None:
        hints, unresolved = hints_of(self._fn)
        self.hints = hints
        parameters = list(inspect.signature(self._fn).parameters.values())[self._skip :]
        known = {parameter.name for parameter in parameters} | {"return"}
        self.untyped = tuple(name for name in unresolved if name in known)
        self._envelope = Decoder(_Call, f"the call of {self.name}")
        decoders = {
            parameter.name: Decoder(hints.get(parameter.name, Any), f"argument {parameter.name!r} of {self.name}")
            for parameter in parameters
        }
        self._result = Decoder(hints.get("return", Any), f"the result of {self.name}")
        self._positional = [(one.name, decoders[one.name]) for one in parameters if one.kind in _POSITIONAL]
        self._named = {one.name: decoders[one.name] for one in parameters if one.kind in _NAMED}
        self._rest = _of_kind(parameters, decoders, inspect.Parameter.VAR_POSITIONAL)
        self._others = _of_kind(parameters, decoders, inspect.Parameter.VAR_KEYWORD)
        self._required = [one.name for one in parameters if _is_required(one)]
        self._by_position = {name for name, _ in self._positional}.issuperset(self._required)

    def decode_call(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` to call the function with.

        Raises :class:`CannotDeserialize` when a value does not fit its annotation, or the call does not fit
        the signature: then the function has changed since the call was recorded.
        """
        self.look_again()
        call = self._envelope.decode(text)
        positional, named = call.positional or [], call.named or {}
        self.check(len(positional), named)
        return tuple(self._args(positional)), self._kwargs(named)

    def decode_result(self, text: str) -> Any:
        """Return the recorded result as the type of the return annotation."""
        self.look_again()
        return self._result.decode(text)

    def check(self, positional: int, named: dict[str, Any]) -> None:
        """Raise :class:`CannotDeserialize` unless a recorded call of this shape fits the signature."""
        if (why := self._misfit(positional, named)) is not None:
            raise CannotDeserialize(
                f"The recorded call does not fit the signature of {self.name}: {why}. Keep the old parameters"
                " (and give new ones defaults) until the runs that recorded them are done.",
            )

    def check_live(self, positional: int, named: dict[str, Any]) -> None:
        """Raise ``TypeError``, as Python does, unless a call of this shape fits the signature."""
        if (why := self._misfit(positional, named)) is not None:
            raise TypeError(f"{self.name}() cannot be called like this: {why}.")

    def _misfit(self, positional: int, named: dict[str, Any]) -> str | None:
        """Return what is wrong with a call of so many arguments by position, and these by name."""
        if not named and positional == len(self._positional) and self._by_position:
            return None
        if positional > len(self._positional) and self._rest is None:
            return f"there are {positional} positional arguments, it takes {len(self._positional)}"
        if self._others is None and (unknown := named.keys() - self._named.keys()):
            return f"it has no parameter named {min(unknown)!r}"
        given = {name for name, _ in self._positional[:positional]}
        if twice := given & named.keys() & self._named.keys():
            return f"{min(twice)!r} is given by position and by name"
        missing = [
            each for each in self._required if each not in given and (each not in named or each not in self._named)
        ]
        return f"there is no value for {missing[0]!r}" if missing else None

    def _args(self, positional: list[msgspec.Raw]) -> list[Any]:
        values = [
            decoder.decode(raw, f"$.positionalArgs[{index}]")
            for index, (raw, (_, decoder)) in enumerate(zip(positional, self._positional, strict=False))
        ]
        if self._rest is not None:
            first = len(self._positional)
            for index, raw in enumerate(positional[first:], first):
                values.append(self._rest.decode(raw, f"$.positionalArgs[{index}]"))
        return values

    def _kwargs(self, named: dict[str, msgspec.Raw]) -> dict[str, Any]:
        values = {}
        for name, raw in named.items():
            decoder = self._named.get(name) or self._others
            if decoder is not None:
                values[name] = decoder.decode(raw, f"$.namedArgs.{name}")
        return values


def anything(*args: Any, **kwargs: Any) -> Any:
    """Stand for a function that does not say what it takes and returns: its calls and results are plain JSON."""
    raise NotImplementedError


def _of_kind(parameters: list[inspect.Parameter], decoders: dict[str, Decoder], kind: Any) -> Decoder | None:
    return next((decoders[one.name] for one in parameters if one.kind is kind), None)


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variable


__all__ = ["CallCodec", "anything"]
