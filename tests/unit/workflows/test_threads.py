"""Threads of sync workflows: a bounded number at work, and none held by those who wait."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from holdfast.workflows.running.threads import WorkflowThreads

PATIENCE = 60


class _Most:
    """Counts how many are at work at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


def test_no_more_than_so_many_work_at_once_and_all_are_done() -> None:
    threads, most, done = WorkflowThreads(3), _Most(), threading.Semaphore(0)

    def job() -> None:
        with most:
            pass
        done.release()

    for _ in range(50):
        threads.submit(job)
    for _ in range(50):
        assert done.acquire(timeout=PATIENCE)
    assert 1 <= most.most <= 3


def test_jobs_begin_in_the_order_in_which_they_came() -> None:
    threads, began, done = WorkflowThreads(1), list[int](), threading.Event()
    hold = threading.Event()

    def first() -> None:
        assert hold.wait(PATIENCE)

    threads.submit(first)
    for number in range(10):
        threads.submit(lambda number=number: began.append(number))  # type: ignore[misc]
    threads.submit(done.set)
    assert threads.free == 0
    hold.set()
    assert done.wait(PATIENCE)
    assert began == list(range(10))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_parents_that_wait_for_children_do_not_use_up_the_places(most: int) -> None:
    threads, busy, done = WorkflowThreads(most), _Most(), threading.Semaphore(0)

    def parent() -> None:
        child = threading.Event()

        def work() -> None:
            with busy:
                child.set()

        threads.submit(work)
        with threads.waiting():
            assert child.wait(PATIENCE)
        with busy:
            done.release()

    for _ in range(4 * most):
        threads.submit(parent)
    for _ in range(4 * most):
        assert done.acquire(timeout=PATIENCE)
    assert busy.most <= most


def test_thread_from_outside_just_waits() -> None:
    threads = WorkflowThreads(1)
    with threads.waiting():
        assert threads.free == 1
    assert threads.free == 1


def test_job_that_is_left_keeps_no_place_and_takes_none_when_it_goes_on() -> None:
    threads, begun, go_on = WorkflowThreads(1), threading.Event(), threading.Event()
    over, done = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        with threads.waiting():  # it has nothing to give up
            pass
        over.set()

    place = threads.submit(hangs)
    assert begun.wait(PATIENCE)
    assert threads.free == 0
    threads.leave(place)
    threads.leave(place)
    assert threads.free == 1
    threads.submit(done.set)
    assert done.wait(PATIENCE)
    go_on.set()
    assert over.wait(PATIENCE)
    for _ in range(20):  # one at a time, still
        done.clear()
        threads.submit(done.set)
        assert done.wait(PATIENCE)
    assert threads.free <= 1


def test_job_that_is_left_while_it_waits_comes_back_without_a_place() -> None:
    threads, waits, go_on, over = WorkflowThreads(1), threading.Event(), threading.Event(), threading.Event()

    def waiter() -> None:
        with threads.waiting():
            waits.set()
            assert go_on.wait(PATIENCE)
        over.set()

    place = threads.submit(waiter)
    assert waits.wait(PATIENCE)
    held, let = threading.Event(), threading.Event()

    def holder() -> None:
        held.set()
        assert let.wait(PATIENCE)

    threads.submit(holder)
    assert held.wait(PATIENCE)
    threads.leave(place)
    go_on.set()
    assert over.wait(PATIENCE)  # though the only place is somebody else's
    let.set()


def test_job_that_is_left_before_it_began_is_done_beside_the_others() -> None:
    threads, let, done = WorkflowThreads(1), threading.Event(), threading.Event()

    def first() -> None:
        assert let.wait(PATIENCE)

    def left() -> None:
        done.set()
        assert end.wait(PATIENCE)

    threads.submit(first)
    threads.leave(threads.submit(left))
    after, end = threading.Event(), threading.Event()
    threads.submit(after.set)
    assert not done.is_set()
    let.set()
    assert done.wait(PATIENCE)
    assert after.wait(PATIENCE)  # it keeps nobody waiting
    end.set()


def test_job_that_raises_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, done = WorkflowThreads(1), threading.Event()
    told: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", told.put)

    def broken() -> None:
        raise LookupError("nobody is told but the log")

    for _ in range(3):
        threads.submit(broken)
    threads.submit(done.set)
    assert done.wait(PATIENCE)
    assert [told.get(timeout=PATIENCE).exc_type for _ in range(3)] == [LookupError] * 3
