"""Options as users give them by name, checked at the door: one that is not known is refused with those that are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from holdfast.core.numbers import count
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import Retry

if TYPE_CHECKING:
    from collections.abc import Collection

OnConflict = Literal["update", "keep", "reject"]


def refuse_unknown(what: str, said: Iterable[str], known: Collection[str], kind: str = "option") -> None:
    """Raise ``ConfigurationError`` if *what* was given an option, or another *kind* of thing, that it does not have."""
    unknown = [name for name in said if name not in known]
    if unknown:
        raise ConfigurationError(f"{what} has no {kind} {', '.join(unknown)}; there are {', '.join(known)}.")


def check_retry(what: str, retry: object) -> None:
    """Raise ``ConfigurationError`` unless *retry*, if *what* has one, is a ``Retry``."""
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(f"retry of {what} is a Retry, as in retry=Retry(attempts=5), not {retry!r:.100}.")


def check_count(what: str, number: int) -> None:
    """Raise ``ConfigurationError`` unless *number* is a whole number, and not below 0, that every database keeps."""
    try:
        count(number, what)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def check_on_conflict(policy: object) -> None:
    """Raise ``ConfigurationError`` unless *policy* says what becomes of a thing of this name that is there already."""
    known = get_args(OnConflict)
    if policy not in known:
        raise ConfigurationError(f"on_conflict is one of {', '.join(known)}, not {policy!r}.")


def several(what: str, given: object) -> tuple[Any, ...]:
    """Return those that are *given*; ``ConfigurationError`` for one text, whose letters would be taken, or no list.

    It does not show what was given: that may be an argument, which is in no message.
    """
    if isinstance(given, str | bytes):
        raise ConfigurationError(f"{what} are several, not one text: put it in a list.")
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise ConfigurationError(f"{what} are several, in a list or a tuple, not {type(given).__name__}.")
    return tuple(given)


def check_attributes(given: object) -> None:
    """Raise ``ConfigurationError`` unless the attributes of a run, if it has any, are names and values."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"attributes are names and their values, as in {{'floor': 1}}, not {given!r:.100}.")


__all__ = [
    "OnConflict",
    "check_attributes",
    "check_count",
    "check_on_conflict",
    "check_retry",
    "refuse_unknown",
    "several",
]
