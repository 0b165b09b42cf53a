"""Calls and results are typed by the signature of their function."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Reversible
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, LiteralString, Never, NoReturn, ParamSpec, Protocol, TypedDict, TypeVar, Unpack
from uuid import UUID

import pytest

from holdfast.errors import CannotDeserialize, ConfigurationError
from holdfast.serialize import CallCodec

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

P = ParamSpec("P")
R = TypeVar("R")
ID = UUID(int=1)


class Star(Enum):
    SUN = 2**70


@dataclass
class Clerk:
    day: str

    def __call__(self, day: date) -> set[date]:
        raise NotImplementedError


@dataclass
class Order:
    id: str
    cents: int


class Options(TypedDict):
    x: int


def plain(a, b=2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    raise NotImplementedError


def typed(order: Order, when: datetime, note: str | None = None) -> set[int]:
    raise NotImplementedError


def positional_only(day: date, /, share: Decimal) -> None:
    raise NotImplementedError


def variadic(first: int, *days: date, flag: bool = False, **ids: UUID) -> None:
    raise NotImplementedError


def keyword_only(*, raw: bytes) -> None:
    raise NotImplementedError


def half_known(order: Order, part: Fraction) -> Fraction:
    raise NotImplementedError


def unpacked(**options: Unpack[Options]) -> None:
    raise NotImplementedError


def shares_names(name: str, /, **others: int) -> None:
    raise NotImplementedError


class Shop:
    def __call__(self, order: Order) -> Decimal:
        raise NotImplementedError

    def sell(self, order: Order) -> Decimal:
        raise NotImplementedError


def _wrapped(fn: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(fn)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    return inner


def _unnamed(fn: Callable[P, R]) -> Callable[P, R]:
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    return inner


ORDER = '{"id":"o1","cents":5}'
DAY = '"2024-05-06"'


@pytest.mark.parametrize(
    ("fn", "text", "args", "kwargs"),
    [
        (
            plain,
            '{"positionalArgs":[{"x":1.0}],"namedArgs":{"b":"2024-05-06"}}',
            ({"x": 1.0},),
            {"b": "2024-05-06"},
        ),
        (plain, '{"namedArgs":{"a":1}}', (), {"a": 1}),
        (plain, '{"positionalArgs":[1],"namedArgs":null}', (1,), {}),
        (
            typed,
            f'{{"positionalArgs":[{ORDER},"2024-05-06T00:00:00Z"]}}',
            (Order("o1", 5), datetime(2024, 5, 6, tzinfo=UTC)),
            {},
        ),
        (
            typed,
            f'{{"positionalArgs":null,"namedArgs":{{"order":{ORDER},"when":"2024-05-06T00:00:00Z","note":null}}}}',
            (),
            {"order": Order("o1", 5), "when": datetime(2024, 5, 6, tzinfo=UTC), "note": None},
        ),
        (positional_only, f'{{"positionalArgs":[{DAY},"1.50"]}}', (date(2024, 5, 6), Decimal("1.50")), {}),
        (
            variadic,
            f'{{"positionalArgs":[1,{DAY},{DAY}],"namedArgs":{{"flag":true,"a":"{ID}"}}}}',
            (1, date(2024, 5, 6), date(2024, 5, 6)),
            {"flag": True, "a": ID},
        ),
        (keyword_only, '{"namedArgs":{"raw":"YWI="}}', (), {"raw": b"ab"}),
        (half_known, f'{{"positionalArgs":[{ORDER},"1/2"]}}', (Order("o1", 5), "1/2"), {}),
        (unpacked, '{"namedArgs":{"x":1}}', (), {"x": 1}),
        (shares_names, '{"positionalArgs":["n"],"namedArgs":{"name":1}}', ("n",), {"name": 1}),
        (Shop().sell, f'{{"positionalArgs":[{ORDER}]}}', (Order("o1", 5),), {}),
        (_wrapped(positional_only), f'{{"positionalArgs":[{DAY},"1"]}}', (date(2024, 5, 6), Decimal(1)), {}),
        (_unnamed(positional_only), f'{{"positionalArgs":[{DAY}]}}', ("2024-05-06",), {}),
        (functools.partial(variadic, 1), f'{{"positionalArgs":[{DAY}]}}', (date(2024, 5, 6),), {}),
        (functools.partial(Shop().sell), f'{{"positionalArgs":[{ORDER}]}}', (Order("o1", 5),), {}),
        (Clerk("1"), f'{{"positionalArgs":[{DAY}]}}', (date(2024, 5, 6),), {}),
        (Shop(), f'{{"positionalArgs":[{ORDER}]}}', (Order("o1", 5),), {}),
    ],
)
def test_call_is_typed_by_the_signature(
    fn: Callable[..., Any],
    text: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    assert CallCodec(fn).decode_call(text) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "text", "message"),
    [
        (
            typed,
            '{"positionalArgs":[{"id":"o1","cents":true}, ""]}',
            r"'order' of typed at \$\.positionalArgs\[0\]\.cents",
        ),
        (variadic, '{"positionalArgs":[1,2]}', r"'days' of variadic at \$\.positionalArgs\[1\]"),
        (variadic, '{"positionalArgs":[1],"namedArgs":{"z":0}}', r"'ids' of variadic at \$\.namedArgs\.z"),
        (typed, f'{{"positionalArgs":[{ORDER}]}}', "there is no value for 'when'"),
        (keyword_only, "{}", "there is no value for 'raw'"),
        (keyword_only, '{"positionalArgs":["YQ=="]}', "there are 1 positional arguments, it takes 0"),
        (keyword_only, '{"namedArgs":{"raw":"","new":1}}', "no parameter named 'new'"),
        (
            positional_only,
            f'{{"positionalArgs":[{DAY}],"namedArgs":{{"day":{DAY}}}}}',
            "no parameter named 'day'",
        ),
        (plain, '{"positionalArgs":[1],"namedArgs":{"a":1}}', "'a' is given by position and by name"),
        (shares_names, '{"namedArgs":{"name":1}}', "there is no value for 'name'"),
        (plain, "[]", r"the call of plain at \$: Expected `object`, got `array`"),
        (plain, "nonsense", "the call of plain at .* not JSON"),
    ],
)
def test_call_that_does_not_fit_is_refused(fn: Callable[..., Any], text: str, message: str) -> None:
    with pytest.raises(CannotDeserialize, match=message):
        CallCodec(fn).decode_call(text)


def test_result_is_typed_by_the_return_annotation() -> None:
    assert CallCodec(typed).decode_result("[1,2]") == {1, 2}
    for fn in (Shop().sell, Shop(), functools.partial(Shop().sell), functools.partial(Shop())):
        assert CallCodec(fn).decode_result('"1.5"') == Decimal("1.5")
    assert CallCodec(plain).decode_result('{"a":1}') == {"a": 1}
    assert CallCodec(keyword_only).decode_result("null") is None
    with pytest.raises(CannotDeserialize, match="the result of typed"):
        CallCodec(typed).decode_result('["a"]')


@pytest.mark.parametrize(
    ("fn", "name"), [(Clerk("1"), "Clerk.__call__"), (functools.partial(Clerk("1")), "Clerk.__call__")]
)
def test_result_of_a_callable_is_typed_by_what_it_calls(fn: Callable[..., Any], name: str) -> None:
    codec = CallCodec(fn)
    assert (codec.name, codec.decode_result(f"[{DAY}]")) == (name, {date(2024, 5, 6)})


def test_annotation_that_cannot_be_resolved_is_reported_and_the_rest_is_typed() -> None:
    assert CallCodec(half_known).untyped == ("part", "return")
    assert CallCodec(typed).untyped == ()


def test_leading_parameters_can_be_left_to_the_library() -> None:
    codec = CallCodec(half_known, skip=1)
    assert codec.decode_call('{"positionalArgs":["1/2"]}') == (("1/2",), {})
    assert CallCodec(typed, skip=2).decode_call("{}") == ((), {})


def test_class_of_the_enclosing_function_is_found() -> None:
    @dataclass
    class Local:
        x: int

    def fn(value: Local) -> Local:
        return Local(value.x)

    assert CallCodec(fn).decode_call('{"positionalArgs":[{"x":1}]}') == ((Local(1),), {})


def test_annotation_that_json_cannot_tell_apart_fails_when_the_codec_is_made() -> None:
    def fn(when: str | datetime) -> None:
        raise NotImplementedError

    with pytest.raises(ConfigurationError, match=r"The annotation of argument 'when' of .*fn cannot be read back"):
        CallCodec(fn)

    def far(star: Star) -> None:
        raise NotImplementedError

    with pytest.raises(ConfigurationError, match=r"The annotation of argument 'star' of .*far cannot be read back"):
        CallCodec(far)


def test_annotation_that_means_something_to_type_checkers_alone_is_read_as_what_it_is() -> None:
    def serve() -> NoReturn:
        raise NotImplementedError

    def fail(why: LiteralString) -> Never:
        raise NotImplementedError

    assert CallCodec(serve).decode_result("null") is None
    assert CallCodec(fail).decode_call('{"positionalArgs":["no"]}') == (("no",), {})
    with pytest.raises(CannotDeserialize, match=r"'why' of .*fail"):
        CallCodec(fail).decode_call('{"positionalArgs":[1]}')


def test_live_call_that_does_not_fit_is_a_type_error() -> None:
    codec = CallCodec(plain)
    with pytest.raises(TypeError, match=r"plain\(\) cannot be called like this: it has no parameter named 'zz'"):
        codec.check_live(1, {"zz": 1})


class Dated(Protocol):
    when: date


@pytest.mark.parametrize("annotation", [Iterable, Reversible, Container])
def test_list_comes_back_typed_where_any_iterable_will_do(annotation: Any) -> None:
    def count(orders: Any, days: Any = None) -> Any:
        raise NotImplementedError

    count.__annotations__ = {
        "orders": annotation[Order],
        "days": annotation[date] | None,
        "return": annotation[annotation[Decimal]],
    }
    codec = CallCodec(count)
    call = '{"positionalArgs":[[{"id":"o-1","cents":5}],["2024-05-06"]]}'
    assert codec.decode_call(call) == (([Order("o-1", 5)], [date(2024, 5, 6)]), {})
    assert codec.decode_result('[["0.10"],[]]') == [[Decimal("0.10")], []]
    with pytest.raises(CannotDeserialize, match=r"argument 'orders' of .*positionalArgs\[0\]"):
        codec.decode_call('{"positionalArgs":[[{"id":"o-1"}]]}')


def test_annotation_that_is_a_protocol_is_named_where_nothing_can_be_built_as_it() -> None:
    def wait(until: Dated) -> None:
        raise NotImplementedError

    with pytest.raises(CannotDeserialize, match=r"'until' of .*: Dated is a Protocol.*: annotate a class, or Any"):
        CallCodec(wait).decode_call('{"positionalArgs":[{"when":"2024-05-06"}]}')
