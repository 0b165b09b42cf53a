"""Values and errors that the suite records: module-level, so that a reader can find their types."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Any

import pydantic

DAY = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    number: int
    lines: list[tuple[str, int]] = field(default_factory=list)
    paid: dt.datetime | None = None


class Receipt(pydantic.BaseModel):
    order: int
    total: decimal.Decimal


async def typed_tuple() -> tuple[int, str]:
    return 1, "a"


async def plain_tuple():  # type: ignore[no-untyped-def]  # noqa: ANN201 -- what comes back without an annotation
    return (1, (2, 3))


async def order() -> Order:
    return Order(17, [("tea", 2)], DAY)


async def receipt() -> Receipt:
    return Receipt(order=17, total=decimal.Decimal("10.50"))


async def moment() -> dt.datetime:
    return DAY


async def identifier() -> uuid.UUID:
    return uuid.UUID(int=7)


async def amount() -> decimal.Decimal:
    return decimal.Decimal("0.10")


async def colour() -> Colour:
    return Colour.RED


async def raw() -> bytes:
    return b"\x00\xff"


async def many() -> set[int]:
    return {3, 1, 2}


async def whole_as_float() -> float:
    return 3


async def text_as_amount() -> decimal.Decimal:
    return "1.5"  # type: ignore[return-value]


async def nothing() -> None:
    return None


async def large() -> int:
    return 2**70


async def text() -> str:
    return "naïve 🐙 \x00 end"


async def mapping() -> dict[str, Any]:
    return {"a": [1, 2.5, None, True]}


VALUES = [
    (typed_tuple, (1, "a")),
    (plain_tuple, [1, [2, 3]]),
    (order, Order(17, [("tea", 2)], DAY)),
    (receipt, Receipt(order=17, total=decimal.Decimal("10.50"))),
    (moment, DAY),
    (identifier, uuid.UUID(int=7)),
    (amount, decimal.Decimal("0.10")),
    (colour, Colour.RED),
    (raw, b"\x00\xff"),
    (many, {1, 2, 3}),
    (whole_as_float, 3.0),
    (text_as_amount, decimal.Decimal("1.5")),
    (nothing, None),
    (large, 2**70),
    (text, "naïve 🐙 \x00 end"),
    (mapping, {"a": [1, 2.5, None, True]}),
]


class OutOfStock(Exception):
    """An error with arguments and attributes of its own."""

    def __init__(self, sku: str, left: int) -> None:
        super().__init__(f"{sku} is out of stock")
        self.sku = sku
        self.left = left
        self.response = object()


class TimeoutError(Exception):  # noqa: A001 -- the name of a built-in class, in another module
    """An error whose last name is that of a built-in one."""


class Silent(Exception):
    """An error that cannot be shown, nor pickled."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")
