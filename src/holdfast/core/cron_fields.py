"""Cron expressions as text: read field by field, refused with the place of the mistake.

Five fields (minute, hour, day of month, month, day of week), or six with the second before them. A field is a list of
``*``, ``a``, ``a-b``, each with a step: ``*/n``, ``a-b/n``, ``a/n`` (from *a* to the end). Months and days of the week
have English names of three letters; 0 and 7 are Sunday. ``L`` is the last day of the month, ``FRI#2`` the second
Friday, ``FRIL`` or ``5L`` the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from holdfast.errors import InvalidSchedule

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_WEEK = 7
_MOST_OF_A_DAY = 5  # a month has no sixth Friday

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class _Kind(NamedTuple):
    """A field: what it is called, its smallest and largest value, and the names of its values from the smallest on."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def allowed(self) -> str:
        names = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.first} to {self.last}{names}"


_KINDS = (
    _Kind("second", 0, 59),
    _Kind("minute", 0, 59),
    _Kind("hour", 0, 23),
    _Kind("day of month", 1, 31),
    _Kind("month", 1, 12, tuple(_MONTHS)),
    _Kind("day of week", 0, 7, tuple(_DAYS)),
)
_WITH_SECONDS = len(_KINDS)
_DAY, _WEEKDAY = _KINDS[3], _KINDS[5]


@dataclass(frozen=True, slots=True)
class Fields:
    """What an expression says: values in order, and what only a calendar can tell.

    *nth* are days of the week (0 is Sunday) with the how-manieth of its month, 0 for the last; *last_day* is the last
    day of the month. With *both_days* a day must fit day of month and day of week, else one of the two. *keeps_beat*
    if the hours are said with ``*``: such an expression is an interval, and no daylight saving shifts it.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    both_days: bool
    keeps_beat: bool


class _Read(NamedTuple):
    """One field, read: its values, whether ``L`` stands in it, and the days of the week with their number."""

    values: frozenset[int]
    last: bool
    nth: frozenset[tuple[int, int]]


class _Word:
    """One field of an expression while it is read; knows its place, for the message."""

    def __init__(self, expression: str, number: int, kind: _Kind, text: str) -> None:
        self._expression = expression
        self._number = number
        self._kind = kind
        self._text = text

    def read(self) -> _Read:
        values: set[int] = set()
        nth: set[tuple[int, int]] = set()
        last = False
        for part in self._text.split(","):
            if not part:
                self._refuse(self._text, "a list has something on both sides of each comma")
            if part == "L" and self._kind is _DAY:
                last = True
            elif self._kind is _WEEKDAY and ("#" in part or (part.endswith("L") and part != "L")):
                nth.add(self._nth(part))
            else:
                values.update(self._span(part))
        if self._kind is _WEEKDAY:
            values = {value % _WEEK for value in values}
        return _Read(frozenset(values), last, frozenset(nth))

    def _nth(self, part: str) -> tuple[int, int]:
        if part.endswith("L"):
            return self._value(part[:-1], part) % _WEEK, 0
        day, _, number = part.partition("#")
        if not _is_number(number) or not 1 <= int(number) <= _MOST_OF_A_DAY:
            self._refuse(part, f"the number after # is 1 to {_MOST_OF_A_DAY}")
        return self._value(day, part) % _WEEK, int(number)

    def _span(self, part: str) -> range:
        span, slash, step = part.partition("/")
        if slash and (not _is_number(step) or int(step) == 0):
            self._refuse(part, "the step after / is a whole number from 1 on")
        first, last = self._kind.first, self._kind.last
        if span != "*":
            low, dash, high = span.partition("-")
            first = self._value(low, part)
            last = self._value(high, part) if dash else (last if slash else first)
        elif self._kind is _WEEKDAY:
            last = _WEEK - 1  # Sunday is there already, as 0
        if last < first:
            self._refuse(part, "a range goes from the smaller to the larger value")
        return range(first, last + 1, int(step) if slash else 1)

    def _value(self, text: str, part: str) -> int:
        if text in self._kind.names:
            return self._kind.first + self._kind.names.index(text)
        if not _is_number(text) or not self._kind.first <= int(text) <= self._kind.last:
            self._refuse(part, f"allowed is {self._kind.allowed()}")
        return int(text)

    def _refuse(self, part: str, why: str) -> NoReturn:
        raise InvalidSchedule(
            f"Field {self._number} ({self._kind.name}) of the schedule {self._expression!r} cannot be {part!r}: {why}."
        )


def read_fields(expression: str) -> Fields:
    """Return what *expression* says; ``InvalidSchedule`` names the field, the wrong part and what is allowed."""
    written = ALIASES.get(expression.strip().lower(), expression)
    words = written.upper().split()
    if len(words) not in {_WITH_SECONDS - 1, _WITH_SECONDS}:
        raise InvalidSchedule(
            f"The schedule {expression!r} has {len(words)} fields: write five (minute, hour, day of month, month, day "
            f"of week), or six with the second before them; or one of {', '.join(ALIASES)}."
        )
    kinds = _KINDS[_WITH_SECONDS - len(words) :]
    read = [
        _Word(expression, number, kind, text).read()
        for number, (kind, text) in enumerate(zip(kinds, words, strict=True), 1)
    ]
    seconds = read[0] if len(words) == _WITH_SECONDS else _Read(frozenset({0}), last=False, nth=frozenset())
    minutes, hours, days, months, weekdays = read[-5:]
    return Fields(
        seconds=tuple(sorted(seconds.values)),
        minutes=tuple(sorted(minutes.values)),
        hours=tuple(sorted(hours.values)),
        days=days.values,
        last_day=days.last,
        months=months.values,
        weekdays=weekdays.values,
        nth=weekdays.nth,
        both_days=words[-3].startswith("*") or words[-1].startswith("*"),
        keeps_beat=words[-4].startswith("*") or len(hours.values) == _KINDS[2].last + 1,
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


__all__ = ["ALIASES", "Fields", "read_fields"]
