"""Whatever is supported comes back equal and of the same type, by its annotation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import GenericAlias
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
from hypothesis import given
from hypothesis import strategies as st

from holdfast.serialize import CallCodec, PortableJSON, Serialization
from holdfast.serialize.walk import Walk, fits

portable = PortableJSON()
encode = msgspec.json.encode


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Plain:
    number: int
    when: datetime
    share: Decimal


class Named(NamedTuple):
    id: UUID
    raw: bytes


class Typed(TypedDict):
    span: timedelta
    colour: Colour


class Shaped(msgspec.Struct, frozen=True, rename="camel"):
    some_day: date
    at_time: time


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    name: str
    share: Decimal
    day: date


text = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
_first, _last = datetime(2, 1, 1), datetime(9998, 1, 1)  # noqa: DTZ001 -- hypothesis wants naive bounds
# Where the clock is set back or forward a moment is there twice or never; Python finds such a one equal to none.
moments = st.datetimes(_first, _last, timezones=st.timezones() | st.just(UTC)).filter(
    lambda moment: moment.utcoffset() == moment.replace(fold=not moment.fold).utcoffset()
)
leaf: st.SearchStrategy[tuple[Any, Any]] = st.one_of(
    st.tuples(st.just(bool), st.booleans()),
    st.tuples(st.just(int), st.integers()),
    st.tuples(st.just(float), numbers),
    st.tuples(st.just(str), text),
    st.tuples(st.just(bytes), st.binary()),
    st.tuples(st.just(datetime), moments),
    st.tuples(st.just(date), st.dates()),
    st.tuples(st.just(time), st.times()),
    st.tuples(st.just(timedelta), st.timedeltas()),
    st.tuples(st.just(Decimal), decimals),
    st.tuples(st.just(UUID), st.uuids()),
    st.tuples(st.just(Colour), st.sampled_from(Colour)),
    st.tuples(st.just(Plain), st.builds(Plain, st.integers(), moments, decimals)),
    st.tuples(st.just(Named), st.builds(Named, st.uuids(), st.binary())),
    st.tuples(st.just(Typed), st.fixed_dictionaries({"span": st.timedeltas(), "colour": st.sampled_from(Colour)})),
    st.tuples(st.just(Shaped), st.builds(Shaped, st.dates(), st.times())),
    st.tuples(st.just(Model), st.builds(Model, name=text, share=decimals, day=st.dates())),
    st.tuples(st.just(None), st.none()),
)


def _grow(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    # One typed value is put into each kind of container, so that the element type is known.
    return st.one_of(
        inner.map(lambda case: (GenericAlias(list, case[0]), [case[1], case[1]])),
        inner.map(lambda case: (GenericAlias(tuple, (case[0], ...)), (case[1],))),
        inner.map(lambda case: (GenericAlias(tuple, (case[0], int)), (case[1], 7))),
        inner.map(lambda case: (GenericAlias(dict, (str, case[0])), {"a": case[1], "key two": case[1]})),
        inner.map(lambda case: (None if case[0] is None else case[0] | None, case[1])),
        st.tuples(st.just(set[int]), st.sets(st.integers())),
        st.tuples(st.just(frozenset[str]), st.frozensets(text)),
        st.tuples(st.just(set[date]), st.sets(st.dates())),
        st.tuples(st.just(dict[UUID, bytes]), st.dictionaries(st.uuids(), st.binary())),
        st.tuples(st.just(dict[Colour, int]), st.dictionaries(st.sampled_from(Colour), st.integers())),
        st.tuples(st.just(dict[datetime, int]), st.dictionaries(moments, st.integers(), max_size=1)),
    )


typed_values = st.recursive(leaf, _grow, max_leaves=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=30,
)


@given(typed_values)
def test_supported_value_comes_back_by_its_annotation(case: tuple[Any, Any]) -> None:
    annotation, value = case
    again = portable.decode(portable.serialize(value), annotation)
    assert again == value
    assert type(again) is type(value)


@given(json_values)
def test_plain_json_value_comes_back_without_an_annotation(value: Any) -> None:
    again = portable.deserialize(portable.serialize(value))
    assert again == value
    assert repr(again) == repr(value)  # 1 and 1.0 and True are equal, but not the same


@given(typed_values | st.tuples(st.just(Any), json_values))
def test_quick_and_careful_way_write_the_same_text(case: tuple[Any, Any]) -> None:
    _, value = case
    if not hasattr(type(value), "model_dump") and fits(value):
        assert encode(Walk().value(value)) == encode(value)


@given(st.integers(min_value=2**53) | st.integers(max_value=-(2**53)))
def test_integer_beyond_the_floats_keeps_every_digit(number: int) -> None:
    assert portable.deserialize(portable.serialize([number])) == [number]
    assert portable.decode(portable.serialize(number), int) == number


@given(text, moments, st.lists(decimals), st.dictionaries(text, st.uuids()))
def test_call_comes_back_typed_by_the_signature(a: str, b: datetime, c: list[Decimal], d: dict[str, UUID]) -> None:
    def fn(a: str, b: datetime, *, c: list[Decimal], d: dict[str, UUID]) -> None:
        raise NotImplementedError

    serialization = Serialization()
    stored = serialization.dump_call((a, b), {"c": c, "d": d})
    args, kwargs = serialization.load_call(*stored, CallCodec(fn))
    assert args == (a, b)
    assert kwargs == {"c": c, "d": d}
