"""Which checkpoints of a thread may go, and which values go with them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.stores.threads.pruning import Bone, bone, orphans, to_delete
from holdfast.stores.threads.records import Place


def at(number: int, ns: str = "", thread: str = "t") -> Place:
    return Place(thread, ns, f"{number:04}")


def made(number: int, parent: int | None, *, ns: str = "", deltas: str = "", **large: str) -> Bone:
    parent_id = None if parent is None else f"{parent:04}"
    return Bone(at(number, ns), parent_id, large, frozenset(deltas.split()))


def test_newest_of_each_namespace_stays() -> None:
    bones = [made(1, None), made(2, 1), made(3, 2), made(1, None, ns="inner"), made(2, 1, ns="inner")]
    assert to_delete(bones) == [at(1), at(2), at(1, "inner")]


def test_namespaces_of_other_threads_are_others() -> None:
    assert to_delete([made(1, None), Bone(at(2, thread="u"), None, {}, frozenset())]) == []


def test_chain_of_changes_stays_back_to_where_the_channel_is_whole() -> None:
    chain = [made(1, None), made(2, 1, messages="v2"), made(3, 2), made(4, 3, deltas="messages")]
    assert to_delete(chain) == [at(1)]


def test_chain_is_kept_for_each_channel_and_not_for_other_branches() -> None:
    bones = [
        made(1, None, other="v1"),
        made(2, 1, messages="v2"),
        made(3, 1),  # another branch
        made(4, 2, deltas="messages other"),
    ]
    assert to_delete(bones) == [at(3)]


def test_chain_that_begins_nowhere_is_kept_whole() -> None:
    bones = [made(2, 1), made(3, 2, deltas="messages")]
    assert to_delete(bones) == []


def test_channel_that_the_newest_has_whole_needs_no_chain() -> None:
    assert to_delete([made(1, None), made(2, 1, deltas="messages", messages="v2")]) == [at(1)]


def test_value_goes_with_the_last_checkpoint_that_has_it() -> None:
    bones = [made(1, None, a="1", b="1"), made(2, 1, a="1", b="2"), made(3, 2, a="1", b="3")]
    assert orphans(bones, [at(1), at(2)]) == [("t", "", "b", "1"), ("t", "", "b", "2")]


def test_value_of_the_same_name_in_another_namespace_is_another() -> None:
    bones = [made(1, None, a="1"), made(1, None, ns="inner", a="1")]
    assert orphans(bones, [at(1)]) == [("t", "", "a", "1")]


def test_channels_that_are_kept_as_changes_are_named_in_the_metadata() -> None:
    found = bone(at(1), None, '{"step": 1, "counters_since_delta_snapshot": {"messages": [1, 2]}}', {})
    assert found.deltas == {"messages"}
    assert bone(at(1), None, b'{"step": 1, "score": NaN}', {}).deltas == frozenset()


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30))
def test_what_is_left_of_a_chain_can_be_rebuilt(shape: list[tuple[int, bool]]) -> None:
    """Whatever the tree: the newest stays, and going from parent to parent comes to a whole value or the beginning."""
    bones = {}
    for number, (parent, whole) in enumerate(shape):
        above = None if number == 0 else parent % number
        large = {"messages": str(number)} if whole else {}
        bones[at(number)] = Bone(at(number), None if above is None else f"{above:04}", large, frozenset({"messages"}))
    left = bones.keys() - to_delete(bones.values())
    here = bones[at(len(shape) - 1)]
    assert here.place in left
    while "messages" not in here.large and here.parent_id is not None:
        here = bones[here.place._replace(checkpoint_id=here.parent_id)]
        assert here.place in left
