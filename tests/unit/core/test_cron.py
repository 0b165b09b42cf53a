"""Cron expressions: what they say, what is refused, and their slots through changes of the clock."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.cron import cron
from holdfast.errors import InvalidSchedule


def _at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def _slots(expression: str, zone: str, after: str, count: int) -> list[str]:
    """Return slots as wall times with their offsets; *after* is UTC."""
    made = cron(expression, zone)
    far = made.between(_at(after) + timedelta(microseconds=1), datetime(2200, 1, 1, tzinfo=UTC))
    return [slot.astimezone(made.zone).isoformat() for slot in islice(far, count)]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("*/20 * * * * *", "2026-01-01T00:00:41", "2026-01-01T00:01:00"),
        ("0 0 3 * * *", "2026-01-01T03:00:00", "2026-01-02T03:00:00"),
        ("0 3 * * *", "2026-01-01T02:59:59", "2026-01-01T03:00:00"),
        ("30 9-17/4 * * MON-FRI", "2026-01-02T17:31:00", "2026-01-05T09:30:00"),
        ("5/20 * * * *", "2026-01-01T00:05:00", "2026-01-01T00:25:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
        ("0 0 L * *", "2026-02-01T00:00:00", "2026-02-28T00:00:00"),
        ("0 0 L 2 *", "2028-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 * * MON#1", "2026-01-06T00:00:00", "2026-02-02T00:00:00"),
        ("0 0 * * FRIL", "2026-01-01T00:00:00", "2026-01-30T00:00:00"),
        ("0 0 * * 5L", "2026-01-31T00:00:00", "2026-02-27T00:00:00"),
        ("0 0 * * 7", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("0 0 * * sun", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("0 0 * * 5-7", "2026-01-03T12:00:00", "2026-01-04T00:00:00"),
        ("0 0 13 * FRI", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),  # both are named: one of them is enough
        ("0 0 */13 * FRI", "2026-01-01T00:00:00", "2026-02-27T00:00:00"),  # with a star both must fit: 1, 14 or 27
        ("0 0 1 JAN,jul *", "2026-01-01T00:00:00", "2026-07-01T00:00:00"),
        ("@daily", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@Hourly", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("59 59 23 31 12 *", "2026-12-31T23:59:59", "2027-12-31T23:59:59"),
    ],
)
def test_next_slot_is_the_first_that_fits(expression: str, after: str, expected: str) -> None:
    assert cron(expression).next(_at(after)) == _at(expected)
    assert cron(expression).next(_at(after) - timedelta(microseconds=1)) is not None
    assert cron(expression).previous(_at(expected) + timedelta(seconds=1)) == _at(expected)


def test_slot_between_two_seconds_is_the_next_whole_one() -> None:
    half = _at("2026-01-01T00:00:00") + timedelta(milliseconds=500)
    assert cron("* * * * * *").next(half) == _at("2026-01-01T00:00:01")
    assert cron("0 0 * * *").next(half - timedelta(seconds=1)) == _at("2026-01-01T00:00:00")


def test_expression_of_a_day_that_never_comes_has_no_slot() -> None:
    assert cron("0 0 30 2 *").next(_at("2026-01-01T00:00:00")) is None
    assert cron("* * 31 4,6,9,11 *").next(_at("2026-01-01T00:00:00")) is None
    assert cron("0 0 30 2 *").previous(_at("2026-01-01T00:00:00")) is None


@pytest.mark.parametrize(
    ("expression", "field", "part", "why"),
    [
        ("60 * * * *", "Field 1 (minute)", "'60'", "0 to 59"),
        ("* 24 * * *", "Field 2 (hour)", "'24'", "0 to 23"),
        ("* * 0 * *", "Field 3 (day of month)", "'0'", "1 to 31"),
        ("* * * 13 *", "Field 4 (month)", "'13'", "1 to 12, or JAN to DEC"),
        ("* * * * 8", "Field 5 (day of week)", "'8'", "0 to 7, or SUN to SAT"),
        ("0 60 * * * *", "Field 2 (minute)", "'60'", "0 to 59"),
        ("61 * * * * *", "Field 1 (second)", "'61'", "0 to 59"),
        ("* 1,,2 * * *", "Field 2 (hour)", "'1,,2'", "comma"),
        ("1,2,x * * * *", "Field 1 (minute)", "'X'", "0 to 59"),
        ("*/0 * * * *", "Field 1 (minute)", "'*/0'", "from 1 on"),
        ("*/x * * * *", "Field 1 (minute)", "'*/X'", "from 1 on"),
        ("5-1 * * * *", "Field 1 (minute)", "'5-1'", "from the smaller"),
        ("* * * * FRI#6", "Field 5 (day of week)", "'FRI#6'", "1 to 5"),
        ("L * * * *", "Field 1 (minute)", "'L'", "0 to 59"),
        ("* * * * L", "Field 5 (day of week)", "'L'", "0 to 7"),
        ("-1 * * * *", "Field 1 (minute)", "'-1'", "0 to 59"),
        ("1- * * * *", "Field 1 (minute)", "'1-'", "0 to 59"),
        ("²  * * * *", "Field 1 (minute)", "'²'", "0 to 59"),
    ],
)
def test_mistake_is_refused_with_its_place(expression: str, field: str, part: str, why: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        cron(expression)
    for each in (field, part, why, repr(expression)):
        assert each in str(caught.value)


@pytest.mark.parametrize("expression", ["", "* * *", "* * * * * * *", "@never", "every day"])
def test_wrong_number_of_fields_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"five .* or six"):
        cron(expression)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "Europe", "a\0b", "/usr/share", " "])
def test_wrong_zone_is_refused_by_its_name(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="no time zone") as caught:
        cron("* * * * *", zone)
    assert repr(zone) in str(caught.value)


def test_wrong_zone_is_refused_with_what_was_perhaps_meant() -> None:
    with pytest.raises(InvalidSchedule, match="did you mean America/Montreal"):
        cron("* * * * *", "montreal")


def test_no_zone_is_utc() -> None:
    assert cron("* * * * *").zone == cron("* * * * *", "").zone == cron("* * * * *", "UTC").zone == UTC


def test_machine_without_zones_has_utc_and_is_told_what_to_install() -> None:
    program = (
        "import sys, zoneinfo\n"
        "zoneinfo.reset_tzpath([])\n"
        "sys.modules['tzdata'] = None\n"
        "from holdfast.core.cron import cron\n"
        "cron('* * * * *'), cron('* * * * *', 'UTC')\n"
        "try:\n"
        "    cron('* * * * *', 'Europe/Berlin')\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "There is no time zone 'Europe/Berlin' here, nor any other: install the package tzdata" in told.stdout


# An expression that names its hours, a zone, a moment in UTC shortly before the clocks change, and what comes.
_NAMED_HOURS = [
    # Forward: 02:00 -> 03:00. Back: 03:00 -> 02:00.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-27T12:00",
        ["28T02:30:00+01:00", "29T03:00:00+02:00", "30T02:30:00+02:00"],
    ),
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-23T12:00",
        ["24T02:30:00+02:00", "25T02:30:00+02:00", "26T02:30:00+01:00"],
    ),
    ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29T03:00:00+02:00", "30T02:30:00+02:00"]),
    ("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29T03:00:00+02:00", "30T02:00:00+02:00"]),
    (
        "*/30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00",
        ["25T02:00:00+02:00", "25T02:30:00+02:00", "26T02:00:00+01:00"],
    ),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29T03:00:00+02:00", "30T02:00:00+02:00"]),
    ("30 2 * * *", "America/New_York", "2026-03-07T12:00", ["08T03:00:00-04:00", "09T02:30:00-04:00"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["01T01:30:00-04:00", "02T01:30:00-05:00"]),
    # Lord Howe moves by half an hour: 02:00 -> 02:30 in October, 02:00 -> 01:30 in April.
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00", ["04T02:30:00+11:00", "05T02:15:00+11:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00", ["05T01:45:00+11:00", "06T01:45:00+10:30"]),
    # Casablanca goes back for Ramadan, 03:00 -> 02:00, and forward again after it, 02:00 -> 03:00.
    ("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", ["15T02:30:00+01:00", "16T02:30:00+00:00"]),
    ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", ["22T03:00:00+01:00", "23T02:30:00+01:00"]),
    # Samoa had no 30 December 2011.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", ["29T09:00:00-10:00", "31T00:00:00+14:00", "31T09:00:00+14:00"]),
    ("0 0 30 12 *", "Pacific/Apia", "2011-12-29T00:00", ["31T00:00:00+14:00", "30T00:00:00+14:00"]),
    # A gap at midnight: 00:00 -> 01:00.
    ("0 0 * * *", "Africa/Cairo", "2026-04-22T23:00", ["24T01:00:00+03:00", "25T00:00:00+03:00"]),
]


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), _NAMED_HOURS)
def test_named_hour_fires_once_a_day_whatever_the_clocks_do(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    assert [slot[8:] for slot in _slots(expression, zone, after, len(expected))] == expected


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Europe/Berlin", "2026-03-29T01:00"),
        ("Europe/Berlin", "2026-10-25T01:00"),
        ("America/New_York", "2026-03-08T07:00"),
        ("America/New_York", "2026-11-01T06:00"),
        ("Australia/Lord_Howe", "2026-10-03T15:30"),
        ("Australia/Lord_Howe", "2026-04-04T15:00"),
        ("Africa/Casablanca", "2026-02-15T02:00"),
        ("Pacific/Apia", "2011-12-30T10:00"),
        ("Asia/Kathmandu", "2026-06-01T00:15"),
    ],
)
def test_interval_keeps_its_beat_through_every_change(zone: str, around: str) -> None:
    start = _at(around) - timedelta(hours=5)
    slots = list(islice(cron("*/10 * * * *", zone).between(start, start + timedelta(hours=10)), 100))
    steps = {later - sooner for sooner, later in pairwise(slots)}
    assert steps == {timedelta(minutes=10)}
    assert len(slots) in {59, 60}


def test_hour_of_every_hour_comes_twice_when_the_clocks_go_back_and_not_at_all_when_they_go_forward() -> None:
    back = _slots("30 * * * *", "Europe/Berlin", "2026-10-24T23:45", 4)
    assert [slot[11:] for slot in back] == ["02:30:00+02:00", "02:30:00+01:00", "03:30:00+01:00", "04:30:00+01:00"]
    forward = _slots("30 * * * *", "Europe/Berlin", "2026-03-29T00:15", 2)
    assert [slot[11:] for slot in forward] == ["01:30:00+01:00", "03:30:00+02:00"]
    every_second_hour = _slots("0 */2 * * *", "Europe/Berlin", "2026-10-24T22:30", 3)
    assert [slot[11:] for slot in every_second_hour] == ["02:00:00+02:00", "02:00:00+01:00", "04:00:00+01:00"]
    assert _slots("0 0-23 * * *", "Europe/Berlin", "2026-10-24T23:30", 2)[1][11:] == "02:00:00+01:00"


def test_rare_interval_sees_a_change_on_its_way() -> None:
    monthly = _slots("0 * 1 * *", "Europe/Berlin", "2026-03-01T22:30", 2)
    assert monthly == ["2026-04-01T00:00:00+02:00", "2026-04-01T01:00:00+02:00"]


def test_slots_between_include_the_start_and_not_the_end() -> None:
    start, end = _at("2026-01-01T00:00"), _at("2026-01-01T03:00")
    assert [slot.hour for slot in cron("0 * * * *").between(start, end)] == [0, 1, 2]
