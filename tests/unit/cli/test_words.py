"""How durations, times, attributes and JSON are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from holdfast.cli import words


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("0.5s", timedelta(milliseconds=500)),
        ("0d", timedelta(0)),
    ],
)
def test_duration_is_a_number_and_a_unit(word: str, expected: timedelta) -> None:
    assert words.duration(word) == expected


@pytest.mark.parametrize("word", ["", "30", "s", "-5s", "5 s", "5w", "1h30m", "1e3s", "٣s", "999999999d"])
def test_duration_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(click.BadParameter):
        words.duration(word)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("2030-01-31", datetime(2030, 1, 31, tzinfo=UTC)),
        ("2030-01-31T12:00:00", datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("2030-01-31T12:00:00Z", datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("2030-01-31T14:00:00+02:00", datetime(2030, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_time_is_aware_and_in_utc_unless_it_says_otherwise(word: str, expected: datetime) -> None:
    assert words.time(word) == expected


def test_time_that_is_none_is_refused_with_an_example() -> None:
    with pytest.raises(click.BadParameter, match="2030-01-31T12:00:00Z"):
        words.time("yesterday")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("a=1", ("a", 1)), ("a=true", ("a", True)), ("a=gold", ("a", "gold")), ("a=", ("a", "")), ('a="1"', ("a", "1"))],
)
def test_attribute_is_json_if_it_can_be_and_else_a_text(word: str, expected: tuple[str, Any]) -> None:
    assert words.attribute(word) == expected


@pytest.mark.parametrize("word", ["a", "=1", ""])
def test_attribute_without_name_or_value_is_refused(word: str) -> None:
    with pytest.raises(click.BadParameter, match="name=value"):
        words.attribute(word)


def test_arguments_are_json_of_the_right_kind() -> None:
    assert words.array('["a", 1]') == ["a", 1]
    assert words.mapping('{"a": 1}') == {"a": 1}
    for read, word in ((words.array, "{}"), (words.array, "[1"), (words.mapping, "[]"), (words.mapping, "x")):
        with pytest.raises(click.BadParameter, match="write it as"):
            read(word)
