"""The mailbox: bounded by number and by bytes, first in first out, and told when there is room."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.db.pipeline.mailbox import Mailbox
from holdfast.db.pipeline.operation import Operation, ThreadWaiter, weight
from holdfast.errors import PipelineClosed
from holdfast.testing.contract.kinds import Counter

COUNTER = Counter()


def operation(size: int = 1, row: tuple[Any, ...] = ()) -> Operation:
    return Operation(COUNTER, row, ThreadWaiter(), size)


def test_put_tells_whether_the_taker_must_be_woken() -> None:
    box = Mailbox(most_operations=10, most_bytes=100)
    assert box.put(operation()) is True
    assert box.put(operation()) is False
    box.take(10, 100)
    assert box.put(operation()) is True


def test_taken_operations_count_until_they_are_settled() -> None:
    box = Mailbox(most_operations=2, most_bytes=100)
    box.put(operation())
    box.put(operation())
    assert box.put(operation()) is None
    taken = box.take(10, 100)
    assert (box.waiting, box.unsettled) == (0, 2)
    assert box.put(operation()) is None
    box.settled(taken[:1])
    assert box.put(operation()) is True
    assert box.put(operation()) is None


def test_bytes_bound_the_box_but_one_operation_however_large_passes() -> None:
    box = Mailbox(most_operations=10, most_bytes=100)
    assert box.put(operation(1000)) is True
    assert box.put(operation(1)) is None
    box.settled(box.take(10, 100))
    assert box.put(operation(60)) is True
    assert box.put(operation(41)) is None
    assert box.put(operation(40)) is False


def test_take_gives_the_oldest_up_to_both_limits_and_at_least_one() -> None:
    box = Mailbox(most_operations=10, most_bytes=1000)
    put = [operation(size, (number,)) for number, size in enumerate([500, 10, 10, 10])]
    for each in put:
        box.put(each)
    assert box.take(10, 100) == put[:1]
    assert box.take(2, 100) == put[1:3]
    assert box.take(10, 100) == put[3:]
    assert box.take(10, 100) == []


def test_watchers_are_told_once_at_the_next_change() -> None:
    box = Mailbox(most_operations=1, most_bytes=100)
    told: list[int] = []
    assert box.watch(lambda: told.append(0)) is False
    box.put(operation())
    first, second = (lambda: told.append(1)), (lambda: told.append(2))
    assert box.watch(first)
    assert box.watch(second)
    box.unwatch(second)
    box.unwatch(second)
    box.settled(box.take(1, 1))
    assert told == [1]
    box.put(operation())
    box.settled(box.take(1, 1))
    assert told == [1]


def test_closed_box_refuses_but_gives_out_what_it_has() -> None:
    box = Mailbox(most_operations=10, most_bytes=100)
    box.put(operation())
    box.close()
    with pytest.raises(PipelineClosed):
        box.put(operation())
    assert len(box.take(10, 100)) == 1


def test_box_never_holds_more_than_its_limit_whatever_threads_do() -> None:
    box = Mailbox(most_operations=7, most_bytes=10_000)
    peaks: list[int] = []

    def put() -> None:
        for _ in range(200):
            while box.put(operation(10)) is None:
                peaks.append(box.unsettled)
                room = threading.Event()
                if box.watch(room.set):
                    room.wait(5)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    settled = 0
    while settled < 1600:
        taken = box.take(3, 1000)
        peaks.append(box.unsettled)
        box.settled(taken)
        settled += len(taken)
    for thread in threads:
        thread.join()
    assert max(peaks) <= 7
    assert box.unsettled == 0


@given(
    limits=st.tuples(st.integers(1, 5), st.integers(1, 50)),
    moves=st.lists(st.one_of(st.integers(1, 60), st.sampled_from(["take", "settle"])), max_size=60),
)
def test_box_behaves_like_a_list_with_two_limits(limits: tuple[int, int], moves: list[int | str]) -> None:
    box = Mailbox(most_operations=limits[0], most_bytes=limits[1])
    waiting: list[Operation] = []
    taken: list[Operation] = []
    for move in moves:
        if isinstance(move, int):
            each = operation(move)
            held = [*waiting, *taken]
            room = not held or (len(held) < limits[0] and sum(o.size for o in held) + move <= limits[1])
            assert box.put(each) is ((not waiting) if room else None)
            if room:
                waiting.append(each)
        elif move == "take":
            got = box.take(3, 40)
            assert got == waiting[: len(got)]
            assert len(got) == min(len(got), 3)
            assert bool(got) == bool(waiting)
            assert len(got) == 1 or sum(o.size for o in got) <= 40 or not got
            waiting, taken = waiting[len(got) :], [*taken, *got]
        else:
            box.settled(taken)
            taken = []
        assert (box.waiting, box.unsettled) == (len(waiting), len(waiting) + len(taken))


def test_weight_counts_texts_and_bytes() -> None:
    assert weight(("abc", b"12345", 7, None)) == 128 + 8
