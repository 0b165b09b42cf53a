"""What a process holds in bytes, and where it begins its next claim."""

from __future__ import annotations

from holdfast.model.queue import Queue
from holdfast.workflows.ownership.burden import Burden
from holdfast.workflows.queues.passed import Passed

QUEUE = Queue(queue_id="q", name="q")


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


ROWS = [{"created_at": 5, "workflow_uuid": "a"}, {"created_at": 7, "workflow_uuid": "b"}]


def test_burden_takes_what_fits_and_is_full_until_something_is_given_back() -> None:
    burden = Burden(100, Clock(), patience=10)
    assert [burden.take(60), burden.take(50), burden.take(1), burden.is_full] == [True, False, False, True]
    burden.give_back(60)
    assert [burden.is_full, burden.take(50)] == [False, True]


def test_burden_takes_what_is_alone_however_large_it_is() -> None:
    burden = Burden(100, Clock(), patience=10)
    assert burden.take(1_000)
    assert burden.is_full
    assert not burden.take(0)
    burden.give_back(1_000)
    assert [burden.take(0), burden.take(100)] == [True, False]


def test_what_does_not_fit_is_taken_after_a_while_though_nothing_has_ended() -> None:
    clock = Clock()
    burden = Burden(100, clock, patience=10)
    assert [burden.take(1), burden.take(200), burden.take(1)] == [True, False, False]
    clock.now = 9.9
    assert [burden.is_full, burden.take(200)] == [True, False]
    clock.now = 10
    assert [burden.is_full, burden.take(1), burden.take(200)] == [False, True, True]
    assert [burden.is_full, burden.take(1)] == [True, False]
    burden.give_back(200)
    assert [burden.is_full, burden.take(98), burden.take(1)] == [False, True, False]


def test_what_does_not_fit_waits_beside_what_is_too_large_itself_however_long_that_takes() -> None:
    clock = Clock()
    burden = Burden(100, clock, patience=10)
    assert [burden.take(150), burden.take(120)] == [True, False]
    clock.now = 10
    assert [burden.is_full, burden.take(120)] == [True, False]
    burden.give_back(150)
    assert burden.take(120)


def test_what_does_not_fit_is_not_passed_for_ever_by_what_comes_and_goes() -> None:
    clock = Clock()
    burden = Burden(100, clock, patience=10)
    assert burden.take(50)
    for second in range(10):
        clock.now = second
        assert [burden.take(5), burden.take(60), burden.is_full] == [True, False, True]
        burden.give_back(5)
    clock.now = 10
    assert [burden.take(5), burden.take(60), burden.is_full] == [True, True, True]


def test_what_fits_at_last_has_waited_no_longer() -> None:
    clock = Clock()
    burden = Burden(100, clock, patience=10)
    assert [burden.take(50), burden.take(60)] == [True, False]
    burden.give_back(50)
    assert [burden.take(10), burden.take(60)] == [True, True]
    clock.now = 10
    assert [burden.take(31), burden.is_full] == [False, True]


def test_next_claim_begins_behind_the_last_for_a_while() -> None:
    moments = iter([10.0, 10.5, 10.9, 11.0])
    passed = Passed(lambda: next(moments))
    assert passed.bound(QUEUE) == {}
    passed.note(QUEUE, ROWS, {})
    bound = passed.bound(QUEUE)
    assert bound == {"after_ms": 7, "after_id": "b"}
    passed.note(QUEUE, [{"created_at": 8, "workflow_uuid": "c"}], bound)
    assert passed.bound(QUEUE) == {"after_ms": 8, "after_id": "c"}
    assert passed.bound(QUEUE) == {}


def test_queues_with_priorities_or_partitions_are_always_claimed_from_the_beginning() -> None:
    passed = Passed(lambda: 0.0)
    for queue in (
        Queue(queue_id="q", name="q", priority_enabled=True),
        Queue(queue_id="q", name="q", partition_queue=True),
    ):
        passed.note(queue, ROWS, {})
        assert passed.bound(queue) == {}
