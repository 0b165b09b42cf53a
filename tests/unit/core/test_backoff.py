"""How long the library itself waits before it tries again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.backoff import backoff


def test_waits_double_up_to_the_cap() -> None:
    assert [backoff(attempt, base=1, cap=10, draw=1) for attempt in range(1, 6)] == [1, 2, 4, 8, 10]


def test_half_of_the_wait_is_chance() -> None:
    assert backoff(3, base=1, cap=10, draw=0) == 2
    assert backoff(3, base=1, cap=10, draw=0.5) == 3


@given(attempt=st.integers(1, 10**9), draw=st.floats(0, 1))
def test_no_attempt_is_too_many(attempt: int, draw: float) -> None:
    assert 0 < backoff(attempt, base=0.05, cap=60, draw=draw) <= 60
