"""What goes into the record comes out of it the same, the first time and every time."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Optional, Union

import pytest
from pydantic import BaseModel

from holdfast.errors import RecordedError
from holdfast.serialize import Serialization
from holdfast.workflows.payloads import LoadedErrors, Payloads

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Part:
    number: int


class Known(Exception):
    pass


class TimeoutError(Exception):  # noqa: A001 -- the name of a built-in class, in another module
    pass


def returns(annotation: Any) -> Any:
    def function() -> None: ...

    function.__annotations__["return"] = annotation
    return function


@pytest.mark.parametrize(
    ("annotation", "value", "delivered"),
    [
        (Any, 3, 3),
        (int, 3, 3),
        (float, 3, 3.0),
        (float, 2.5, 2.5),
        (int | None, None, None),
        (Optional[str], "x", "x"),  # noqa: UP045 -- the old way of writing it
        (Union[int, str], "x", "x"),  # noqa: UP007 -- the old way of writing it
        (float | None, 3, 3.0),
        (Decimal, "1.5", Decimal("1.5")),
        (tuple[int, ...], (1, 2), (1, 2)),
        (Any, (1, 2), [1, 2]),
        (bool, True, True),
    ],
)
def test_value_is_delivered_as_a_replay_would_deliver_it(annotation: Any, value: Any, delivered: Any) -> None:
    payloads = Payloads(Serialization())
    codec = payloads.codec(returns(annotation))
    text, format_ = payloads.dump(value)
    for found in (codec.delivered(value, text, format_), codec.load(text, format_)):
        assert found == delivered
        assert type(found) is type(delivered)


def of_later(later: Later) -> Later:
    return later


def of_nobody(nobody: Nobody, plain: Any) -> Any:  # type: ignore[name-defined]  # noqa: F821 -- never defined
    return nobody, plain


def of_anything(anything, *, named=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return anything, named


def test_annotation_may_name_what_stands_further_down() -> None:
    """The codec is made where the function is declared; by its first use the module has all its names."""
    payloads = Payloads(Serialization())
    there = globals().pop("Later")
    try:
        codec = payloads.codec(of_later)
    finally:
        globals()["Later"] = there
    text, format_ = payloads.dump_call((Later(1),), {})
    assert codec.delivered_call((Later(1),), {}, text, format_) == ((Later(1),), {})
    assert codec.load_call(text, format_) == ((Later(1),), {})
    text, format_ = payloads.dump(Later(1))
    assert codec.delivered(Later(1), text, format_) == Later(1)


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "told"),
    [
        (of_nobody, (Decimal(1), Decimal(1)), {}, "the argument 'nobody' of of_nobody a Decimal comes back as str"),
        (of_anything, (Part(1),), {}, "the argument 'anything' of of_anything a Part comes back as dict"),
        (of_anything, ({"in": [b"it"]},), {}, "the argument 'anything' of of_anything a bytes comes back as str"),
        (of_anything, (1,), {"named": {2}}, "the argument 'named' of of_anything a set comes back as list"),
    ],
)
def test_argument_that_changes_for_want_of_an_annotation_is_told_once(
    caplog: pytest.LogCaptureFixture, function: Any, arguments: Any, keywords: Any, told: str
) -> None:
    payloads = Payloads(Serialization())
    codec = payloads.codec(function)
    text, format_ = payloads.dump_call(arguments, keywords)
    for _ in range(2):
        codec.delivered_call(arguments, keywords, text, format_)
    [record] = caplog.records
    assert told in record.getMessage()


def test_result_that_changes_for_want_of_an_annotation_is_told_and_what_stays_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payloads = Payloads(Serialization())
    for function in (of_nobody, of_later):
        payloads.codec(function).delivered(Later(1), *payloads.dump(Later(1)))
    for value in ({"a": [1, "x", None]}, (1, 2), "x", 2.5):
        payloads.codec(of_anything).delivered(value, *payloads.dump(value))
    assert caplog.records == []  # one says Any, the other what it is; and plain JSON keeps the rest
    payloads.codec(of_anything).delivered(Later(1), *payloads.dump(Later(1)))
    [record] = caplog.records
    assert record.getMessage() == (
        "In the result of of_anything a Later comes back as dict: it has no annotation. Annotate it, with Any if plain"
        " JSON is what you want."
    )


class Equal(type):  # noqa: PLW1641 -- which is the point
    """Makes classes that cannot be hashed."""

    def __eq__(cls, other: object) -> bool:
        return cls is other


class Unhashable(metaclass=Equal):
    pass


class Tagged(BaseModel):
    tags: set[int]


@pytest.mark.parametrize(
    "made",
    [
        lambda ids: (Tagged(tags=ids),),
        lambda ids: (Tagged(tags=ids), object()),
        lambda ids: ({frozenset({1, each}) for each in ids},),
        lambda ids: ({1: ids, None: [ids]}, lambda: None),
    ],
)
def test_mark_of_a_call_is_the_same_whatever_the_order_of_its_sets(made: Callable[[set[int]], Any]) -> None:
    """Each process has its own order of a set: with another mark a run that is recovered would be taken for another."""
    payloads = Payloads(Serialization())
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)
    mark = payloads.mark("step", made(one), {"by": 1})
    assert payloads.mark("step", made(other), {"by": 1}) == mark
    assert payloads.mark("step", made({0, 9}), {"by": 1}) != mark
    assert payloads.mark("step", made(one), {"by": 2}) != mark


_MARKS = """
import math
from dataclasses import dataclass
from enum import Enum
from holdfast.serialize import Serialization
from holdfast.stores.idempotency.fingerprint import digest
from holdfast.workflows.payloads import Payloads

@dataclass(frozen=True, order=True)
class Part:
    names: frozenset

@dataclass
class Whole:
    parts: set

Kind = Enum("Kind", "A B C D")
names = "abcdefgh"
sets = [frozenset({one, other}) for one in names for other in names]
for value in (
    set(sets),
    {(each, 1) for each in sets},
    {Part(each) for each in sets},
    [Whole(set(sets)), {"deep": [Whole({Part(each) for each in sets})]}],
    {frozenset(sets[:9]), frozenset(sets[9:])},
    {math.nan, -math.nan, *map(float, range(9))},
    {1, "a", None, (2, "b"), *sets},
    {each: 1 for each in sets},
    {tuple(each): set(Kind) for each in zip(names, names)},
):
    print(Payloads(Serialization()).mark("step", (value,), {"by": value}), digest("call", {"by": value}))
"""


def test_marks_of_calls_are_those_of_every_process() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", _MARKS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2", "3")
    ]
    assert said[0] == said[1] == said[2]
    assert len(set(said[0])) == 9


def test_mark_of_sets_that_have_an_order_is_the_one_that_was_recorded() -> None:
    """Runs that began before the order of sets without one was settled go on."""
    payloads = Payloads(Serialization())
    chain = {frozenset("abcd"[:length]) for length in range(4)}
    assert payloads.mark("step", ({("b", 1), ("a", 2)}, None), {}) == "befc7a274b06f9e1"
    assert payloads.mark("step", (chain, {frozenset("z")}), {}) == "27c43ba355744579"


def test_mark_of_what_has_no_form_is_made_of_the_rest() -> None:
    payloads = Payloads(Serialization())
    cycle: list[Any] = [1]
    cycle.append(cycle)
    for odd in (cycle, object(), "\ud800", math.nan, {b"\xff": {object}}, 10**5000, Unhashable()):
        marks = {payloads.mark("step", (odd, number), {}) for number in (1, 1, 2)}
        assert len(marks) == 2


@dataclass
class Later:
    number: int


def test_errors_are_found_by_their_whole_name_only() -> None:
    loaded = LoadedErrors()
    assert loaded[f"{__name__}.Known"] is Known
    assert loaded[f"{__name__}.TimeoutError"] is TimeoutError
    for name in ("Known", "TimeoutError", "elsewhere.Known", "builtins.ValueError"):
        with pytest.raises(KeyError):
            loaded[name]


def test_error_whose_class_was_defined_anew_comes_back_as_what_code_now_means(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = type("Known", (Exception,), {"__module__": __name__, "__qualname__": "Known"})
    monkeypatch.setitem(globals(), "Known", anew)  # as a reload does, or a cell of a notebook that is run again
    payloads = Payloads(Serialization())
    assert LoadedErrors()[f"{__name__}.Known"] is anew
    error = anew("again")
    assert type(payloads.as_recorded(error, *payloads.dump_error(error))) is anew


def test_error_of_a_module_that_is_not_loaded_is_not_taken_for_a_built_in_one() -> None:
    payloads = Payloads(Serialization())
    text, format_ = payloads.dump_error(TimeoutError("mine"))
    found = payloads.load_error(text.replace(f"{__name__}.", "not.loaded."), format_)
    assert isinstance(found, RecordedError)
    assert found.name == "not.loaded.TimeoutError"


def test_error_is_raised_with_what_is_recorded_and_where_it_arose() -> None:
    payloads = Payloads(Serialization())
    live = Known("text")
    live.response = object()  # type: ignore[attr-defined]
    try:
        raise live
    except Known as error:
        text, format_ = payloads.dump_error(error)
        delivered = payloads.as_recorded(error, text, format_)
    replayed = payloads.load_error(text, format_)
    assert type(delivered) is type(replayed) is Known
    assert delivered is not live
    assert delivered.args == replayed.args
    assert vars(delivered) == vars(replayed)
    assert delivered.__traceback__ is live.__traceback__
