"""The arguments of dead letters as a function takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import CannotDeserialize, ReplayRefused
from holdfast.resilience.letters import arguments_of, check_types
from holdfast.serialize import CallCodec, PortableJSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.dead_letter import FailedOperationData

_format = PortableJSON()


class Arguments:
    """Reads what letters keep as the types of the annotations of *function*; made once per function.

    *skip* leading parameters are not in the letters. ``ConfigurationError`` for an annotation that nothing can be read
    back as.
    """

    def __init__(self, function: Callable[..., Any], *, skip: int = 0) -> None:
        try:
            self._codec = CallCodec(function, skip=skip)
        except ValueError:  # some built-in functions have no signature
            self._codec = CallCodec(_anything)

    def of(self, letter: FailedOperationData) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they were when the call failed; ``ReplayRefused`` says why they cannot be had so."""
        plain, named = arguments_of(letter)
        try:
            args, kwargs = self._codec.decode_call(_format.serialize_call(plain, named))
        except CannotDeserialize as error:
            raise ReplayRefused(f"The dead letter {letter.id} cannot be replayed with what it keeps: {error}") from None
        check_types(letter, args, kwargs)
        return args, kwargs


def _anything(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


__all__ = ["Arguments"]
