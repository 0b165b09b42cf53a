"""Durations at the door."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.durations import LONGEST, checked_seconds, days, milliseconds
from holdfast.errors import ConfigurationError, InvalidDuration


@pytest.mark.parametrize(("given", "length"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=2), 120.0), (LONGEST, LONGEST)])
def test_duration_is_a_number_of_seconds_or_a_timedelta(given: Any, length: float) -> None:
    assert checked_seconds(given, "timeout") == length
    assert milliseconds(given, "timeout") == length * 1000


@pytest.mark.parametrize(
    "given",
    [
        -1,
        -0.001,
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        LONGEST + 1,
        "soon",
        "5",
        b"5",
        True,
        False,
        None,
        pytest.param(10**400, id="huge"),
    ],
)
def test_duration_that_no_clock_counts_is_refused_by_name(given: Any) -> None:
    with pytest.raises(InvalidDuration, match="timeout is a number of seconds"):
        checked_seconds(given, "timeout")


def test_duration_may_have_a_least_length() -> None:
    assert milliseconds(0.001, "lease", least=0.001) == 1
    with pytest.raises(ValueError, match=r"lease .* from 0.001 s"):
        milliseconds(0, "lease", least=0.001)


def test_days_are_counted_likewise() -> None:
    assert days(1.5, "older_than_days") == timedelta(hours=36)
    for number in (-1, math.nan, math.inf, 10**11):
        with pytest.raises(ConfigurationError, match="older_than_days is a number of days"):
            days(number, "older_than_days")
