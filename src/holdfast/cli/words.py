"""How durations, times, attributes and JSON are written on the command line: each function is the type of an option."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.core.durations import LONGEST
from holdfast.core.numbers import MOST_COUNTED, number

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"([0-9]{1,8}(?:\.[0-9]{1,6})?)([smhd])")


COUNT = click.IntRange(1, MOST_COUNTED)
POSITION = click.IntRange(0, MOST_COUNTED)
DAYS = click.IntRange(0, int(LONGEST / 86_400))


def person(word: str) -> int:
    """Read the id of a person."""
    try:
        return number(int(word), "It")
    except ValueError:
        raise click.BadParameter(f"{word!r} is no id: write a whole number of at most 64 bits.") from None


def duration(word: str) -> timedelta:
    """Read ``30s``, ``15m``, ``12h`` or ``7d``."""
    match = _DURATION.fullmatch(word)
    if match is None:
        raise click.BadParameter(
            f"{word!r} is no duration: write a number and s, m, h or d, as in 30s, 15m, 12h or 7d."
        )
    length = timedelta(**{_UNITS[match[2]]: float(match[1])})
    if length.total_seconds() > LONGEST:
        raise click.BadParameter(f"{word!r} is longer than a hundred years.")
    return length


def time(word: str) -> datetime:
    """Read a time in ISO-8601; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(word)
    except ValueError:
        raise click.BadParameter(f"{word!r} is no time: write it as 2030-01-31T12:00:00Z.") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def text(word: str) -> str:
    """Read a text that chooses something. An empty one comes of a variable that is not set, and chooses nothing."""
    if not word:
        raise click.BadParameter("It is empty: say what is meant, or leave the option away.")
    return word


def array(word: str) -> list[Any]:
    """Read a JSON array."""
    read = _json(word, example='["order-17", 3]')
    if not isinstance(read, list):
        raise click.BadParameter('A JSON array is wanted here: write it as ["order-17", 3].')
    return read


def mapping(word: str) -> dict[str, Any]:
    """Read a JSON object."""
    read = _json(word, example='{"order": 17}')
    if not isinstance(read, dict):
        raise click.BadParameter('A JSON object is wanted here: write it as {"order": 17}.')
    return read


def value(word: str) -> Any:
    """Read any JSON."""
    return _json(word, example='{"order": 17}')


def attribute(word: str) -> tuple[str, Any]:
    """Read ``name=value``; the value is JSON if it can be read as that, else a text."""
    name, equals, text = word.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{word!r} is no attribute: write it as name=value.")
    try:
        return name, msgspec.json.decode(text)
    except msgspec.DecodeError:
        return name, text


def distinct(attributes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return attributes by name; one that was given twice is refused, since a run has one value of a name."""
    found: dict[str, Any] = {}
    for name, value in attributes:
        if name in found:
            raise click.UsageError(f"--attribute {name}=... is given twice, and a run has one value of it: give one.")
        found[name] = value
    return found


def _json(word: str, *, example: str) -> Any:
    try:
        return msgspec.json.decode(word)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"This is not JSON ({error}): write it as {example}.") from None


__all__ = [
    "COUNT",
    "DAYS",
    "POSITION",
    "array",
    "attribute",
    "distinct",
    "duration",
    "mapping",
    "person",
    "text",
    "time",
    "value",
]
