"""Recorded errors come back as what they were, and writing one never fails."""

from __future__ import annotations

import builtins
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, Flag
from http import HTTPStatus
from typing import Any, Self
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.errors import CannotDeserialize, Conflict, RecordedError
from holdfast.serialize import decode_error, encode_error, error_name
from holdfast.serialize.exact import tag, untag
from holdfast.serialize.failure import MAX_ERRORS, MAX_MESSAGE, MAX_RECORD


class Declined(Exception):
    constructed = 0

    def __init__(self, code: str, *, cents: int) -> None:
        type(self).constructed += 1
        super().__init__(f"declined with {code}")
        self.code = code
        self.cents = cents


class DiskFull(OSError):
    def __init__(self, device: str) -> None:
        super().__init__(28, "No space left", device)
        self.device = device


@dataclass
class Refused(Exception):
    reason: str


class Several(ExceptionGroup[Exception]):
    pass


class Batch(ExceptionGroup[Exception]):
    code: int

    def __new__(cls, message: str, errors: list[Exception], code: int) -> Self:
        made = super().__new__(cls, message, errors)
        made.code = code
        return made


KNOWN: dict[str, type[BaseException]] = {
    error_name(kind): kind for kind in (Declined, DiskFull, Refused, Several, Batch)
}


def _again(error: BaseException, known: dict[str, type[BaseException]] | None = None) -> BaseException:
    return decode_error(encode_error(error), known)


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 -- whatever it is, it is what was asked for
        return caught


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), '{"name":"ValueError","message":"no","code":null}'),
        (ValueError(), '{"name":"ValueError","message":"","code":null,"data":{"python":{"args":[]}}}'),
        (KeyError("k"), '{"name":"KeyError","message":"\'k\'","code":null,"data":{"python":{"args":["k"]}}}'),
        (Conflict("é"), '{"name":"holdfast.errors.Conflict","message":"é","code":null}'),
    ],
    ids=repr,
)
def test_error_is_written_as_documented(error: BaseException, text: str) -> None:
    assert encode_error(error) == text


def test_code_of_the_error_is_written_for_other_languages() -> None:
    record = json.loads(encode_error(Declined("card_expired", cents=5)))
    assert record["name"] == error_name(Declined)
    assert record["message"] == "declined with card_expired"
    assert record["code"] == "card_expired"
    assert record["data"]["python"]["attributes"] == {"code": "card_expired", "cents": 5}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.sampled_from(["$tuple", "$", "a"]), inner)
        | st.sets(st.integers())
        | st.frozensets(st.text())
    ),
    max_leaves=10,
)


def _same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down: 1, 1.0 and True are equal, but not the same."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list | tuple):
        return all(map(_same, one, other))
    return not isinstance(one, dict) or all(_same(one[key], other[key]) for key in one)


@given(
    st.lists(values, max_size=4),
    st.dictionaries(st.text(min_size=1).filter(str.isidentifier), values, max_size=3),
)
def test_arguments_and_attributes_come_back_exactly(args: list[Any], attributes: dict[str, Any]) -> None:
    error = RuntimeError(*args)
    vars(error).update(attributes)
    again = _again(error)
    assert type(again) is RuntimeError
    assert _same(again.args, error.args)
    assert _same(vars(again), attributes)


@given(values)
def test_tagged_value_is_json_and_comes_back(value: Any) -> None:
    written = json.dumps(tag(value), allow_nan=False)
    assert _same(untag(json.loads(written)), value)


_PLACE = ("file.py", 1, 2, "x = (", 1, 5)
_ODD: dict[type[BaseException], tuple[Any, ...]] = {
    SyntaxError: ("bad", _PLACE),
    IndentationError: ("bad", _PLACE),
    TabError: ("bad", _PLACE),
    UnicodeDecodeError: ("utf-8", b"\xff", 0, 1, "bad"),
    UnicodeEncodeError: ("utf-8", "\ud800", 0, 1, "bad"),
    UnicodeTranslateError: ("x", 0, 1, "bad"),
}
_BUILTIN = [
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, BaseExceptionGroup)
    if not kind.__name__.startswith("_")  # CPython's own affair
]


@pytest.mark.parametrize("kind", _BUILTIN, ids=lambda kind: kind.__name__)
def test_every_builtin_error_comes_back_as_itself(kind: type[Exception]) -> None:
    error = kind(*_ODD.get(kind, ("text", 2)))
    again = _again(error)
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)


def test_every_error_of_ours_comes_back_as_itself() -> None:
    ours = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.HoldfastError)]
    assert len(ours) > 20
    for kind in ours:
        error = kind.__new__(kind, "what happened")
        assert kind is RecordedError or type(_again(error)) is kind


def test_what_cpython_keeps_aside_comes_back() -> None:
    missing = _again(FileNotFoundError(2, "No such file", "a.txt", None, "b.txt"))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.strerror, missing.filename, missing.filename2) == (
        2,
        "No such file",
        "a.txt",
        "b.txt",
    )
    unimported = _again(ImportError("no", name="n", path="p"))
    assert isinstance(unimported, ImportError)
    assert (unimported.name, unimported.path) == ("n", "p")
    undecoded = _again(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"))
    assert isinstance(undecoded, UnicodeDecodeError)
    assert (undecoded.object, undecoded.start, undecoded.reason) == (b"\xff", 0, "bad")


def test_known_error_comes_back_without_running_its_constructor() -> None:
    error = Declined("card_expired", cents=5)
    before = Declined.constructed
    again = _again(error, KNOWN)
    assert Declined.constructed == before
    assert isinstance(again, Declined)
    assert (again.args, again.code, again.cents) == (error.args, "card_expired", 5)


def test_known_error_that_makes_itself_from_other_arguments_comes_back() -> None:
    again = _again(Batch("two", [ValueError("no")], 7), KNOWN)
    assert isinstance(again, Batch)
    assert (again.message, again.code, repr(again.exceptions)) == ("two", 7, "(ValueError('no'),)")


def test_known_error_on_a_builtin_with_fields_comes_back() -> None:
    again = _again(DiskFull("sda"), KNOWN)
    assert isinstance(again, DiskFull)
    assert (again.errno, again.filename, again.device, str(again)) == (28, "sda", "sda", str(DiskFull("sda")))
    assert _again(Refused("why"), KNOWN) == Refused("why")


def test_known_errors_may_be_named_without_their_module() -> None:
    text = encode_error(Refused("why")).replace(error_name(Refused), "__main__.Refused")
    assert isinstance(decode_error(text, {"Refused": Refused}), Refused)


def test_unknown_error_comes_back_as_a_stand_in_that_is_recorded_as_the_same() -> None:
    text = encode_error(Declined("card_expired", cents=5))
    stand_in = decode_error(text)
    assert isinstance(stand_in, RecordedError)
    assert stand_in.name == error_name(Declined)
    assert stand_in.message == "declined with card_expired"
    assert stand_in.code == "card_expired"
    assert str(stand_in) == f"{error_name(Declined)}: declined with card_expired"
    assert encode_error(stand_in) == text
    assert isinstance(decode_error(encode_error(stand_in), KNOWN), Declined)


@pytest.mark.parametrize(
    "name", ["os.system", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "eval", "print", "", "."]
)
def test_stored_name_never_reaches_anything_but_errors(name: str) -> None:
    error = decode_error(json.dumps({"name": name, "message": "x", "code": None}))
    assert type(error) is RecordedError
    assert error.name == name


def test_superseded_is_not_raised_from_a_record() -> None:
    assert type(decode_error('{"name":"holdfast.errors.Superseded","message":"x","code":null}')) is RecordedError


def test_error_of_another_language_keeps_its_code_and_data() -> None:
    error = decode_error('{"name":"TypeError","message":"x is not a function","code":"E1","data":{"line":3}}')
    assert isinstance(error, RecordedError)
    assert (error.name, error.code, error.data) == ("TypeError", "E1", {"line": 3})
    assert type(decode_error('{"name":"TypeError","message":"x"}')) is TypeError


@pytest.mark.parametrize("text", ["[]", "null", '{"message":"x"}', "no", '{"name":1}'])
def test_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(CannotDeserialize, match="the recorded error"):
        decode_error(text)


@pytest.mark.parametrize(
    "python",
    [
        {"args": 5},
        {"args": [{"$bytes": 3}]},
        {"attributes": []},
        {"places": {"nothing": 1}},
        {"group": {}},
        {"group": {"message": "x", "errors": []}},
        {"args": [], "notes": 3},
    ],
    ids=repr,
)
def test_damaged_details_still_give_an_error(python: object) -> None:
    error = decode_error(
        json.dumps({"name": "FileExistsError", "message": "m", "code": None, "data": {"python": python}})
    )
    assert isinstance(error, RecordedError | FileExistsError)


def test_cause_context_and_notes_come_back() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    error.add_note("a note")
    again = _again(error)
    assert type(again.__cause__) is KeyError
    assert again.__cause__.args == ("inner",)
    assert again.__notes__ == ["a note"]
    assert again.__suppress_context__
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904 -- the implicit context is the case
    except ValueError as caught:
        context = _again(caught).__context__
    assert isinstance(context, KeyError)


def test_hidden_context_stays_hidden() -> None:
    error = ValueError("outer")
    error.__context__ = KeyError("secret")
    error.__suppress_context__ = True
    assert "secret" not in encode_error(error)


def test_group_comes_back_with_its_members() -> None:
    group = ExceptionGroup("several", [ValueError(1), ExceptionGroup("in", [KeyError("k")]), Declined("x", cents=1)])
    again = _again(group, KNOWN)
    assert isinstance(again, ExceptionGroup)
    assert again.message == "several"
    assert [type(one) for one in again.exceptions] == [ValueError, ExceptionGroup, Declined]
    assert type(_again(Several("s", [ValueError()]), KNOWN)) is Several
    assert type(_again(Several("s", [ValueError()]))) is RecordedError


def test_traceback_is_kept_when_asked_for() -> None:
    record = json.loads(encode_error(_raised(ValueError("x")), traceback=True))
    assert "in _raised" in record["data"]["traceback"]
    assert "traceback" not in encode_error(_raised(ValueError("x")))


class _Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError

    @property
    def code(self) -> int:
        raise RuntimeError


class _LyingText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 -- the lie is the case


def _endless() -> BaseException:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    return first


def _wide(width: int, depth: int) -> Exception:
    if depth == 0:
        return ValueError("x")
    return ExceptionGroup("g", [_wide(width, depth - 1) for _ in range(width)])


@pytest.mark.parametrize(
    "error",
    [
        _Hostile("x", object()),
        _LyingText("x"),
        ValueError(_Hostile()),
        ValueError("\ud800\0"),
        ValueError("x" * 10_000_000),
        ValueError(list(range(100_000))),
        ValueError(*range(100_000)),
        ValueError({"a": object(), 1: float("nan")}),
        ValueError(10**5000),
        _endless(),
        _wide(6, 4),
        BaseExceptionGroup("b", [KeyboardInterrupt()]),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_writing_an_error_never_fails_and_is_bounded(error: BaseException) -> None:
    text = encode_error(error, traceback=True)
    text.encode()
    assert len(text) <= MAX_RECORD
    record = json.loads(text)
    assert record["name"] == error_name(type(error))
    assert len(record["message"]) <= MAX_MESSAGE + 50
    assert text.count('"code"') <= MAX_ERRORS
    assert isinstance(decode_error(text), Exception)


def test_self_containing_argument_is_recorded() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert type(_again(ValueError(loop))) is ValueError


def test_long_message_is_cut_and_says_so() -> None:
    again = _again(ValueError("x" * 100_000))
    assert str(again) == "x" * MAX_MESSAGE + f"… ({100_000 - MAX_MESSAGE} characters more)"


class Reason(Enum):
    EXPIRED = ("expired", 3)


class Access(Flag):
    READ = 1
    WRITE = 2


class Sku(str):
    __slots__ = ()


def test_members_of_enums_in_arguments_and_attributes_come_back_as_themselves() -> None:
    members = (HTTPStatus.NOT_FOUND, Reason.EXPIRED, Access.READ | Access.WRITE, Access(0))
    error = Declined("a", cents=1)
    error.args = members
    error.code = HTTPStatus.NOT_FOUND  # type: ignore[assignment]
    again = _again(error, KNOWN)
    assert again.args == members
    assert all(type(one) is type(other) for one, other in zip(again.args, members, strict=True))
    assert again.code is HTTPStatus.NOT_FOUND  # type: ignore[attr-defined]
    assert json.loads(encode_error(error))["code"] == 404


def test_member_of_an_enum_that_is_not_loaded_comes_back_as_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    text = encode_error(ValueError(Reason.EXPIRED, HTTPStatus.NOT_FOUND))
    monkeypatch.delattr("http.HTTPStatus")
    monkeypatch.delitem(globals(), "Reason")
    assert decode_error(text).args == (("expired", 3), 404)


def test_text_or_number_of_a_class_of_its_own_comes_back_as_what_it_is_without_that() -> None:
    error = ValueError(1, Sku("a-1"))
    [_, sku] = _again(error).args
    assert (type(sku), sku) == (str, "a-1")
    assert isinstance(_again(ValueError(1, 10**5000)).args[1], str)  # too long to be a number in JSON


def test_exact_values_in_arguments() -> None:
    args = (
        Decimal("1.50"),
        UUID(int=1),
        datetime(2024, 5, 6, tzinfo=UTC),
        (1, [b"x"]),
        {"$tuple": 1},
        {2: {3}},
    )
    assert _again(ValueError(*args)).args == args
