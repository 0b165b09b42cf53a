"""Formats are opted in to; the marker says which one made a text."""

from __future__ import annotations

import base64
import pickle
from collections import deque
from datetime import date
from typing import Any

import pytest

from holdfast.errors import CannotDeserialize, CannotSerialize, ConfigurationError, FormatRefused
from holdfast.serialize import (
    CallCodec,
    Compression,
    PickleFormat,
    PortableJSON,
    Serialization,
    Serializer,
    Stored,
)

PICKLED = base64.b64encode(pickle.dumps({1, 2})).decode()


class Reversed:
    """A custom format."""

    def __init__(self, name: str = "reversed") -> None:
        self.name = name

    def serialize(self, value: Any) -> str:
        return repr(value)[::-1]

    def deserialize(self, text: str) -> Any:
        return {"]1[": [1], "kcab": "back"}.get(text, text)


def fn(day: date, n: int = 1) -> date:
    raise NotImplementedError


def test_default_is_portable_json() -> None:
    assert Serialization().dump({"a": 1}) == Stored('{"a":1}', "portable_json")
    assert Serialization().load('"2024-05-06"', "portable_json", date) == date(2024, 5, 6)


def test_missing_marker_means_the_configured_format() -> None:
    assert Serialization().load("[1]", None) == [1]
    assert Serialization(PickleFormat()).load(PICKLED, None) == {1, 2}


def test_pickle_is_refused_without_opting_in() -> None:
    with pytest.raises(FormatRefused, match=r"py_pickle.*also=\[PickleFormat\(\)\]"):
        Serialization().load(PICKLED, "py_pickle")
    with pytest.raises(FormatRefused, match="py_pickle"):
        Serialization().dump(1, within="py_pickle")


def test_refused_pickle_is_not_opened() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("it was opened",))

    text = base64.b64encode(pickle.dumps(Bomb())).decode()
    with pytest.raises(FormatRefused):
        Serialization().load_call(text, "py_pickle", CallCodec(fn))


def test_pickle_is_read_when_opted_in_and_written_when_default() -> None:
    assert Serialization(also=[PickleFormat()]).load(PICKLED, "py_pickle") == {1, 2}
    stored = Serialization(PickleFormat()).dump(deque([1]))
    assert stored.format == "py_pickle"
    assert pickle.loads(base64.b64decode(stored.text)) == deque([1])  # noqa: S301 -- made above


def test_pickle_failures_are_ours() -> None:
    with pytest.raises(CannotSerialize, match="Cannot pickle"):
        PickleFormat().serialize(lambda: 0)
    for text in ("***", base64.b64encode(b"junk").decode(), base64.b64encode(b"cno_module\nX\n.").decode()):
        with pytest.raises(CannotDeserialize, match="Cannot unpickle"):
            PickleFormat().deserialize(text)


def test_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(FormatRefused, match=r"'js_superjson'.*it reads portable_json"):
        Serialization().load("x", "js_superjson")


def test_custom_format_is_used_by_its_name() -> None:
    custom: Serializer = Reversed()
    assert Serialization(custom).dump([1]) == Stored("]1[", "reversed")
    assert Serialization(also=[custom]).load("kcab", "reversed", date) == "back"


def test_portable_json_is_readable_whatever_the_default_is() -> None:
    assert Serialization(Reversed()).load('"2024-05-06"', "portable_json", date) == date(2024, 5, 6)


@pytest.mark.parametrize("name", ["", "a+b", "a:b", "a b"])
def test_format_name_that_the_marker_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name of a format"):
        Serialization(also=[Reversed(name)])


def test_two_formats_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        Serialization(PortableJSON(), also=[PortableJSON()])


def test_value_within_a_row_is_written_by_the_rows_marker() -> None:
    serialization = Serialization(PickleFormat(), codecs=[Compression(min_bytes=0)])
    assert serialization.dump([1], within="portable_json") == Stored("[1]", "portable_json")
    stored = serialization.dump([1], within="py_pickle+zlib")
    assert stored.format == "py_pickle+zlib"
    assert serialization.load(*stored) == [1]


@pytest.mark.parametrize("default", [PortableJSON(), PickleFormat()], ids=lambda one: one.name)
def test_call_and_result_come_back_in_every_format(default: Serializer) -> None:
    serialization, codec = Serialization(default), CallCodec(fn)
    stored = serialization.dump_call((date(2024, 5, 6),), {"n": 2})
    assert serialization.load_call(*stored, codec) == ((date(2024, 5, 6),), {"n": 2})
    assert serialization.load_result(*serialization.dump(date(2024, 5, 6)), codec) == date(2024, 5, 6)


def test_call_in_another_format_must_fit_the_signature_too() -> None:
    serialization = Serialization(PickleFormat())
    with pytest.raises(CannotDeserialize, match="no parameter named 'x'"):
        serialization.load_call(*serialization.dump_call((1,), {"x": 2}), CallCodec(fn))
    with pytest.raises(CannotDeserialize, match="is a list, not a dict"):
        serialization.load_call(*serialization.dump([1]), CallCodec(fn))


def test_error_is_portable_in_every_format() -> None:
    stored = Serialization(PickleFormat()).dump_error(ValueError("x"))
    assert stored == Stored('{"name":"ValueError","message":"x","code":null}', "portable_json")
    within = Serialization(also=[PickleFormat()]).dump_error(ValueError("x"), within="py_pickle")
    assert within == Stored(stored.text, "py_pickle")
    error = Serialization().load_error(*within)
    assert (type(error), error.args) == (ValueError, ("x",))
