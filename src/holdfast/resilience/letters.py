"""What goes into a dead letter of a failed call: its arguments and its error, masked and cut to size."""

from __future__ import annotations

import asyncio
import traceback as tracebacks
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.errors import CannotSerialize, ReplayRefused
from holdfast.serialize import PortableJSON
from holdfast.serialize.exact import safe_text
from holdfast.stores.dead_letters import door

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from inspect import Parameter

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.resilience.sealing import Sealing

MASK = "***"
TRUNCATED = "_truncated"
NOT_KEPT = "_not_kept"
MASKED = "_masked"
TYPES = "_types"
HIDDEN = "hidden"
SEALED = "_sealed"
DEFAULT_BYTES = 65_536
_MOST_TRACEBACK = 16_384
_LONGEST_WORD = 255
_PLAIN = frozenset({str, int, float, bool, type(None)})

_format = PortableJSON()


@dataclass(slots=True)
class Replayed:
    """A replay that the running code belongs to. Calls of its domain that fail are *failures* of it, and no letters.

    *letters* is the repository of its letter, *task* that of its handler.
    """

    domain: str
    letters: object = None
    task: object = None
    is_over: bool = False
    failures: list[Exception] = field(default_factory=list)

    def is_awaited_by(self, letters: object) -> bool:
        """Whether closing *letters* here would wait for the caller itself: its handler, or what the handler calls."""
        if self.is_over or self.letters is not letters:
            return False
        try:
            return asyncio.current_task() is self.task
        except RuntimeError:  # on a thread, which the handler waits for
            return True


replayed: ContextVar[Replayed | None] = ContextVar("holdfast_replayed_letter", default=None)


class Makes(Protocol):
    """Where a letter is put: a repository, or one inside of somebody's transaction."""

    @property
    def create(self) -> Callable[..., Coroutine[Any, Any, FailedOperationData]]:
        """The documented call, which stores it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What may be kept of a call: fields called one of *mask_fields*, in any case and at any depth, are masked.

    So are arguments that are given in their place, by the names of the *parameters* that they are for: what is beyond
    those has the name of ``*args``.
    Arguments that take more than *most_bytes* as JSON are left out where they are to be had elsewhere.
    """

    mask_fields: frozenset[str] = frozenset()
    most_bytes: int = DEFAULT_BYTES

    @classmethod
    def of(cls, mask_fields: Iterable[str] = (), most_bytes: int = DEFAULT_BYTES) -> Contents:
        """Return the rules for fields that are given by their names."""
        return cls(frozenset(each.casefold() for each in mask_fields), most_bytes)

    def call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], parameters: Sequence[Parameter] = ()
    ) -> dict[str, Any]:
        """Return the arguments of a call as they are kept, masked; ``_types`` names what JSON makes something else of.

        An argument that has no JSON form is not kept, and the letter says why.
        """
        try:
            text = _format.serialize_call(args, kwargs)
        except CannotSerialize as misfit:
            named = {name: _kept(value) for name, value in kwargs.items()}
            fitting = {"positionalArgs": [_kept(value) for value in args], "namedArgs": named}
            return {**self._masked_call(fitting, parameters), NOT_KEPT: str(misfit)}
        kept = self.stored(text, parameters)
        types = {where: shape(value) for where, value in _places(args, kwargs) if not _is_plain(value)}
        return {**kept, TYPES: types} if types else kept

    def stored(
        self, text: str, parameters: Sequence[Parameter] = (), *, elsewhere: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Do as ``call`` for arguments that are stored as portable JSON already.

        *elsewhere* says where the whole is to be found: then arguments that are too large are not kept.
        """
        if elsewhere is not None and (size := len(text.encode())) > self.most_bytes:
            return {TRUNCATED: True, "bytes": size, "whole": dict(elsewhere)}
        return self._masked_call(_format.deserialize(text), parameters)

    def masked(self, value: Any) -> Any:
        """Return a plain JSON value with what is secret replaced; a mapping says at its top which fields were."""
        if not self.mask_fields:
            return value
        found: set[str] = set()
        clean = self._masked(value, found)
        if not found or not isinstance(clean, dict):
            return clean
        before = clean.get(MASKED)  # of a call, whose arguments have names only where they are taken
        found |= {each for each in before if isinstance(each, str)} if isinstance(before, list) else set()
        return {**clean, MASKED: sorted(found)}

    def _masked_call(self, call: dict[str, Any], parameters: Sequence[Parameter]) -> dict[str, Any]:
        args = list(call.get("positionalArgs") or ())
        secret: set[str] = set()
        if self.mask_fields:
            for index, name in enumerate(_names(parameters, len(args))):
                if name.casefold() in self.mask_fields and args[index] is not None:
                    args[index] = MASK
                    secret.add(name)
        marked = {**call, "positionalArgs": args, MASKED: sorted(secret)} if secret else call
        kept: dict[str, Any] = self.masked(marked)
        return kept

    def _masked(self, value: Any, found: set[str]) -> Any:
        if isinstance(value, dict):
            secret = {name for name in value if name.casefold() in self.mask_fields and value[name] is not None}
            found |= secret
            return {name: MASK if name in secret else self._masked(each, found) for name, each in value.items()}
        if isinstance(value, list):
            return [self._masked(each, found) for each in value]
        return value


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters of *function*; none if it does not say, as some in C do not."""
    try:
        return tuple(signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _names(parameters: Sequence[Parameter], number: int) -> list[str]:
    """Return the names of so many arguments that are given in their place, as far as they have any."""
    taken = [each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    rest = [each.name for each in parameters if each.kind is each.VAR_POSITIONAL]
    return (taken + rest * (number - len(taken)))[:number]


def _places(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for index, value in enumerate(args):
        yield f"positionalArgs[{index}]", value
    for name, value in kwargs.items():
        yield f"namedArgs.{name}", value


def _kept(value: Any) -> Any:
    """Return one argument as plain JSON, or in its place why it has no JSON form."""
    try:
        return _format.deserialize(_format.serialize(value))
    except CannotSerialize as misfit:
        return {NOT_KEPT: str(misfit)}


def _is_plain(value: Any) -> bool:
    """Whether JSON gives back the same types."""
    kind = type(value)
    if kind is list or kind is dict:
        return all(map(_is_plain, value if kind is list else value.values()))
    return kind in _PLAIN


def shape(value: Any) -> str:
    """Return the type of a value, and for a container the types of what is in it."""
    kind = type(value)
    if kind not in (list, tuple, set, frozenset, dict):
        return kind.__qualname__
    inner = sorted({shape(each) for each in (value.values() if kind is dict else value)})
    return f"{kind.__name__}[{', '.join(inner)}]"


def check_types(letter: FailedOperationData, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ``ReplayRefused`` if an argument of the call that *letter* keeps has other types than it had then."""
    were = letter.request_data.get(TYPES, {})
    for where, value in _places(args, kwargs):
        if where in were and shape(value) != were[where]:
            raise ReplayRefused(
                f"The argument {where} of the dead letter {letter.id} was {were[where]}, and would be {shape(value)}: "
                "annotate it where it is taken, or replay the letter with a handler of its own."
            )


def arguments_of(letter: FailedOperationData) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a letter keeps, as plain JSON; ``ReplayRefused`` says why they cannot be used.

    Those of a call are kept apart by position and name; any other request data, or payload, are named arguments.
    """
    kept = letter.request_data or (letter.payload if isinstance(letter.payload, dict) else {})
    for mark, why in (
        (TRUNCATED, "were too large to be kept with it"),
        (NOT_KEPT, "were not all kept with it"),
        (MASKED, "were masked before they were stored"),
        (SEALED, "went through codecs of the application, which has to replay it"),
    ):
        if mark in kept:
            raise ReplayRefused(
                f"The arguments of the dead letter {letter.id} {why}: replay it with a handler of its own."
            )
    if kept.keys() - {TYPES} == {"positionalArgs", "namedArgs"}:
        return list(kept["positionalArgs"]), dict(kept["namedArgs"])
    return [], dict(kept)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error as text that every database keeps, its end if it is long."""
    return door.text("".join(tracebacks.format_exception(error))[-_MOST_TRACEBACK:])


def failure_type_of(error: BaseException) -> str:
    """Return what a letter of *error* is filed under."""
    return type(error).__name__[:_LONGEST_WORD]


def error_code_of(error: BaseException) -> str:
    """Return the error's own ``code``, if it has one, as text that every database keeps."""
    try:
        code = getattr(error, "code", None)
        return door.text(str(code)[:_LONGEST_WORD]) if isinstance(code, (str, int)) else ""
    except Exception:  # noqa: BLE001 -- a property of the error's own
        return ""


def make_letter(
    letters: Makes,
    domain: str,
    error: Exception,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    contents: Contents,
    sealing: Sealing,
    parameters: Sequence[Parameter] = (),
    metadata: Mapping[str, Any] | None = None,
    **more: Any,
) -> Coroutine[Any, Any, FailedOperationData | None]:
    """Keep a call that failed for good with *error*; what is awaited returns its letter.

    It only writes: all that is kept of the call is read here, as *contents* and *sealing* say; *parameters* are those
    of what was called. None, and nothing is
    kept, if the call belongs to the replay of a letter of this domain: then that replay has failed, whatever stands in
    for the error. *more* goes to ``create`` as it is.
    """
    replay = replayed.get()
    if replay is not None and replay.domain == domain:
        replay.failures.append(error)
        return _no_letter()
    told = sealing.letter(
        error,
        request_data=contents.call(args, kwargs, parameters),
        error_message=safe_text(error),
        error=traceback_of(error),
    )
    return letters.create(
        domain,
        failure_type_of(error),
        error_code=error_code_of(error),
        metadata=dict(metadata or {}),
        **told,
        **more,
    )


async def _no_letter() -> None:
    return None


__all__ = [
    "DEFAULT_BYTES",
    "HIDDEN",
    "MASK",
    "MASKED",
    "NOT_KEPT",
    "SEALED",
    "TRUNCATED",
    "TYPES",
    "Contents",
    "Makes",
    "Replayed",
    "arguments_of",
    "check_types",
    "error_code_of",
    "failure_type_of",
    "make_letter",
    "parameters_of",
    "replayed",
    "shape",
    "traceback_of",
]
