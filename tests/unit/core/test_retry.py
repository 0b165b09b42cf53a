"""Whether, and after how long, a failed attempt is followed by another."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.retry import wait_before_retry
from holdfast.model.workflow import Retry

_ERROR = ValueError("no")


def _waits(policy: Retry, attempts: int, draw: float = 0.0) -> list[float | None]:
    return [wait_before_retry(policy, attempt, _ERROR, draw) for attempt in range(1, attempts + 1)]


def test_waits_grow_by_the_factor_up_to_the_cap_and_end_with_the_last_attempt() -> None:
    policy = Retry(attempts=6, interval=1, backoff=3, cap=20, jitter=0)
    assert _waits(policy, 7) == [1, 3, 9, 20, 20, None, None]


def test_one_attempt_is_no_retry() -> None:
    assert _waits(Retry(attempts=1), 1) == [None]


def test_durations_may_be_timedeltas() -> None:
    policy = Retry(interval=timedelta(milliseconds=500), cap=timedelta(milliseconds=700), jitter=0)
    assert _waits(policy, 3) == [0.5, 0.7, None]


@pytest.mark.parametrize(
    ("jitter", "draw", "expected"), [(0.5, 0, 5), (0.5, 1, 10), (1, 0, 0), (1, 1, 10), (0, 0.3, 10)]
)
def test_jitter_is_a_part_of_the_wait(jitter: float, draw: float, expected: float) -> None:
    assert _waits(Retry(interval=10, jitter=jitter), 1, draw) == [expected]


def test_final_errors_are_not_followed_by_an_attempt() -> None:
    assert wait_before_retry(Retry(never=(ValueError,)), 1, _ERROR, 0) is None
    assert wait_before_retry(Retry(never=(LookupError,)), 1, KeyError("k"), 0) is None
    assert wait_before_retry(Retry(never=(LookupError,)), 1, _ERROR, 0) is not None


def test_group_of_errors_is_final_if_one_of_them_is() -> None:
    group = ExceptionGroup("parts", [OSError("busy"), ExceptionGroup("inner", [ValueError("no")])])
    assert wait_before_retry(Retry(never=(ValueError,)), 1, group, 0) is None
    assert wait_before_retry(Retry(never=(ExceptionGroup,)), 1, group, 0) is None
    assert wait_before_retry(Retry(never=(KeyError,)), 1, group, 0) is not None
    assert wait_before_retry(Retry(when=lambda error: "yes" in str(error)), 1, _ERROR, 0) is None
    assert wait_before_retry(Retry(when=lambda error: "no" in str(error)), 1, _ERROR, 0) is not None


def test_error_that_the_policy_cannot_judge_is_final_and_says_why() -> None:
    error = ValueError("of the step")
    assert wait_before_retry(Retry(when=lambda found: found.code >= 500), 1, error, 0) is None  # type: ignore[attr-defined]
    [note] = error.__notes__
    assert "`when` of its Retry failed: AttributeError: 'ValueError' object has no attribute 'code'" in note


@given(
    attempt=st.integers(1, 10**6),
    backoff=st.floats(1, 1e6),
    interval=st.floats(0, 1e6),
    cap=st.floats(0, 1e9),
    jitter=st.floats(0, 1),
    draw=st.floats(0, 1),
)
def test_every_wait_is_between_nothing_and_the_cap(attempt: int, **given_: float) -> None:
    draw = given_.pop("draw")
    options: Any = given_
    wait = wait_before_retry(Retry(attempts=10**7, **options), attempt, _ERROR, draw)
    assert wait is not None
    assert 0 <= wait <= given_["cap"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"backoff": 0.5},
        {"backoff": math.nan},
        {"backoff": math.inf},
        {"backoff": 10**400},
        {"interval": -1},
        {"interval": 10**400},
    ],
)
def test_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"Retry.{name}"):
        Retry(**wrong)


async def _asked_elsewhere(error: BaseException) -> bool:
    return "no" not in str(error)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": "3"},
        {"attempts": 2.5},
        {"attempts": True},
        {"interval": "1 s"},
        {"backoff": None},
        {"cap": None},
        {"jitter": "half"},
        {"when": 500},
        {"when": _asked_elsewhere},
        {"never": "ValueError"},
        {"never": [ValueError, 3]},
        {"never": int},
        {"never": None},
    ],
)
def test_policy_of_something_else_is_refused_by_name_when_it_is_made(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=f"Retry.{name}"):
        Retry(**wrong)


@pytest.mark.parametrize("never", [ValueError, [ValueError], (each for each in [ValueError]), {ValueError}])
def test_final_errors_may_be_one_class_or_any_collection_of_them(never: Any) -> None:
    policy = Retry(never=never)
    assert policy.never == (ValueError,)
    assert wait_before_retry(policy, 1, _ERROR, 0) is None
