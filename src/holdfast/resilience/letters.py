"""What goes into a dead letter of a failed call: its arguments and its error, masked and cut to size."""

from __future__ import annotations

import traceback as tracebacks
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.errors import CannotSerialize
from holdfast.serialize import PortableJSON

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from holdfast.model.dead_letter import FailedOperationData

MASK = "***"
TRUNCATED = "_truncated"
NOT_KEPT = "_not_kept"
MASKED = "_masked"
DEFAULT_BYTES = 65_536
_MOST_TRACEBACK = 16_384
_LONGEST_WORD = 255

_format = PortableJSON()


@dataclass(slots=True)
class Replayed:
    """A replay that the running code belongs to. Calls of its domain that fail are *failures* of it, and no letters."""

    domain: str
    failures: list[Exception] = field(default_factory=list)


replayed: ContextVar[Replayed | None] = ContextVar("holdfast_replayed_letter", default=None)


class Makes(Protocol):
    """Where a letter is put: a repository, or one inside of somebody's transaction."""

    @property
    def create(self) -> Callable[..., Coroutine[Any, Any, FailedOperationData]]:
        """The documented call, which stores it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What may be kept of a call: fields called one of *mask_fields*, in any case and at any depth, are masked.

    Arguments that take more than *most_bytes* as JSON are left out where they are to be had elsewhere.
    """

    mask_fields: frozenset[str] = frozenset()
    most_bytes: int = DEFAULT_BYTES

    @classmethod
    def of(cls, mask_fields: Iterable[str] = (), most_bytes: int = DEFAULT_BYTES) -> Contents:
        """Return the rules for fields that are given by their names."""
        return cls(frozenset(each.casefold() for each in mask_fields), most_bytes)

    def call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, elsewhere: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the arguments of a call as they are kept, masked.

        What is no JSON is not kept, and the letter says why. *elsewhere* says where the whole is to be found: then
        arguments that are too large are not kept either.
        """
        try:
            text = _format.serialize({"positionalArgs": list(args), "namedArgs": dict(kwargs)})
        except CannotSerialize as misfit:
            return {NOT_KEPT: str(misfit), **_pointer(elsewhere)}
        return self.stored(text, elsewhere=elsewhere)

    def stored(self, text: str, *, elsewhere: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Do as ``call`` for arguments that are stored as portable JSON already."""
        if elsewhere is not None and len(text) > self.most_bytes:
            return {TRUNCATED: True, "bytes": len(text.encode()), **_pointer(elsewhere)}
        kept: dict[str, Any] = self.masked(_format.deserialize(text))
        return kept

    def masked(self, value: Any) -> Any:
        """Return a plain JSON value with what is secret replaced; a mapping says at its top which fields were."""
        if not self.mask_fields:
            return value
        found: set[str] = set()
        clean = self._masked(value, found)
        return {**clean, MASKED: sorted(found)} if found and isinstance(clean, dict) else clean

    def _masked(self, value: Any, found: set[str]) -> Any:
        if isinstance(value, dict):
            secret = {name for name in value if name.casefold() in self.mask_fields and value[name] is not None}
            found |= secret
            return {name: MASK if name in secret else self._masked(each, found) for name, each in value.items()}
        if isinstance(value, list):
            return [self._masked(each, found) for each in value]
        return value


def _pointer(elsewhere: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if elsewhere is None else {"whole": dict(elsewhere)}


def arguments_of(letter: FailedOperationData) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a letter keeps; ``ValueError`` says why they cannot be used.

    Those of a call are kept apart by position and name; any other request data, or payload, are named arguments.
    """
    kept = letter.request_data or (letter.payload if isinstance(letter.payload, dict) else {})
    for mark, why in (
        (TRUNCATED, "were too large to be kept with it"),
        (NOT_KEPT, "have no JSON form, and were not kept"),
        (MASKED, "were masked before they were stored"),
    ):
        if mark in kept:
            raise ValueError(
                f"The arguments of the dead letter {letter.id} {why}: replay it with a handler of its own."
            )
    if kept.keys() == {"positionalArgs", "namedArgs"}:
        return list(kept["positionalArgs"]), dict(kept["namedArgs"])
    return [], dict(kept)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error as text, its end if it is long."""
    return "".join(tracebacks.format_exception(error))[-_MOST_TRACEBACK:]


def failure_type_of(error: BaseException) -> str:
    """Return what a letter of *error* is filed under."""
    return type(error).__name__[:_LONGEST_WORD]


def error_code_of(error: BaseException) -> str:
    """Return the error's own ``code``, if it has one."""
    code = getattr(error, "code", None)
    return str(code)[:_LONGEST_WORD] if isinstance(code, (str, int)) else ""


async def make_letter(
    letters: Makes,
    domain: str,
    error: Exception,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    contents: Contents | None = None,
    metadata: Mapping[str, Any] | None = None,
    **more: Any,
) -> FailedOperationData | None:
    """Keep a call that failed for good with *error*, and return its letter.

    None, and nothing is kept, if the call belongs to the replay of a letter of this domain: then that replay has
    failed, whatever stands in for the error. *more* goes to ``create`` as it is.
    """
    replay = replayed.get()
    if replay is not None and replay.domain == domain:
        replay.failures.append(error)
        return None
    return await letters.create(
        domain,
        failure_type_of(error),
        str(error),
        error_code=error_code_of(error),
        request_data=(contents or Contents()).call(args, kwargs),
        metadata=dict(metadata or {}),
        error=traceback_of(error),
        **more,
    )


__all__ = [
    "DEFAULT_BYTES",
    "MASK",
    "MASKED",
    "NOT_KEPT",
    "TRUNCATED",
    "Contents",
    "Makes",
    "Replayed",
    "arguments_of",
    "error_code_of",
    "failure_type_of",
    "make_letter",
    "replayed",
    "traceback_of",
]
