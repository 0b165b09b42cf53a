"""Portable JSON: the default format, compact, typed on the way back by annotations.

The wire shapes are shared with other languages: a call is an object with ``positionalArgs`` and
``namedArgs``; an output, event or message is the bare value. Errors have a shape of their own, see
:mod:`holdfast.serialize.failure`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import CannotSerialize
from holdfast.serialize.annotations import Decoder
from holdfast.serialize.walk import Walk, fits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TYPES_KEPT = 256


class PortableJSON:
    """The format ``portable_json``.

    Safe to share between threads. What is refused is refused on writing, with the path of the part: a value
    that was stored can be read.
    """

    name = "portable_json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._plain = Decoder(Any)
        self._decoder: Callable[[Any], Decoder] = lru_cache(_TYPES_KEPT)(Decoder)

    def serialize(self, value: Any) -> str:
        """Return *value* as compact JSON; raises :class:`CannotSerialize` with the path of the misfit."""
        try:
            data = self._encode(value)
            # What the encoder writes without complaint may break our rules: it makes null of NaN, "1" of a key 1.
            is_fine = fits(value)
        except (TypeError, ValueError, RecursionError):
            return self._with_care(value)
        return data.decode() if is_fine else self._with_care(value)

    def serialize_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the arguments of a call in their wire shape."""
        return self.serialize({"positionalArgs": list(args), "namedArgs": dict(kwargs)})

    def deserialize(self, text: str) -> Any:
        """Return the plain JSON value in *text*; raises :class:`CannotDeserialize`."""
        return self._plain.decode(text)

    def decode(self, text: str, type: Any = Any) -> Any:  # noqa: A002 -- the word users know from msgspec
        """Return the value as *type*; raises :class:`CannotDeserialize` with the path of the misfit."""
        if type is Any:
            return self._plain.decode(text)
        try:
            decoder = self._decoder(type)
        except TypeError:  # an annotation that cannot be hashed cannot be kept either
            decoder = Decoder(type)
        return decoder.decode(text)

    def _with_care(self, value: Any) -> str:
        try:
            return self._encode(Walk().value(value)).decode()
        except RecursionError:
            raise CannotSerialize(
                "Cannot store the value at $: the call stack is too deep to walk through it from here.",
            ) from None


__all__ = ["PortableJSON"]
