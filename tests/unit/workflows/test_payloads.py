"""What goes into the record comes out of it the same, the first time and every time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Optional, Union

import pytest

from holdfast.errors import RecordedError
from holdfast.serialize import Serialization
from holdfast.workflows.payloads import LoadedErrors, Payloads


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


def test_errors_are_found_by_their_whole_name_only() -> None:
    loaded = LoadedErrors()
    assert loaded[f"{__name__}.Known"] is Known
    assert loaded[f"{__name__}.TimeoutError"] is TimeoutError
    for name in ("Known", "TimeoutError", "elsewhere.Known", "builtins.ValueError"):
        with pytest.raises(KeyError):
            loaded[name]


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
