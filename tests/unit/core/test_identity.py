"""Operations are identified by branch and place, whatever the order in which they happen."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.identity import Branch


def test_operations_of_the_root_count_up() -> None:
    root = Branch()
    assert [root.next_identity() for _ in range(3)] == ["0", "1", "2"]


def test_branches_are_placed_in_the_order_of_opening_and_count_by_themselves() -> None:
    root = Branch()
    first, second = root.open(), root.open()
    assert [second.next_identity(), first.next_identity(), second.next_identity()] == ["~1.0", "~0.0", "~1.1"]
    assert first.open().open().next_identity() == "~0~0~0.0"
    assert root.next_identity() == "0"


def test_marks_count_by_themselves() -> None:
    root = Branch()
    branch = root.open()
    assert [root.next_mark(), branch.next_mark(), root.next_mark(), branch.next_mark()] == ["0", "~0.0", "1", "~0.1"]
    assert (root.next_identity(), root.open().next_identity()) == ("0", "~1.0")


def test_peeking_takes_nothing() -> None:
    for branch in (Branch(), Branch().open()):
        assert branch.peek_identity() == branch.peek_identity() == branch.next_identity()
        assert branch.peek_identity() != "0"


def test_ahead_is_what_has_not_begun_in_a_branch_or_in_those_it_opens_later() -> None:
    root = Branch()
    root.next_identity()
    for _ in range(2):
        inner = root.open()
    inner.open()
    inner.next_identity()
    assert [each for each in ("0", "1", "10", "~0.0", "~1~5.0", "~2.0", "~10.0") if root.is_ahead(each)] == [
        *("1", "10", "~2.0", "~10.0")
    ]
    everything = ("0", "1", "~0.1", "~1.0", "~1.1", "~1.10", "~1~0.0", "~1~1.0", "~1~10~0.0", "~10.5", "~12~1.0")
    assert [each for each in everything if inner.is_ahead(each)] == ["~1.1", "~1.10", "~1~1.0", "~1~10~0.0"]


def test_closed_branch_closes_those_below_and_no_others() -> None:
    root = Branch()
    closed, other = root.open(), root.open()
    below = closed.open()
    closed.close()
    assert [root.is_closed, closed.is_closed, below.is_closed, other.is_closed] == [False, True, True, False]
    assert closed.open().is_closed


def test_end_of_a_branch_is_told_to_those_below_also_if_they_ask_later() -> None:
    root, told = Branch(), list[str]()
    closing = root.open()
    below = closing.open()
    for name, branch in (("closing", closing), ("below", below), ("beside", root.open()), ("root", root)):
        branch.on_close(partial(told.append, name))
    closing.close()
    assert told == ["closing", "below"]
    closing.on_close(partial(told.append, "late"))
    below.on_close(partial(told.append, "late below"))
    assert told == ["closing", "below", "late", "late below"]


def test_who_does_not_want_to_know_of_the_end_any_more_is_not_told() -> None:
    closing, told = Branch().open(), list[str]()
    tell = partial(told.append, "end")
    below = closing.open()
    below.on_close(tell)
    below.off_close(tell)
    closing.close()
    assert not told


_Tree = st.recursive(st.integers(0, 4), lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def _walk(tree: object, branch: Branch, pick: object) -> list[str]:
    """Open the branches of *tree* in order, then do their operations in the order that *pick* chooses."""
    if isinstance(tree, int):
        return [branch.next_identity() for _ in range(tree)]
    assert isinstance(tree, list)
    parts = [(part, branch.open()) for part in tree]
    if pick:
        parts.reverse()
    return [identity for part, opened in parts for identity in _walk(part, opened, pick)]


@given(_Tree)
def test_identities_are_unique_and_do_not_depend_on_the_order_of_arrival(tree: object) -> None:
    forward, backward = _walk(tree, Branch(), pick=False), _walk(tree, Branch(), pick=True)
    assert len(set(forward)) == len(forward)
    assert sorted(forward) == sorted(backward)


def test_what_is_recorded_about_an_operation_is_named_after_it_and_is_ahead_as_long_as_that_is() -> None:
    root = Branch()
    root.next_identity()
    branch = root.open()
    assert root.of_operation("0").next_identity() == "0.0"
    assert branch.of_operation(branch.peek_identity()).next_identity() == "~0.0.0"
    assert [each for each in ("0.0", "1.0", "10.0") if root.is_ahead(each)] == ["1.0", "10.0"]
    assert branch.is_ahead("~0.0.0")
    branch.next_identity()
    assert not branch.is_ahead("~0.0.0")
    branch.close()
    assert branch.of_operation("~0.0").is_closed


def test_branch_has_taken_last_until_it_begins_something_else() -> None:
    branch = Branch().open()
    seen = [branch.has_taken_last]
    branch.next_identity()
    for something in (True, False, True):
        branch.takes(something)
        seen.append(branch.has_taken_last)
    branch.next_identity()
    assert [*seen, branch.has_taken_last] == [False, True, False, True, False]
