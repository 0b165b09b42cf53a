"""The records of flow checkpoints: what they keep through text, and what they say about themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntFlag, StrEnum
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from holdfast.errors import CannotDeserialize, CannotSerialize, RecordedError
from holdfast.stores import CheckpointStatus, FlowCheckpoint, NodeCheckpointState, PendingInputContext
from holdfast.stores.flow.model import CheckpointBehavior
from holdfast.stores.flow.retention import deletable
from holdfast.stores.flow.shelf import Card

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Day(StrEnum):
    MONDAY = "monday"


@dataclass(frozen=True)
class Point:
    x: int
    y: Decimal


class Person(BaseModel):
    name: str
    born: datetime


class Pair(NamedTuple):
    one: Any
    other: Any = None


class Right(Flag):
    READ = 1
    WRITE = 2


class Mode(IntFlag):
    FAST = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = Field(default="nobody", alias="Name")
    _seen: int = PrivateAttr(default=0)


@dataclass
class Order:
    price: int
    sent: datetime = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.checked = True

    @cached_property
    def total(self) -> int:
        return self.price * 2


@dataclass
class Labelled(dict[str, int]):
    label: str = ""


BERLIN = ZoneInfo("Europe/Berlin")
ADA = Open.model_validate({"Name": "Ada", "age": 36})
ADA._seen = 7


class OwnError(Exception):
    """An error whose arguments are not those of its base."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what)
        self.code = code


@pytest.mark.parametrize(
    "value",
    [
        b"\xff\x00\x01",
        NOON,
        NOON.replace(tzinfo=None),
        NOON.date(),
        timedelta(days=1, microseconds=5),
        Decimal("1.100"),
        UUID(int=5),
        Colour.RED,
        Right.READ | Right.WRITE,
        Right(0),
        Mode(9),
        NOON.astimezone(BERLIN),
        datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),  # no clock there shows it
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),  # shown twice: the second time
        NOON.replace(tzinfo=None, fold=1),
        time(1, 2, tzinfo=BERLIN),
        ADA,
        Open(),
        {1, 2, 3},
        frozenset({"a"}),
        (1, (2, [3])),
        Pair(1, Pair(b"x")),
        Point(1, Decimal("2.5")),
        Person(name="Ada", born=NOON),
        {1: "int", "1": "text", (1, 2): "tuple", None: "none"},
        {"$tuple": [1]},
        {"$dict": [["a", 1]]},
        2**100,
        [-(10**5000)],
        "nul \0 and ü",
        [{"deep": [{"er": (b"x",)}]}],
    ],
)
def test_value_comes_back_as_it_was(value: Any) -> None:
    made = FlowCheckpoint("f", "r", original_input=value, metadata={"v": value})
    made.mark_node_complete("n", NodeCheckpointState("n", "t", "success", value, value, internal_state={"s": value}))
    back = FlowCheckpoint.from_bytes(made.to_bytes())
    assert back == made
    assert type(back.original_input) is type(value)
    assert FlowCheckpoint.from_json(made.to_json()) == made


def test_key_that_equals_a_text_beside_it_comes_back_as_what_it_was() -> None:
    value = [{"monday": 1}, {Day.MONDAY: 2}]
    back = FlowCheckpoint.from_bytes(FlowCheckpoint("f", "r", original_input=value).to_bytes()).original_input
    assert back == value
    assert [type(key) for each in back for key in each] == [str, Day]


def test_zone_and_fold_of_a_moment_come_back() -> None:
    moment = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    back = FlowCheckpoint.from_bytes(FlowCheckpoint("f", "r", original_input=moment).to_bytes()).original_input
    assert (back.tzinfo, back.fold, back.utcoffset()) == (BERLIN, 1, timedelta(hours=1))


def test_status_may_be_set_as_text() -> None:
    made = FlowCheckpoint("f", "r")
    made.status = "pending_input"  # type: ignore[assignment]
    assert FlowCheckpoint.from_json(made.to_json()).status is CheckpointStatus.PENDING_INPUT
    made.clear_pending_input("nobody")
    assert made.status is CheckpointStatus.ACTIVE
    made.status = "done"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="There is no status 'done'; there are active, paused"):
        made.to_dict()


def test_model_comes_back_with_what_is_beyond_its_fields() -> None:
    back = FlowCheckpoint.from_bytes(FlowCheckpoint("f", "r", original_input=[ADA, Open()]).to_bytes()).original_input
    assert (back[0].age, back[0]._seen, back[0].model_fields_set) == (36, 7, {"name", "age"})
    assert (back[1].model_fields_set, back[1].model_extra) == (set(), {})


def test_dataclass_comes_back_with_what_it_was_given_besides_its_fields_and_without_what_is_not_set() -> None:
    made = Order(2)
    assert made.total == 4
    back = FlowCheckpoint.from_bytes(FlowCheckpoint("f", "r", original_input=made).to_bytes()).original_input
    assert (back.price, back.checked, back.total) == (2, True, 4)
    assert not hasattr(back, "sent")
    made.lock = Lock()  # type: ignore[attr-defined]
    with pytest.raises(CannotSerialize, match=r"original_input\.lock"):
        FlowCheckpoint("f", "r", original_input=made).to_bytes()


def test_dataclass_that_has_gained_fields_gives_them_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Grown:
        x: int
        y: Decimal
        z: int = 3
        names: list[str] = field(default_factory=list)

    text = FlowCheckpoint("f", "r", original_input=Point(1, Decimal(2))).to_bytes()
    monkeypatch.setitem(globals(), "Point", Grown)
    back = FlowCheckpoint.from_bytes(text).original_input
    assert back == Grown(1, Decimal(2))


def test_named_tuple_that_has_gained_a_field_gives_it_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Grown(NamedTuple):
        other: Any
        one: Any
        third: int = 3

    text = FlowCheckpoint("f", "r", original_input=Pair(1, 2)).to_bytes()
    monkeypatch.setitem(globals(), "Pair", Grown)
    assert FlowCheckpoint.from_bytes(text).original_input == Grown(2, 1, 3)


def test_model_that_has_gained_a_field_gives_it_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Grown(BaseModel):
        name: str
        size: int = 3
        _seen: int = PrivateAttr(default=5)

    text = FlowCheckpoint("f", "r", original_input=Person(name="Ada", born=NOON)).to_bytes()
    monkeypatch.setitem(globals(), "Person", Grown)
    back = FlowCheckpoint.from_bytes(text).original_input
    assert (back.name, back.size, back._seen) == ("Ada", 3, 5)


def test_error_comes_back_as_itself_or_as_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {
        "n": NodeCheckpointState("n", error=ValueError("a", 1)),
        "m": NodeCheckpointState("m", error=OwnError("own", 3)),
    }
    text = FlowCheckpoint("f", "r", node_states=states).to_bytes()
    back = FlowCheckpoint.from_bytes(text).node_states
    assert (type(back["n"].error), back["n"].error.args) == (ValueError, ("a", 1))
    assert isinstance(back["m"].error, OwnError)
    assert (back["m"].error.args, back["m"].error.code) == (("own",), 3)
    monkeypatch.delitem(globals(), "OwnError")  # as in a process that has not loaded it
    stand_in = FlowCheckpoint.from_bytes(text).node_states["m"].error
    assert isinstance(stand_in, RecordedError)
    assert "OwnError" in stand_in.name


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), r"\$\.metadata\.v: "),
        ([1, {"a": open}], r"metadata\.v\[1\]\.a"),
        ({"a": lambda: None}, r"metadata\.v\.a"),
        ("\ud800", "metadata"),
        (Labelled(label="a"), r"metadata\.v: .*Labelled"),  # its entries would be lost
    ],
)
def test_value_that_cannot_be_kept_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(CannotSerialize, match=path):
        FlowCheckpoint("f", "r", metadata={"v": value}).to_bytes()


def test_fields_of_a_newer_release_are_kept_and_written_again() -> None:
    document = json.loads(FlowCheckpoint("f", "r", id="1", node_states={"n": NodeCheckpointState("n")}).to_bytes())
    document["version"] = "1.7"
    document["shade"] = "blue"
    document["node_states"]["n"]["weight"] = 3
    back = FlowCheckpoint.from_bytes(json.dumps(document).encode())
    assert (back.extra, back.node_states["n"].extra) == ({"shade": "blue"}, {"weight": 3})
    again = json.loads(back.to_bytes())
    assert (again["shade"], again["node_states"]["n"]["weight"], again["version"]) == ("blue", 3, "1.7")


def test_fields_an_older_release_did_not_write_have_their_defaults() -> None:
    back = FlowCheckpoint.from_json('{"id": "1", "flow_id": "f", "run_id": "r", "status": "canceled"}')
    assert (back.status, back.pending_inputs, back.version) == (CheckpointStatus.CANCELED, {}, "1.0")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"id": "1", "flow_id": "f", "run_id": "r", "version": "2.0"}', '{"$enum": ["os:system", "x"]}'],
)
def test_text_that_is_no_checkpoint_of_this_form_is_refused(text: str) -> None:
    with pytest.raises(CannotDeserialize):
        FlowCheckpoint.from_json(text)


def test_dump_builds_the_same_again() -> None:
    made = FlowCheckpoint("f", "r", metadata={"a": {1}})
    made.mark_pending_input("n", "Why?", resume_at=NOON)
    made.mark_node_complete("m", NodeCheckpointState("m", status="success", output_data=(1, 2), extra={"later": 1}))
    again = FlowCheckpoint(**made.model_dump())
    assert again == made
    assert (again.get_node_output("m"), again.resume_at) == ((1, 2), NOON)
    assert FlowCheckpoint.from_dict(made.to_dict()) == made
    assert made.model_dump() == made.to_dict()
    assert made.model_dump()["status"] == "pending_input"


def test_dump_that_was_written_as_plain_json_builds_a_checkpoint() -> None:
    made = FlowCheckpoint("f", "r", created_at=NOON, status=CheckpointStatus.PAUSED)
    made.mark_node_complete("m", NodeCheckpointState("m", status="success", output_data=[1]))
    data = json.loads(json.dumps(made.model_dump(), default=str))
    assert FlowCheckpoint(**data) == made
    assert FlowCheckpoint.from_json(FlowCheckpoint(**data).to_json()) == made


def test_only_success_and_skip_complete_a_node() -> None:
    made = FlowCheckpoint("f", "r", pending_node_ids=["a", "b", "c", "d"])
    made.mark_node_complete("a")
    made.mark_node_complete("b", NodeCheckpointState("b", status="skip"))
    made.mark_node_complete("c", NodeCheckpointState("c", status="failure"))
    made.mark_node_complete("a")
    assert made.completed_node_ids == ["a", "b"]
    assert made.pending_node_ids == ["d"]
    assert made.is_node_completed("c") is False
    assert made.node_states["c"].status == "failure"
    assert made.get_node_output("nobody") is None


def test_flow_is_active_again_when_nobody_waits() -> None:
    made = FlowCheckpoint("f", "r")
    first = made.mark_pending_input("a", "One?")
    second = made.mark_pending_input("b", "Two?", {"k": 1}, resume_at=NOON)
    assert first.request_id != second.request_id
    assert (made.status, made.has_pending_inputs(), made.resume_at) == (CheckpointStatus.PENDING_INPUT, True, NOON)
    assert made.get_pending_input("b") == second
    made.clear_pending_input("a")
    assert made.status is CheckpointStatus.PENDING_INPUT
    made.clear_pending_input("b")
    assert (made.status, made.resume_at) == (CheckpointStatus.ACTIVE, None)


def test_earliest_moment_counts_in_any_zone() -> None:
    made = FlowCheckpoint("f", "r")
    made.pending_inputs = {
        "a": PendingInputContext("a", resume_at=NOON.replace(tzinfo=None)),
        "b": PendingInputContext("b", resume_at=NOON + timedelta(hours=1)),
        "c": PendingInputContext("c"),
    }
    assert made.resume_at == NOON


def test_statuses_are_the_documented_ones() -> None:
    names = {"active", "paused", "completed", "failed", "canceled", "pending_input"}
    assert {str(status) for status in CheckpointStatus} == names
    assert {status.value for status in CheckpointStatus if status.has_ended} == {"completed", "failed", "canceled"}
    assert {status.value for status in CheckpointStatus if status.waits} == {"paused", "pending_input"}
    assert CheckpointBehavior("replace") is CheckpointBehavior.REPLACE
    with pytest.raises(ValueError, match="nonsense"):
        FlowCheckpoint("f", "r", status="nonsense")  # type: ignore[arg-type]


def _card(number: int, status: str, run: str) -> Card:
    return Card(str(number), "f", run, run, status, None, f"2026-01-{number:02}", "", None, 1, b"", number)


def test_retention_decides_by_place_age_and_run() -> None:
    cards = [
        _card(6, "completed", "a"),
        _card(5, "active", "b"),
        _card(4, "active", "b"),
        _card(3, "failed", "c"),
        _card(2, "pending_input", "c"),
        _card(1, "active", "c"),
    ]
    assert [card.id for card in deletable(cards, keep_count=0, older_than=None)] == ["6", "4", "3", "1"]
    assert [card.id for card in deletable(cards, keep_count=3, older_than=None)] == ["3", "1"]
    assert [card.id for card in deletable(cards, keep_count=None, older_than="2026-01-04")] == ["3", "1"]
    assert deletable(cards, keep_count=None, older_than=None) == []


def test_value_that_holds_itself_is_refused_at_once() -> None:
    family: dict[str, Any] = {"children": []}
    family["children"] += [{"parent": family, "born": NOON}, {"parent": family, "born": NOON}]
    with pytest.raises(CannotSerialize, match="holds itself"):
        FlowCheckpoint("f", "r", metadata=family).to_bytes()
    plain: list[Any] = []
    plain += [plain, plain]
    with pytest.raises(CannotSerialize, match="holds itself"):
        FlowCheckpoint("f", "r", original_input=plain).to_bytes()


def test_value_that_stands_in_two_places_is_kept_in_both() -> None:
    shared = {"when": NOON}
    made = FlowCheckpoint("f", "r", metadata={"a": shared, "b": [shared, shared]})
    assert FlowCheckpoint.from_bytes(made.to_bytes()) == made


@pytest.mark.parametrize("deep", [126, 140])
def test_depth_has_a_limit(deep: int) -> None:
    value: Any = "bottom"
    for _ in range(deep):
        value = [value]
    made = FlowCheckpoint("f", "r", original_input=value)
    if deep < 128:
        assert FlowCheckpoint.from_bytes(made.to_bytes()) == made
    else:
        with pytest.raises(CannotSerialize, match="nested"):
            made.to_bytes()


def test_large_text_is_read_as_a_small_one() -> None:
    rows = [{"n": n, "when": NOON, "text": 'a "$ sign', "tuple": (n, {"$tuple": [n]})} for n in range(300)]
    made = FlowCheckpoint("f", "r", metadata={"rows": rows, "keys": {n: (n,) for n in range(900)}, "plain": [1] * 5000})
    assert FlowCheckpoint.from_bytes(made.to_bytes()) == made
