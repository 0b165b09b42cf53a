"""The slots of a cron expression: the instants at which it fires, on the calendar of a time zone.

Clocks that are set forward leave out wall times, clocks that are set back have some of them twice. An expression that
names its hours fires at wall times: one that is left out fires right after the gap, once for all in it; one that comes
twice fires the first time. An expression whose hours are ``*`` (or ``*/n``) is an interval: it fires whenever the wall
clock fits, so that its beat goes on through both. All instants here are aware, and come back in UTC.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

from holdfast.core.cron_fields import read_fields
from holdfast.errors import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_WEEK = 7
_YEARS = 60  # within these every possible day has come: a 29 February that is a Monday takes 40 at most


class Cron:
    """One expression in one zone; make it with ``cron()``."""

    def __init__(self, expression: str, zone: tzinfo) -> None:
        self.zone = zone
        self.fields = read_fields(expression)

    def next(self, after: datetime) -> datetime | None:
        """Return the first slot later than *after*, which is aware; None if there is none any more."""
        moment = after.astimezone(UTC)
        return self._next_beat(moment) if self.fields.keeps_beat else self._next_at_wall_time(moment)

    def previous(self, before: datetime) -> datetime | None:
        """Return the last slot earlier than *before*; None if there is none in the years before it."""
        moment = before.astimezone(UTC)
        span = _SECOND
        while span < _YEARS * 366 * _DAY:
            last = None
            for slot in self.between(moment - span, moment):
                last = slot
            if last is not None:
                return last
            span *= 4
        return None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the slots from *start* on, and before *end*."""
        slot = self.next(start - timedelta(microseconds=1))
        while slot is not None and slot < end:
            yield slot
            slot = self.next(slot)

    def _next_at_wall_time(self, after: datetime) -> datetime | None:
        """Go through wall times; their instants never go back, so the first that is later is the one."""
        wall = self._wall(after)
        while (found := self._next_wall(wall)) is not None:
            instant = self._instant(found)
            if instant > after:
                return instant
            wall = found
        return None

    def _next_beat(self, after: datetime) -> datetime | None:
        """Go through the spans in which the offset stays the same; within one, wall times and instants go together."""
        start = after
        offset = self._offset(start)
        found = self._next_wall(self._wall(start))
        while found is not None:
            slot = (found - offset).replace(tzinfo=UTC)
            end = min(slot, start + _DAY)  # no zone has changed twice within a day
            if self._offset(end) == offset:
                if end == slot:
                    return slot
                start = end
                continue
            change = self._change(start, end)
            if slot < change:
                return slot
            start, offset = change, self._offset(change)
            found = self._next_wall(self._wall(change) - _SECOND)
        return None

    def _instant(self, wall: datetime) -> datetime:
        """Return when a wall time is: its first time if it comes twice, the end of the gap if it is left out."""
        early = wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        if self._wall(early) == wall:
            return early
        return self._change(wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC), early)

    def _change(self, before: datetime, after: datetime) -> datetime:
        """Return the first instant with another offset than *before* has; *after* has it."""
        offset = self._offset(before)
        low, high = 0, int((after - before) / _SECOND) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(before + middle * _SECOND) == offset:
                low = middle
            else:
                high = middle
        return (before + high * _SECOND).replace(microsecond=0)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta()

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone).replace(tzinfo=None, fold=0, microsecond=0)

    def _next_wall(self, after: datetime) -> datetime | None:
        """Return the first wall time later than *after*, which has whole seconds, that fits."""
        start = after + _SECOND
        clock = self._next_clock(start.hour, start.minute, start.second)
        if clock is not None and self._fits(start.date()):
            return start.replace(hour=clock[0], minute=clock[1], second=clock[2])
        day = self._next_day(start.date())
        if day is None:
            return None
        fields = self.fields
        return datetime(day.year, day.month, day.day, fields.hours[0], fields.minutes[0], fields.seconds[0])  # noqa: DTZ001 -- a wall time

    def _next_clock(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """Return the first time of day that fits, this one or a later one; None if there is none on that day."""
        hours, minutes, seconds = self.fields.hours, self.fields.minutes, self.fields.seconds
        if hour in hours:
            if minute in minutes and (at := bisect_left(seconds, second)) < len(seconds):
                return hour, minute, seconds[at]
            if (at := bisect_left(minutes, minute + 1)) < len(minutes):
                return hour, minutes[at], seconds[0]
        if (at := bisect_left(hours, hour + 1)) < len(hours):
            return hours[at], minutes[0], seconds[0]
        return None

    def _next_day(self, after: date) -> date | None:
        year, month, first = after.year, after.month, after.day + 1
        while year <= after.year + _YEARS:
            if month in self.fields.months:
                for number in range(first, calendar.monthrange(year, month)[1] + 1):
                    day = date(year, month, number)
                    if self._fits(day):
                        return day
            first = 1
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return None

    def _fits(self, day: date) -> bool:
        fields = self.fields
        if day.month not in fields.months:
            return False
        last = calendar.monthrange(day.year, day.month)[1]
        by_day = day.day in fields.days or (fields.last_day and day.day == last)
        weekday = day.isoweekday() % _WEEK
        number = (day.day + _WEEK - 1) // _WEEK
        by_weekday = (
            weekday in fields.weekdays
            or (weekday, number) in fields.nth
            or ((weekday, 0) in fields.nth and day.day + _WEEK > last)
        )
        return (by_day and by_weekday) if fields.both_days else (by_day or by_weekday)


@lru_cache(maxsize=4096)
def cron(expression: str, zone: str | None = None) -> Cron:
    """Return *expression* on the calendar of *zone*, an IANA name; UTC if none is named.

    Raises ``InvalidSchedule`` that names the field and the part that is wrong, or the zone.
    """
    return Cron(expression, _zone(zone or "UTC"))


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)  # which a machine without zones has, too
    except (LookupError, ValueError, OSError):  # what ZoneInfo says to a name, a path and a folder
        known = available_timezones()
        if not known:
            raise InvalidSchedule(
                f"There is no time zone {name!r} here, nor any other: install the package tzdata, of the system or by "
                "pip."
            ) from None
        near = sorted(each for each in known if name.lower() in each.lower())[:3]
        meant = f"; did you mean {' or '.join(near)}?" if near and name else ""
        raise InvalidSchedule(
            f"There is no time zone {name!r} here: write an IANA name such as Europe/Berlin{meant or '.'}"
        ) from None


__all__ = ["Cron", "cron"]
