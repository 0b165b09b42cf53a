"""What may become of a failed operation, decided without a clock and without a storage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from holdfast.core.dead_letters import (
    Acquire,
    Archive,
    Beat,
    Claim,
    Complete,
    CountRetry,
    Event,
    GiveBack,
    Release,
    SetStatus,
    Standing,
    rests_on_standing,
    retry_wait,
    standing,
    summary_may_become,
    transition,
    was_completed,
)
from holdfast.model.dead_letter import FailedOperationData, FailedOperationStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STATUSES = [status.value for status in FailedOperationStatus]


def record(status: str = "pending", **fields: Any) -> FailedOperationData:
    return FailedOperationData(id="x", domain="d", failure_type="t", status=status, **fields)


def held(**fields: Any) -> FailedOperationData:
    return record("replaying", **{"replay_token": "mine", "retry_count": 1, "replay_beat_at": NOW, **fields})


# The drawing, as a table: which statuses let an event happen, and to what it leads.
TABLE: list[tuple[Event, dict[str, str]]] = [
    (Acquire("new", 5, 10), {"pending": "replaying"}),
    (Acquire("new", 0, 10, force=True), {"pending": "replaying", "requires_review": "replaying"}),
    (Claim("new", 10), {"pending": "replaying"}),
    (Beat("mine", 10), {"replaying": "replaying"}),
    (GiveBack("mine"), {"replaying": "pending"}),
    (Complete(success=True, token="mine"), {"replaying": "resolved"}),
    (Complete(success=False, token="mine"), {"replaying": "pending"}),
    (Complete(success=True), dict.fromkeys(("pending", "reviewing", "requires_review"), "resolved")),
    (Release(), {"replaying": "pending"}),
    (Archive(), {"resolved": "archived"}),
    (CountRetry(), {status: status for status in STATUSES}),
    (SetStatus("rejected"), dict.fromkeys(STATUSES, "rejected")),
]


@pytest.mark.parametrize(("event", "leads"), TABLE, ids=[str(event) for event, _ in TABLE])
@pytest.mark.parametrize("status", STATUSES)
def test_event_leads_where_the_table_says(event: Event, leads: dict[str, str], status: str) -> None:
    before = record(status, replay_token="mine" if status == "replaying" else None)
    after = transition(before, event, NOW)
    assert (None if after is None else after.status) == leads.get(status)
    if after is not None:
        assert (after.version, after.updated_at) == (before.version + 1, NOW)


def test_claim_takes_over_when_the_lease_is_over_and_not_before() -> None:
    due = held(retry_delay=60.0, next_retry_at=NOW)
    after = transition(due, Claim("new", 10), NOW)
    assert after is not None
    assert (after.replay_token, after.retry_count, after.next_retry_at) == ("new", 2, NOW + timedelta(seconds=10))
    assert transition(due, Claim("new", 10), NOW - timedelta(microseconds=1)) is None
    assert transition(held(), Claim("new", 10), NOW) is None


def test_claim_at_the_cap_gives_up() -> None:
    for before in (record(retry_count=2), held(retry_count=2, next_retry_at=NOW, retry_delay=1.0)):
        after = transition(before, Claim("new", 10), NOW)
        assert after is not None
        assert (after.status, after.replay_token, after.next_retry_at) == ("requires_review", None, None)


def test_only_the_holder_ends_a_replay() -> None:
    for token in (None, "another"):
        for success in (True, False):
            assert transition(held(), Complete(success=success, token=token), NOW) is None
        assert transition(held(), Beat(token, 10), NOW) is None
        assert transition(held(), GiveBack(token), NOW) is None
    said_by_hand = transition(record(), SetStatus("replaying"), NOW)
    assert said_by_hand is not None
    assert transition(said_by_hand, Beat(None, 10), NOW) is None


def test_replay_that_has_ended_is_known_by_its_token_and_its_end() -> None:
    well = transition(held(), Complete(success=True, token="mine"), NOW)
    badly = transition(held(), Complete(success=False, token="mine"), NOW)
    assert well is not None
    assert badly is not None
    assert was_completed(well, Complete(success=True, token="mine"))
    assert not was_completed(well, Complete(success=False, token="mine"))
    assert was_completed(badly, Complete(success=False, token="mine"))
    assert not was_completed(badly, Complete(success=True, token="mine"))
    assert not was_completed(well, Complete(success=True))
    assert not was_completed(held(), Complete(success=True, token="mine"))


def test_wait_doubles_from_the_first_failure_on_up_to_an_hour() -> None:
    waits = [retry_wait(n, base=60, draw=0) for n in range(1, 9)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert retry_wait(1, base=60, draw=1) == 75
    assert retry_wait(6, base=60, draw=1) == 2400
    assert retry_wait(7, base=60, draw=1) == 3600
    assert retry_wait(10**6, base=60, draw=0.5) == 3600


@given(n=st.integers(1, 2000), base=st.floats(0, 10_000), draw=st.floats(0, 1))
def test_wait_is_within_a_quarter_of_what_it_should_be(n: int, base: float, draw: float) -> None:
    least = retry_wait(n, base=base, draw=0)
    assert least <= retry_wait(n, base=base, draw=draw) <= min(3600, 1.25 * least)


def test_summaries_only_move_on() -> None:
    moves = {(a, b) for a in ("active", "stale", "archived") for b in ("active", "stale", "archived", "x")}
    assert {move for move in moves if summary_may_become(*move)} == {
        ("active", "stale"),
        ("active", "archived"),
        ("stale", "archived"),
    }


events = st.one_of(
    st.builds(Acquire, st.sampled_from(["t1", "t2"]), st.integers(0, 4), st.just(10.0), st.booleans()),
    st.builds(Claim, st.sampled_from(["t1", "t2"]), st.just(10.0)),
    st.builds(Beat, st.sampled_from(["t1", "t2", None]), st.just(10.0)),
    st.builds(GiveBack, st.sampled_from(["t1", "t2", None])),
    st.builds(Complete, st.booleans(), st.sampled_from(["t1", "t2", None]), draw=st.floats(0, 1)),
    st.just(Release()),
    st.just(Archive()),
    st.just(CountRetry()),
    st.builds(SetStatus, st.sampled_from(STATUSES)),
)


@given(steps=st.lists(events, max_size=30), delay=st.sampled_from([None, 60.0]), cap=st.integers(0, 3))
def test_whatever_happens_a_record_stays_in_order(steps: list[Event], delay: float | None, cap: int) -> None:
    now = record(max_retries=cap, retry_delay=delay, next_retry_at=NOW if delay else None)
    for number, event in enumerate(steps):
        before = asdict(now)
        after = transition(now, event, NOW + timedelta(seconds=number))
        assert asdict(now) == before
        if after is None:
            continue
        assert after.version == now.version + 1
        assert (after.replay_beat_at is not None) == (after.status == "replaying")
        # Only what may be handed out by itself has a time for that.
        assert (after.next_retry_at is None) or (delay is not None and after.status in {"pending", "replaying"})
        assert after.status != "pending" or (after.next_retry_at is None) == (delay is None)
        assert replace(after, **{name: before[name] for name in _MAY_CHANGE}) == now
        now = after


@given(steps=st.lists(events, max_size=5), event=events, delay=st.sampled_from([None, 60.0]), cap=st.integers(0, 3))
def test_what_rests_on_the_standing_needs_and_changes_nothing_else(
    steps: list[Event], event: Event, delay: float | None, cap: int
) -> None:
    now = record(max_retries=cap, retry_delay=delay, metadata={"m": 1}, error_message="boom", user_id=7)
    for step in steps:
        now = transition(now, step, NOW) or now
    if rests_on_standing(event):
        bare = FailedOperationData(id="", domain="", failure_type="", **asdict(standing(now)))
        after, blind = transition(now, event, NOW), transition(bare, event, NOW)
        assert (after and standing(after)) == (blind and standing(blind))
        assert after is None or replace(after, **asdict(standing(now))) == now


def test_new_record_stands_as_a_standing_does_by_default() -> None:
    assert standing(record(max_retries=9, metadata={"m": 1})) == Standing()
    for other in ({"status": "reviewing"}, {"retry_count": 1}, {"retry_delay": 0.0}, {"version": 2}):
        assert standing(record(**other)) != Standing()
    assert [rests_on_standing(each) for each in (Acquire("t", 1, 1), Acquire("t", 1, 1, force=True), CountRetry())] == [
        True,
        False,
        True,
    ]


_MAY_CHANGE = (
    "status", "retry_count", "last_retry_at", "metadata", "resolved_at", "resolved_by_id", "resolution_type",
    "resolution_note", "recommended_action", "error_message", "updated_at", "next_retry_at", "replay_token",
    "replay_beat_at", "version",
)  # fmt: skip
