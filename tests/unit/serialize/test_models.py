"""Models of pydantic in JSON types: the same in every process, whatever the order of the sets in them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from holdfast.serialize import PortableJSON, Serialization
from holdfast.stores.idempotency.fingerprint import digest
from holdfast.workflows.payloads import Payloads

ONE, OTHER = {0, 8}, {8, 0}  # they fall on the same place of the table, so each keeps the order it was made in


@dataclass
class Part:
    numbers: set[int]


class Plain(pydantic.BaseModel):
    numbers: set[int]


class Renamed(pydantic.BaseModel):
    numbers: set[int] = pydantic.Field(alias="ns")


class Frozen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    number: int


class Deep(pydantic.BaseModel):
    parts: dict[str, list[Part]]
    pairs: tuple[int, frozenset[int]]
    models: set[Frozen]


class Root(pydantic.RootModel[list[set[int]]]):
    pass


class Shown(pydantic.BaseModel):
    numbers: set[int]

    @pydantic.field_serializer("numbers")
    def _as_text(self, numbers: set[int]) -> str:
        return str(sorted(numbers))

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> set[int]:
        return {2 * number for number in self.numbers}


MAKERS: dict[str, Any] = {
    "plain": lambda numbers: Plain(numbers=numbers),
    "alias": lambda numbers: Renamed(ns=numbers),
    "root": lambda numbers: Root([numbers]),
    "own serializer": lambda numbers: Shown(numbers=numbers),
    "deep": lambda numbers: Deep(
        parts={"a": [Part(numbers)]}, pairs=(1, frozenset(numbers)), models={Frozen(number=each) for each in numbers}
    ),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_sets_in_a_model_have_one_order(make: Any) -> None:
    assert list(ONE) != list(OTHER)
    one, other = make(ONE), make(OTHER)
    assert one == other
    assert PortableJSON().serialize(one) == PortableJSON().serialize(other)
    assert digest("call", {"x": one}) == digest("call", {"x": other})
    mark = Payloads(Serialization()).mark
    assert mark("call", (one,), {}) == mark("call", (other,), {}) != mark("call", (make({0, 16}),), {})


def test_model_with_sets_comes_back() -> None:
    portable = PortableJSON()
    for make in (MAKERS["plain"], MAKERS["alias"], MAKERS["root"], MAKERS["deep"]):
        model = make({3, 1, 2})
        assert portable.decode(portable.serialize(model), type(model)) == model
