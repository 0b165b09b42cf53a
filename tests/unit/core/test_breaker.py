"""What becomes of a shared breaker, decided without a database: against a small model, and at the boundaries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.breaker import Delete, GetOrCreate, Reset, Trip, UpdateState, decide, time_of
from holdfast.core.breaker_pins import AtomicReset, ClearManualControl, ForceClose, ForceOpen
from holdfast.core.breaker_rules import CountWindow, Tally, TimeWindow, TripRules
from holdfast.core.breaker_slots import AcquireSlot, CloseCheck, OpenCheck, RecordFailure, ReleaseSlot
from holdfast.model.breaker import CircuitBreakerStateData, OpenTime

if TYPE_CHECKING:
    from holdfast.core.breaker import Event

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STUCK = timedelta(seconds=60)
LIMIT = 3
TOKENS = st.sampled_from(["a", "b", "c", "d", "e"])


class Breaker(RuleBasedStateMachine):
    """The core beside a model that knows a state, the trials by their tokens, the successes, and the pin."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.record: CircuitBreakerStateData | None = None
        self.state = "closed"
        self.trials: dict[str, datetime] = {}
        self.successes = 0
        self.pin: datetime | None = None  # until when
        self.changes = 0

    def ask(self, event: Event) -> Any:
        before = self.record
        decision = decide(before, "api", event, self.now)
        self.record = decision.record
        if decision.change is not None:
            self.changes += 1
            assert decision.record is not None
            assert decision.change.epoch == decision.record.epoch == self.changes
        if before is not None and decision.record is not None:
            assert decision.record.version - before.version == (decision.record is not before)
        return decision.answer

    @property
    def pinned(self) -> bool:
        return self.pin is not None and self.pin > self.now

    @rule(seconds=st.sampled_from([0.5, 20, 59.5, 60, 61, 300]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def trips(self) -> None:
        opens = self.state == "closed" and not self.pinned
        assert self.ask(Trip(5)).did_open is opens
        if opens:
            self.moved("open")

    @rule(token=TOKENS)
    def asks_for_a_slot(self, token: str) -> None:
        if token in self.trials:  # whoever calls makes a new one each time
            return
        live = {each: at for each, at in self.trials.items() if self.now - at <= STUCK}
        granted = not self.pinned and (
            self.state == "open" or (self.state == "half_open" and min(len(self.trials), len(live)) < LIMIT)
        )
        if granted and self.state == "half_open" and len(self.trials) >= LIMIT:
            self.successes = self.successes if live else 0
            self.trials = live
        assert self.ask(AcquireSlot(LIMIT, STUCK, token))[0] is granted
        if granted:
            if self.state == "open":
                self.moved("half_open")
            self.trials[token] = self.now

    @rule(token=TOKENS)
    def trial_succeeds(self, token: str) -> None:
        held = token in self.trials
        closes = held and not self.pinned and self.successes + 1 >= 2
        assert self.ask(CloseCheck(2, token)).did_close is closes
        if held:
            del self.trials[token]
            self.successes += 1
        if closes:
            self.moved("closed")

    @precondition(lambda self: self.record is not None)
    @rule(token=TOKENS)
    def trial_fails(self, token: str) -> None:
        opens = token in self.trials and not self.pinned
        assert self.ask(OpenCheck(token=token)).did_open is opens
        if opens:
            self.moved("open")

    @rule(token=TOKENS)
    def trial_comes_to_nothing(self, token: str) -> None:
        assert self.ask(ReleaseSlot(token)) is (self.trials.pop(token, None) is not None)

    @rule(minutes=st.sampled_from([1, 5]), opens=st.booleans())
    def operator_speaks(self, minutes: int, opens: bool) -> None:
        ttl = timedelta(minutes=minutes)
        self.ask(ForceOpen(ttl=ttl) if opens else ForceClose(ttl=ttl))
        self.moved("open" if opens else "closed")
        self.pin = self.now + ttl

    @precondition(lambda self: self.record is not None)
    @rule()
    def operator_resets(self) -> None:
        self.ask(AtomicReset("done"))
        self.moved("closed")
        self.pin = None

    def moved(self, state: str) -> None:
        self.state, self.trials, self.successes = state, {}, 0

    @invariant()
    def is_as_the_model_has_it(self) -> None:
        if self.record is not None:
            assert self.record.state == self.state
            assert {slot.token for slot in self.record.slots} == self.trials.keys()
            assert self.record.half_open_request_count == len(self.trials) <= LIMIT
            assert self.record.is_pin_active(self.now) is self.pinned
            if self.state == "half_open":
                assert self.record.success_count == self.successes


Breaker.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBreaker = Breaker.TestCase


def after(*events: Event, at: datetime = NOW) -> CircuitBreakerStateData:
    record: CircuitBreakerStateData | None = None
    for event in events:
        record = decide(record, "api", event, at).record
    assert record is not None
    return record


@pytest.mark.parametrize(("seconds", "granted"), [(59.999, False), (60, False), (60.001, True)])
def test_window_is_stuck_strictly_after_its_time(seconds: float, granted: bool) -> None:
    full = after(Trip(), *(AcquireSlot(LIMIT, STUCK, token) for token in "abc"))
    decision = decide(full, "api", AcquireSlot(LIMIT, STUCK, "d"), NOW + timedelta(seconds=seconds))
    assert decision.answer == (granted, "half_open", "half_open")
    assert decision.record is not None
    assert decision.record.half_open_request_count == (1 if granted else 3)


@pytest.mark.parametrize(("seconds", "holds"), [(0, True), (59.999, True), (60, False), (61, False)])
def test_pin_holds_before_its_end_and_not_at_it(seconds: float, holds: bool) -> None:
    pinned = after(ForceOpen(ttl=timedelta(seconds=60)))
    moment = NOW + timedelta(seconds=seconds)
    assert pinned.is_pin_active(moment) is holds
    assert decide(pinned, "api", AcquireSlot(1, STUCK, "t"), moment).answer[0] is not holds


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([ForceOpen(), ClearManualControl()], "open"),
        ([ForceOpen(), ClearManualControl(), AcquireSlot(1, STUCK, "t")], "half_open"),
        ([ForceOpen(), AcquireSlot(1, STUCK, "t")], "open"),
        ([ForceClose(), Trip()], "closed"),
        ([ForceClose(), ClearManualControl(), Trip()], "open"),
        ([Trip(), Reset()], "closed"),
        ([Trip(), ForceOpen(ttl=timedelta(0)), AcquireSlot(1, STUCK, "t")], "half_open"),
    ],
)
def test_pins_table(events: list[Event], state: str) -> None:
    assert after(*events).state == state


def test_event_that_changes_nothing_leaves_the_very_record() -> None:
    opened = after(Trip())
    assert decide(opened, "api", Trip(), NOW).record is opened
    assert decide(opened, "api", GetOrCreate(), NOW).record is opened
    assert decide(opened, "api", RecordFailure("late"), NOW).record is opened


@pytest.mark.parametrize(("ahead", "is_kept"), [(-5, False), (0.5, True), (60, True), (60.5, False)])
def test_time_of_a_breaker_goes_back_only_with_a_clock_that_was_set(ahead: float, *, is_kept: bool) -> None:
    last = NOW + timedelta(seconds=ahead)
    record = CircuitBreakerStateData(service_name="api", created_at=NOW, updated_at=last)
    assert time_of(record, NOW) == (last if is_kept else NOW)
    assert time_of(None, NOW) == NOW


@pytest.mark.parametrize(
    ("update", "is_kept"),
    [
        (UpdateState("open", failure_count=7), True),
        (UpdateState("open", opened_at=NOW), False),
        (UpdateState("half_open"), False),
        (UpdateState("closed"), False),
    ],
)
def test_update_keeps_the_end_of_the_open_time_of_a_breaker_that_stays_open(
    update: UpdateState, *, is_kept: bool
) -> None:
    opened = decide(None, "api", Trip(5, OpenTime(base=timedelta(seconds=30))), NOW).record
    assert opened is not None
    after = decide(opened, "api", update, NOW).record
    assert after is not None
    assert after.retry_at == (opened.retry_at if is_kept else None)


def test_deleted_breaker_is_none_and_nothing_is_deleted_twice() -> None:
    assert decide(after(Trip()), "api", Delete(), NOW) == (None, True, None)
    assert decide(None, "api", Delete(), NOW) == (None, False, None)


def test_update_of_the_count_keeps_the_youngest_trials() -> None:
    full = after(Trip(), *(AcquireSlot(LIMIT, STUCK, token) for token in "abc"))
    less = decide(full, "api", UpdateState("half_open", half_open_request_count=1), NOW).record
    assert less is not None
    assert [slot.token for slot in less.slots] == ["c"]


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 10.0), (0.5, 10.5), (1.0, 11.0)])
def test_open_time_has_its_jitter(draw: float, seconds: float) -> None:
    opened = after(Trip(open_time=OpenTime(base=timedelta(seconds=10), jitter=0.1), draw=draw))
    assert opened.retry_at == NOW + timedelta(seconds=seconds)


def test_open_time_beyond_all_measure_is_its_cap() -> None:
    times = OpenTime(base=timedelta(days=1), backoff=1e300, cap=timedelta(days=2))
    record = after(Trip(open_time=times))
    for _ in range(3):
        token = AcquireSlot(1, STUCK, "t")
        record = decide(record, "api", token, NOW).record  # type: ignore[assignment]
        record = decide(record, "api", OpenCheck(times, token="t"), NOW).record  # type: ignore[assignment]
    assert record.retry_at == NOW + timedelta(days=2)


@pytest.mark.parametrize(
    ("rules", "in_a_row", "tally", "trips"),
    [
        (TripRules(failures=3), 2, Tally(), False),
        (TripRules(failures=3), 3, Tally(), True),
        (TripRules(failure_rate=0.5, minimum_calls=10), 0, Tally(9, 9), False),
        (TripRules(failure_rate=0.5, minimum_calls=10), 0, Tally(10, 5), True),
        (TripRules(failure_rate=0.5, minimum_calls=10), 0, Tally(11, 5), False),
        (TripRules(failures=None, failure_rate=None), 99, Tally(99, 99), False),
        (TripRules(slow_call_rate=0.2, slow_call_seconds=1), 0, Tally(10, 0, 2), True),
        (TripRules(slow_call_rate=0.2, slow_call_seconds=1), 0, Tally(10, 0, 1), False),
    ],
)
def test_rules_table(rules: TripRules, in_a_row: int, tally: Tally, trips: bool) -> None:
    assert (rules.reason(in_a_row, tally) is not None) is trips


def test_windows_forget() -> None:
    count, timed = CountWindow(2), TimeWindow(10)
    for second in (0, 5, 14):
        count.add(second, failed=True)
        timed.add(second, failed=True, slow=second == 14)
    assert count.tally(14) == (2, 2, 0)
    assert timed.tally(14.5) == (2, 2, 1)
    assert timed.tally(100) == (0, 0, 0)
    timed.add(101)
    timed.clear()
    count.clear()
    assert timed.tally(101) == count.tally(101) == (0, 0, 0)
