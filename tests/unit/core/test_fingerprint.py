"""A fingerprint tells whether a call is the same call as before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.core.fingerprint import fingerprint
from holdfast.serialize import Serialization
from holdfast.workflows.payloads import Payloads


def test_same_call_has_the_same_fingerprint_in_every_process() -> None:
    assert fingerprint("charge", b"[1]") == "354d5addcb57b564"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("charge", b"[1]"), ("charge", b"[2]")),
        (("charge", b"[1]"), ("refund", b"[1]")),
        (("charge", b"1"), ("charge1", b"")),
    ],
)
def test_other_name_or_arguments_have_another(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    assert fingerprint(*one) != fingerprint(*other)


@dataclass
class Order:
    number: int


class Opaque:
    """Has no JSON form."""


def mark(*arguments: Any, **keywords: Any) -> str:
    return Payloads(Serialization()).mark("f", arguments, keywords)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([1, 2],), ([2, 1],)),
        ((1,), ("1",)),
        ((Order(1),), (Order(2),)),
        (({"a": 1},), ({"a": 2},)),
        ((b"x",), (b"y",)),
    ],
)
def test_arguments_that_differ_are_told_apart(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert mark(*one) == mark(*one)
    assert mark(*one) != mark(*other)


def test_order_of_names_and_of_set_members_does_not_count() -> None:
    assert mark(a=1, b=2) == mark(b=2, a=1)
    assert mark({"x": 1, "y": 2}) == mark({"y": 2, "x": 1})
    assert mark({"b", "a", "c"}) == mark({"c", "b", "a"})


def test_what_has_no_json_form_counts_by_its_class() -> None:
    assert mark(Opaque()) == mark(Opaque())
    assert mark(Opaque()) != mark(object())
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert mark(deep) == mark(deep)
