"""How much may be claimed: limits, counts and turns, without a clock or a database."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import Limits, Room, Use, room, shares, soonest, worker_room

COUNTS = st.integers(min_value=0, max_value=50)


def test_room_without_limits_is_all_that_was_asked_for() -> None:
    assert room(Limits(), Use(running=10_000), now_ms=0, most=200) == Room(200)


@pytest.mark.parametrize(("running", "free"), [(0, 5), (3, 2), (5, 0), (9, 0)])
def test_room_under_concurrency_is_what_is_not_running(running: int, free: int) -> None:
    assert room(Limits(concurrency=5), Use(running=running), now_ms=0, most=200).free == free


def test_room_under_a_rate_comes_back_when_the_first_start_leaves_the_period() -> None:
    limits = Limits(rate_max=3, period_ms=1000)
    assert room(limits, Use(starts=3, oldest_start_ms=5_400), now_ms=6_000, most=10) == Room(0, again_ms=400)


def test_room_under_a_rate_that_suffices_says_nothing_of_later() -> None:
    limits = Limits(rate_max=30, period_ms=1000)
    assert room(limits, Use(starts=3, oldest_start_ms=5_400), now_ms=6_000, most=10) == Room(10)


def test_room_that_another_limit_leaves_is_not_brought_by_time() -> None:
    limits = Limits(concurrency=5, rate_max=6, period_ms=1000)
    assert room(limits, Use(running=2, starts=3, oldest_start_ms=5_400), now_ms=6_000, most=10) == Room(3)


def test_room_under_a_clock_that_went_back_is_looked_for_again_later() -> None:
    limits = Limits(rate_max=1, period_ms=1000)
    assert room(limits, Use(starts=1, oldest_start_ms=0), now_ms=5_000, most=1) == Room(0, again_ms=1)


def test_room_takes_the_tightest_of_all_limits() -> None:
    limits = Limits(concurrency=10, rate_max=4, period_ms=1000)
    assert room(limits, Use(running=8, starts=1, oldest_start_ms=0), now_ms=10, most=200).free == 2
    assert room(limits, Use(running=1, starts=3, oldest_start_ms=0), now_ms=10, most=200).free == 1


@given(
    concurrency=st.none() | COUNTS,
    rate_max=st.none() | COUNTS,
    running=COUNTS,
    starts=COUNTS,
    most=COUNTS,
)
def test_room_never_takes_a_queue_above_a_limit(
    concurrency: int | None, rate_max: int | None, running: int, starts: int, most: int
) -> None:
    use = Use(running, starts, 0 if starts else None)
    found = room(Limits(concurrency, rate_max, 1000), use, now_ms=500, most=most)
    assert 0 <= found.free <= most
    assert concurrency is None or found.free <= max(0, concurrency - running)
    assert rate_max is None or found.free <= max(0, rate_max - starts)
    assert found.again_ms is None or found.again_ms >= 1


def test_worker_room_is_within_capacity_and_the_limit_of_one_process() -> None:
    assert worker_room(100, 30, None, 0) == 70
    assert worker_room(100, 30, 10, 4) == 6
    assert worker_room(100, 98, 10, 4) == 2
    assert worker_room(100, 120, None, 0) == 0
    assert worker_room(100, 0, 3, 5) == 0


@pytest.mark.parametrize(
    ("total", "free", "given_out"),
    [
        (0, [5, 5], [0, 0]),
        (3, [5, 5, 5, 5], [1, 1, 1, 0]),
        (7, [5, 5, 5], [3, 2, 2]),
        (100, [5, 1, 3], [5, 1, 3]),
        (10, [100, 2, 2], [6, 2, 2]),
        (4, [0, 9, 0, 9], [0, 2, 0, 2]),
        (4, [], []),
    ],
)
def test_shares_go_round_one_by_one_from_the_first_on(total: int, free: list[int], given_out: list[int]) -> None:
    assert shares(total, free) == given_out


@given(total=st.integers(0, 300), free=st.lists(st.integers(0, 60), max_size=25))
def test_shares_are_fair_and_leave_nothing_that_is_wanted(total: int, free: list[int]) -> None:
    got = shares(total, free)
    assert sum(got) == min(total, sum(free))
    assert all(0 <= mine <= most for mine, most in zip(got, free, strict=True))
    # Whoever could have had more has at most one less than anybody else.
    hungry = [mine for mine, most in zip(got, free, strict=True) if mine < most]
    assert not hungry or max(got) - min(hungry) <= 1


def test_soonest_passes_over_waits_for_nothing() -> None:
    assert soonest(None, 3.0, None, 0.5) == 0.5
    assert soonest(None, None) is None
    assert soonest() is None
