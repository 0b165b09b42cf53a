"""What a process holds in bytes, and where it begins its next claim."""

from __future__ import annotations

from holdfast.model.queue import Queue
from holdfast.workflows.burden import Burden
from holdfast.workflows.queues.passed import Passed

QUEUE = Queue(queue_id="q", name="q")
ROWS = [{"created_at": 5, "workflow_uuid": "a"}, {"created_at": 7, "workflow_uuid": "b"}]


def test_burden_takes_what_fits_and_is_full_until_something_is_given_back() -> None:
    burden = Burden(100)
    assert [burden.take(60), burden.take(50), burden.take(1), burden.is_full] == [True, False, False, True]
    burden.give_back(60)
    assert [burden.is_full, burden.take(50)] == [False, True]


def test_burden_takes_what_is_alone_however_large_it_is() -> None:
    burden = Burden(100)
    assert burden.take(1_000)
    assert burden.is_full
    assert not burden.take(0)
    burden.give_back(1_000)
    assert [burden.take(0), burden.take(100)] == [True, False]


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
