"""Which slots fire now, and which are let go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.cron import cron
from holdfast.core.moments import milliseconds_of, moment_of
from holdfast.core.slots import GRACE, plan, run_id_of, shift

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
EVERY_MINUTE = cron("* * * * *")


@pytest.mark.parametrize(
    ("late", "backfill", "fired", "missed"),
    [
        (timedelta(), False, 1, False),
        (timedelta(milliseconds=3), False, 1, False),
        (timedelta(seconds=59), False, 1, False),
        (GRACE, False, 2, False),
        (GRACE + timedelta(milliseconds=1), False, 1, True),
        (5 * MINUTE, False, 2, True),
        (5 * MINUTE, True, 6, False),
    ],
)
def test_slots_that_are_not_too_late_fire_and_with_backfill_all(
    late: timedelta, backfill: bool, fired: int, missed: bool
) -> None:
    made = plan(EVERY_MINUTE, NOON, NOON + late, backfill=backfill, most=100)
    assert (len(made.slots), made.missed) == (fired, missed)
    last = NOON + late - (NOON + late - NOON) % MINUTE
    assert made.slots[-1] == last
    assert made.following == last + MINUTE


def test_nothing_fires_before_its_time() -> None:
    made = plan(EVERY_MINUTE, NOON, NOON - timedelta(milliseconds=1), backfill=True, most=10)
    assert made == ([], NOON, False)


def test_slots_are_bounded_and_go_on_where_they_stopped() -> None:
    made = plan(EVERY_MINUTE, NOON, NOON + 10 * MINUTE, backfill=True, most=4)
    assert made.slots == [NOON + number * MINUTE for number in range(4)]
    assert made.following == NOON + 4 * MINUTE


def test_slots_of_a_rare_schedule_that_was_missed_are_left_out() -> None:
    yearly = cron("@yearly")
    made = plan(yearly, datetime(2026, 1, 1, tzinfo=UTC), NOON, backfill=False, most=10)
    assert made == ([], datetime(2027, 1, 1, tzinfo=UTC), True)


@given(milliseconds=st.integers(0, 4_000_000_000_000), jitter=st.integers(1, 86_400_000), name=st.text(max_size=5))
def test_shift_is_the_same_every_time_and_below_the_jitter(milliseconds: int, jitter: int, name: str) -> None:
    slot = moment_of(milliseconds)
    assert milliseconds_of(slot) == milliseconds
    assert 0 <= shift(name, slot, jitter) < jitter
    assert shift(name, slot, jitter) == shift(name, slot, jitter)


def test_shifts_differ_from_slot_to_slot_and_from_schedule_to_schedule() -> None:
    slots = [NOON + number * MINUTE for number in range(20)]
    assert len({shift(name, slot, 60_000) for slot in slots for name in "ab"}) > 35
    assert shift("a", NOON, 0) == 0


def test_run_is_named_after_the_schedule_and_the_instant() -> None:
    local = NOON.astimezone(cron("* * * * *", "Asia/Tokyo").zone)
    assert run_id_of("nightly", local) == run_id_of("nightly", NOON) == "sched-nightly-2026-06-01T12:00:00+00:00"
