"""Cron slots against a second library, and against what must hold of them in every zone."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.cron import Cron, cron

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the other library says at its import is not ours
    from croniter import croniter

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Africa/Cairo",
]
MOMENTS = st.datetimes(datetime(2005, 1, 1), datetime(2045, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 -- bounds are wall times


@st.composite
def _field(draw: st.DrawFn, low: int, high: int, *, star: bool = True) -> str:
    """A field as people write it; a range of one value is one of all to the other library."""
    first = draw(st.integers(low, high - 1))
    last = draw(st.integers(first + 1, high))
    step = draw(st.integers(1, max(1, (high - low) // 2)))
    forms = [str(first), f"{first}-{last}", f"{first}-{last}/{step}", f"{low},{first},{last}"]
    return draw(st.sampled_from([*forms, "*", f"*/{step}"] if star else forms))


@st.composite
def _expression(draw: st.DrawFn, *, seconds: bool) -> str:
    """An expression of which both libraries say the same: they differ where a day is said by ``*/n`` and a weekday."""
    clock = [draw(_field(0, 59)), draw(_field(0, 23))]
    by_day = draw(st.sampled_from(["day", "weekday", "either"]))
    day = "*" if by_day == "weekday" else draw(_field(1, 28, star=by_day == "day"))
    weekday = "*" if by_day == "day" else draw(_field(0, 6, star=by_day == "weekday"))
    return " ".join([*([draw(_field(0, 59))] if seconds else []), *clock, day, draw(_field(1, 12)), weekday])


def _theirs(expression: str, after: datetime, count: int) -> list[datetime]:
    other = croniter(expression, after, second_at_beginning=True)
    return [other.get_next(datetime) for _ in range(count)]


def _ours(made: Cron, after: datetime, count: int) -> list[datetime]:
    return list(islice(made.between(after + timedelta(microseconds=1), datetime(2150, 1, 1, tzinfo=UTC)), count))


@settings(max_examples=150, deadline=None)
@given(expression=st.booleans().flatmap(lambda seconds: _expression(seconds=seconds)), after=MOMENTS)
def test_slots_are_those_of_another_library(expression: str, after: datetime) -> None:
    whole = after.replace(microsecond=0)
    assert _ours(cron(expression), whole, 5) == _theirs(expression, whole, 5)


@settings(max_examples=150, deadline=None)
@given(expression=_expression(seconds=True), after=MOMENTS, zone=st.sampled_from(ZONES))
def test_slots_rise_and_previous_goes_the_same_way_back(expression: str, after: datetime, zone: str) -> None:
    made = cron(expression, zone)
    slots = _ours(made, after, 6)
    assert slots[0] > after
    for sooner, later in pairwise(slots):
        assert sooner < later
        assert made.previous(later) == sooner
        assert made.next(later - timedelta(microseconds=1)) == later


@settings(max_examples=150, deadline=None)
@given(expression=_expression(seconds=False), after=MOMENTS, zone=st.sampled_from(ZONES))
def test_slot_is_a_wall_time_that_fits_or_the_end_of_a_gap(expression: str, after: datetime, zone: str) -> None:
    made, calendar = cron(expression, zone), cron(expression)
    for slot in _ours(made, after, 4):
        wall = slot.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC, fold=0)
        fits = calendar.next(wall - timedelta(seconds=1)) == wall
        before = (slot - timedelta(seconds=1)).astimezone(made.zone)
        assert fits or before.utcoffset() != slot.astimezone(made.zone).utcoffset()


@settings(max_examples=100, deadline=None)
@given(expression=_expression(seconds=False), day=MOMENTS, zone=st.sampled_from(ZONES))
def test_wall_time_that_comes_once_is_a_slot_once(expression: str, day: datetime, zone: str) -> None:
    """On days without a change of the clock the slots are those of the calendar."""
    made, calendar = cron(expression, zone), cron(expression)
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    begin, end = (midnight.replace(tzinfo=ZoneInfo(zone)) + timedelta(days=n) for n in (0, 1))
    offsets = {
        (begin.astimezone(UTC) + timedelta(hours=n)).astimezone(ZoneInfo(zone)).utcoffset() for n in range(-2, 27)
    }
    if len(offsets) > 1:
        return
    slots = [slot.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) for slot in made.between(begin, end)]
    assert slots == list(calendar.between(midnight, midnight + timedelta(days=1)))
