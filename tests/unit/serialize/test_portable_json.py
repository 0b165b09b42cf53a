"""The exact text of portable JSON, and what it refuses."""

from __future__ import annotations

import collections
import logging
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest

from holdfast.errors import CannotDeserialize, CannotSerialize, ConfigurationError
from holdfast.serialize import PortableJSON
from holdfast.serialize.walk import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable

portable = PortableJSON()
ID = UUID("0192f0c1-2d3e-7abc-8def-0123456789ab")
NOON = datetime(2024, 5, 6, 12, 0, 0, 7, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Kind(StrEnum):
    BOOK = "book"


class Half(Enum):
    A = 0.5


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Item:
    sku: str
    price: float
    parts: list[Any] = field(default_factory=list)


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    at: datetime


class Tagged(msgspec.Struct, tag="t", rename="camel"):
    first_name: str
    tags: set[str] = msgspec.field(default_factory=set)
    nick: str | msgspec.UnsetType = msgspec.UNSET


class Pair(msgspec.Struct, array_like=True):
    left: Any
    right: Any


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (2**53 + 1, "9007199254740993"),
        (-(2**70), "-1180591620717411303424"),
        (1.0, "1.0"),
        ("é☃", '"é☃"'),
        ("a\0b", r'"a\u0000b"'),
        ({"a": [1, None], "b": {}}, '{"a":[1,null],"b":{}}'),
        ((1, (2,)), "[1,[2]]"),
        ({"b", "a", "c"}, '["a","b","c"]'),
        (frozenset({3, 20, 1}), "[1,20,3]"),
        (b"\xff\x00", '"/wA="'),
        (bytearray(b"ab"), '"YWI="'),
        (NOON, '"2024-05-06T12:00:00.000007Z"'),
        (NOON.astimezone(timezone(timedelta(hours=2))), '"2024-05-06T12:00:00.000007Z"'),
        (datetime(2024, 5, 6, 12), '"2024-05-06T12:00:00Z"'),  # noqa: DTZ001 -- naive is the case
        (date(2024, 5, 6), '"2024-05-06"'),
        (time(1, 2, 3), '"01:02:03"'),
        (timedelta(days=1, seconds=1.5), '"P1DT1.5S"'),
        (Decimal("1.50"), '"1.50"'),
        (Decimal("1E+3"), '"1000"'),
        (Decimal("1E-9"), '"0.000000001"'),
        (ID, f'"{ID}"'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (Kind.BOOK, '"book"'),
        (Text("x"), '"x"'),
        (Number(4), "4"),
        (Point(1, 2), "[1,2]"),
        (Item("a", 1.5), '{"sku":"a","price":1.5,"parts":[]}'),
        (Item("a", 1.5, [{1}]), '{"sku":"a","price":1.5,"parts":[[1]]}'),
        (Model(fullName="Ada", at=NOON), '{"name":"Ada","at":"2024-05-06T12:00:00.000007Z"}'),
        (Tagged("Ada"), '{"type":"t","firstName":"Ada","tags":[]}'),
        (Tagged("Ada", {"y", "x"}, "A"), '{"type":"t","firstName":"Ada","tags":["x","y"],"nick":"A"}'),
        (Pair(1, {2}), "[1,[2]]"),
        (collections.OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ({Colour.RED: 1, ID: 2, NOON.date(): 3}, f'{{"red":1,"{ID}":2,"2024-05-06":3}}'),
    ],
    ids=lambda case: type(case).__name__,  # not repr: that of a set differs between the workers of a test run
)
def test_value_is_written_as_documented(value: object, text: str) -> None:
    assert portable.serialize(value) == text


def test_call_is_written_with_both_keys() -> None:
    assert portable.serialize_call((1, "a"), {"b": None}) == '{"positionalArgs":[1,"a"],"namedArgs":{"b":null}}'
    assert portable.serialize_call((), {}) == '{"positionalArgs":[],"namedArgs":{}}'


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _cyclic_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def _cyclic_dataclass() -> Item:
    item = Item("a", 1.0)
    item.parts.append(item)
    return item


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"items": [0, {"price": float("nan")}]}, "$.items[1].price", "NaN"),
        ([None, float("-inf")], "$[1]", "Infinity"),
        (Item("a", float("inf")), "$.price", "Infinity"),
        (Decimal("NaN"), "$", "NaN"),
        (Decimal("1E+20000"), "$", "without exponent"),
        ({"a": {1: 2}}, "$.a", "key of type int"),
        ({None: 2}, "$", "key of type NoneType"),
        ({Level.HIGH: 2}, "$", "key of type Level"),
        ({"red": 1, Colour.RED: 2}, "$", "written alike"),
        ({"a": ["\ud800"]}, "$.a[0]", "surrogate"),
        ({"\ud800": 1}, "$.(key)", "surrogate"),
        (Tagged("\udc00"), "$.firstName", "surrogate"),
        ({"a b": [object()]}, '$["a b"][0]', "object has no portable form"),
        ([1j], "$[0]", "complex has no portable form"),
        (Half.A, "$", "value of type float"),
        (10**5000, "$", "too many digits"),
        (time(1, tzinfo=UTC), "$", "time zone"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "$", "year"),
        (_cyclic_list(), "$[1]", "contains itself"),
        (_cyclic_dataclass(), "$.parts[0]", "contains itself"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_value_that_does_not_fit_is_refused_with_its_path(value: object, path: str, why: str) -> None:
    with pytest.raises(CannotSerialize) as raised:
        portable.serialize(value)
    assert str(raised.value).startswith(f"Cannot store the value at {path}: ")
    assert why in str(raised.value)


def test_refusal_shows_no_value() -> None:
    with pytest.raises(CannotSerialize) as raised:
        portable.serialize({"password": {3: "hunter2"}, "x": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_depth_is_allowed_up_to_the_limit_and_refused_beyond() -> None:
    assert portable.deserialize(portable.serialize(_nested(MAX_DEPTH))) == _nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 10_000):
        with pytest.raises(CannotSerialize, match="128 containers deep"):
            portable.serialize(_nested(depth))


def test_depth_limit_is_the_same_on_the_careful_path() -> None:
    fine: Any = {2}
    for _ in range(MAX_DEPTH - 1):
        fine = [fine]
    assert portable.serialize(fine) == "[" * MAX_DEPTH + "2" + "]" * MAX_DEPTH
    with pytest.raises(CannotSerialize, match="128 containers deep"):
        portable.serialize([fine])


def test_full_stack_is_a_refusal_and_not_a_recursion_error() -> None:
    def descend(left: int) -> str:
        return portable.serialize(_nested(100)) if left == 0 else descend(left - 1)

    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    with pytest.raises(CannotSerialize, match="call stack is too deep"):
        descend(sys.getrecursionlimit() - depth - 60)


def test_value_seen_twice_is_no_cycle() -> None:
    shared = {1}
    assert portable.serialize([shared, shared]) == "[[1],[1]]"


def test_text_of_a_set_is_the_same_whatever_its_order() -> None:
    texts = {portable.serialize({"s": set(order)}) for order in (["b", "a", "é"], ["é", "b", "a"])}
    assert texts == {'{"s":["a","b","é"]}'}


@dataclass
class _Bag:
    ids: frozenset[int]


class _Sets(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(serialize_by_alias=True)
    ids: set[int] = pydantic.Field(alias="IDs")
    more: dict[str, list[set[int]]] = {}
    anything: Any = None


class _Root(pydantic.RootModel[set[int]]):
    pass


@pytest.mark.parametrize(
    "made",
    [
        lambda ids: _Sets(IDs=ids),
        lambda ids: _Sets(IDs=ids, more={"a": [ids]}, anything=(_Bag(frozenset(ids)), _Sets(IDs=ids))),
        lambda ids: [_Root(ids)],
    ],
)
def test_text_of_a_set_in_a_model_is_the_same_whatever_its_order(made: Callable[[set[int]], Any]) -> None:
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)
    text = portable.serialize(made(one))
    assert "[0,8]" in text
    assert portable.serialize(made(other)) == text
    assert "IDs" not in text


@pytest.mark.parametrize(
    ("text", "type_", "message"),
    [
        ("true", int, r"at \$: Expected `int`, got `bool`"),
        ("1.0", int, r"at \$: Expected `int`, got `float`"),
        ('"1"', int, r"at \$: Expected `int`, got `str`"),
        ('{"sku":"a","price":"x"}', Item, r"at \$\.price: Expected `float`, got `str`"),
        ('["hunter2"]', list[Colour], r"at \$\[0\]: Invalid enum value\."),
        ('{"name":"a"}', Model, r"at \$: at: missing"),
        ("[1,", list[int], "not JSON"),
        ("[NaN]", list[float], "not JSON"),
        ("[" * 100_000, Any, "nested too deeply"),
        ('"*"', bytes, "base64"),
        ("{}", type, "Expected `type`"),
    ],
    ids=lambda case: case[:20] if isinstance(case, str) else "",
)
def test_text_that_does_not_fit_is_refused_with_its_path(text: str, type_: Any, message: str) -> None:
    with pytest.raises(CannotDeserialize, match=message) as raised:
        portable.decode(text, type_)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__context__ is None


def test_error_in_the_users_own_validation_is_a_refusal() -> None:
    @dataclass
    class Fussy:
        x: int

        def __post_init__(self) -> None:
            raise KeyError(self.x)

    with pytest.raises(CannotDeserialize, match="building it raised KeyError"):
        portable.decode('{"x":1}', Fussy)


def test_pydantic_error_does_not_show_its_input() -> None:
    with pytest.raises(CannotDeserialize) as raised:
        portable.decode('[{"name":"x","at":"hunter2"}]', list[Model])
    assert "at: datetime" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_ambiguous_annotation_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigurationError, match="more than one str-like type"):
        portable.decode('"2024-05-06"', str | date)


def test_pydantic_model_comes_back_by_name_and_by_alias() -> None:
    value = Model(fullName="Ada", at=NOON)
    assert portable.decode(portable.serialize([value]), list[Model]) == [value]
    assert portable.decode('{"fullName":"Ada","at":"2024-05-06T12:00:00.000007Z"}', Model | None) == value


def test_strict_pydantic_model_comes_back() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        day: date
        keys: set[int]

    value = Strict(day=date(2024, 5, 6), keys={1})
    assert portable.decode(portable.serialize(value), Strict) == value


def test_pydantic_model_that_cannot_be_dumped_is_refused_with_its_path() -> None:
    class Bad(pydantic.BaseModel):
        data: bytes

    with pytest.raises(CannotSerialize, match=r"at \$\[0\]: model_dump of its .*Bad raised"):
        portable.serialize([Bad(data=b"\xff")])


def test_dict_and_scalar_subclasses_come_back_by_annotation() -> None:
    counted = collections.Counter({"a": 2})
    assert portable.decode(portable.serialize(counted), collections.Counter[str]) == counted
    grouped = collections.defaultdict(list, {NOON: [1]})
    again = portable.decode(portable.serialize(grouped), collections.defaultdict[datetime, list[int]])
    assert (type(again), again) == (collections.defaultdict, grouped)
    text = portable.decode('"x"', Text)
    assert (type(text), text) == (Text, "x")


class _Attribute(NamedTuple):
    name: str


class _AttrsLike:
    __attrs_attrs__ = (_Attribute("x"), _Attribute("y"))

    def __init__(self) -> None:
        self.x, self.y = 1, {2}


def test_attrs_class_is_written_as_an_object() -> None:
    assert portable.serialize(_AttrsLike()) == '{"x":1,"y":[2]}'


@dataclass
class _Logged:
    log: ClassVar[logging.Logger] = logging.getLogger(__name__)
    name: str
    seen: datetime


def test_attribute_of_a_dataclass_that_its_class_has_is_not_written() -> None:
    for seen in (datetime(2024, 5, 6, tzinfo=UTC), datetime(2024, 5, 6, tzinfo=timezone(timedelta(hours=1)))):
        made = _Logged("a", seen)
        text = portable.serialize(made)
        assert set(portable.deserialize(text)) == {"name", "seen"}
        assert portable.decode(text, _Logged) == made


def test_annotation_that_cannot_be_hashed_is_read_all_the_same() -> None:
    from typing import Annotated

    assert portable.decode("[1]", Annotated[list[int], {"a": []}]) == [1]
