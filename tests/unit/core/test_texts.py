"""What texts of users are, and which of them begin with another."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.texts import after_prefix

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=60)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_texts_between_a_prefix_and_what_comes_after_it_are_those_that_begin_with_it(prefix: str, text: str) -> None:
    until = after_prefix(prefix)
    assert (prefix <= text and (until is None or text < until)) is text.startswith(prefix)
    assert prefix <= prefix + text
    assert until is None or prefix + text < until


def test_nothing_comes_after_the_last_character() -> None:
    assert after_prefix("\U0010ffff\U0010ffff") is None
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"
