"""Going through many checkpoints: what is read, and what is taken of it."""

from __future__ import annotations

import pytest

from holdfast.stores.threads import Found, Place, Saved, Span, Walk


def found(number: int) -> Found:
    return Found(Saved(Place("t", "", f"{number:04}"), None, None, "", b"", "{}", {}), (), ())


def walked(walk: Walk, there: int) -> tuple[list[int], list[int]]:
    """Return the numbers that were taken of so many checkpoints, and how many were read at once."""
    taken, sizes = [], []
    while walk.more:
        _, after, size = walk.next_page()
        begin = there if after is None else int(after.checkpoint_id)
        page = [found(number) for number in range(begin - 1, -1, -1)][:size]
        sizes.append(len(page))
        taken += [int(each.saved.place.checkpoint_id) for each in walk.taken(page)]
    return taken, sizes


@pytest.mark.parametrize("there", [0, 1, 99, 100, 101, 250])
def test_walk_comes_to_every_checkpoint_once(there: int) -> None:
    assert walked(Walk(Span()), there)[0] == list(range(there - 1, -1, -1))


@pytest.mark.parametrize(("limit", "sizes"), [(0, []), (3, [3]), (100, [100]), (130, [100, 30]), (500, [100, 100, 50])])
def test_walk_with_a_limit_reads_no_more_than_that(limit: int, sizes: list[int]) -> None:
    taken, read = walked(Walk(Span(), limit=limit), 250)
    assert len(taken) == min(limit, 250)
    assert read == sizes


def test_walk_reads_on_until_enough_are_wanted() -> None:
    taken, sizes = walked(Walk(Span(), lambda saved: int(saved.place.checkpoint_id) % 50 == 0, 3), 250)
    assert taken == [200, 150, 100]
    assert sizes == [100, 100]


def test_pages_of_a_short_walk_grow() -> None:
    assert walked(Walk(Span(), first=4), 250)[1] == [4, 16, 64, 100, 66]
