"""The two clients, and the methods they share with applications, have the same face, so that none can lag."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdfast.client import AsyncClient, AsyncClientHandle, Client, ClientHandle, ClientSettings, remote_settings
from holdfast.errors import ConfigurationError, MisuseError, TransitionRefused, WorkflowNotFound
from holdfast.model.workflow import Changes, WorkflowState, WorkflowStatus
from holdfast.serialize import Serialization
from holdfast.workflows.looking import Filters
from holdfast.workflows.management import desk
from holdfast.workflows.management.desk import FilterOptions, Request
from holdfast.workflows.management.desk_records import ChangesRecord, CountRecord, PageRecord, PruneRecord
from holdfast.workflows.management.management import AsyncManagement, Management
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.retention import Retention

PAIRS = [(Client, AsyncClient), (ClientHandle, AsyncClientHandle), (Management, AsyncManagement)]
NO_REQUESTS = {"retrieve_workflow", "read_stream"}  # they make an object, which asks when it is used


def _public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def _parameters(member: Any) -> list[tuple[str, Any, Any, Any]]:
    return [
        (each.name, each.kind, each.default, each.annotation) for each in inspect.signature(member).parameters.values()
    ]


@pytest.mark.parametrize(("sync", "other"), PAIRS)
def test_both_colours_have_the_same_names_parameters_and_words(sync: type, other: type) -> None:
    ours, theirs = _public(sync), _public(other)
    assert ours.keys() == theirs.keys()
    for name, member in ours.items():
        assert inspect.getdoc(member) == inspect.getdoc(theirs[name]), name
        assert inspect.getdoc(member), name
        if callable(member):
            assert _parameters(member) == _parameters(theirs[name]), name
            assert not inspect.iscoroutinefunction(member), name
            assert inspect.iscoroutinefunction(theirs[name]) or name in {*NO_REQUESTS, "call"}, name


def test_sync_and_async_methods_ask_for_the_same() -> None:
    asked: list[tuple[str, Any, Any]] = []

    class Sync(Management[str]):
        def retrieve_workflow(self, workflow_id: str) -> str:
            return workflow_id

        def _manage(self, request: Request[Any]) -> Any:
            asked.append((request.name, request.arguments, request.type))
            raise LookupError

        def _reader(self, reading: Any, type_: Any) -> Any:
            raise NotImplementedError

    class Async(AsyncManagement[str]):
        def retrieve_workflow(self, workflow_id: str) -> str:
            return workflow_id

        async def _manage(self, request: Request[Any]) -> Any:
            asked.append((request.name, request.arguments, request.type))
            raise LookupError

        def _reader(self, reading: Any, type_: Any) -> Any:
            raise NotImplementedError

    for name, member in _public(Management).items():
        if name not in NO_REQUESTS:
            given = {each: _SAMPLES[each] for each, default in _needed(member) if default is inspect.Parameter.empty}
            if name.startswith("set_workflow_delay"):
                given["delay"] = 5
            policies = [Retention(older_than=5)] if name == "prune" else []
            with pytest.raises(LookupError):
                getattr(Sync(), name)(*policies, **given)
            with pytest.raises(LookupError):
                asyncio.run(getattr(Async(), name)(*policies, **given))
            assert asked[-2] == asked[-1]
            assert asked[-1][0] == name
    assert len(asked) == 2 * (len(_public(Management)) - len(NO_REQUESTS))


_SAMPLES: dict[str, Any] = {
    "workflow_id": "one",
    "workflow_ids": ["one", "two"],
    "attributes": {"a": 1},
    "document": {},
    "version_name": "v1",
    "name": "letters",
    "schedules": [],
    "workflow": "report",
    "schedule": "@daily",
    "start": datetime(2026, 1, 1, tzinfo=UTC),
    "end": datetime(2026, 1, 2, tzinfo=UTC),
    "service_name": "kafka",
    "workflow_fn_name": "ingest",
    "key": "orders",
    "value": "17",
}


def _needed(member: Any) -> list[tuple[str, Any]]:
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    found = [(each.name, each.default) for each in inspect.signature(member).parameters.values() if each.kind in kinds]
    return [each for each in found if each[0] != "self"]


def test_every_filter_can_be_given_by_name() -> None:
    assert FilterOptions.__annotations__.keys() == {each.name for each in fields(Filters)}


def test_every_setting_of_a_client_has_a_default() -> None:
    [_, *settings] = inspect.signature(remote_settings).parameters.values()
    assert [each.name for each in settings] == list(ClientSettings.__annotations__)
    assert all(each.default is not inspect.Parameter.empty for each in settings)


def test_client_finds_its_database_as_an_application_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert remote_settings(None, name="shop").url == "sqlite:///shop.sqlite"
    monkeypatch.setenv("DATABASE_URL", "sqlite:///theirs.db")
    assert remote_settings(None).url == "sqlite:///theirs.db"
    assert remote_settings("mine.db").url == "mine.db"


def test_several_ids_are_not_one_text() -> None:
    with pytest.raises(MisuseError, match=r"\['order-17'\]"):
        desk.cancel("cancel_workflows", "order-17", children=True)


@pytest.mark.parametrize(
    ("delay", "until", "expected"),
    [
        (90, None, {"until": None, "delay": 90_000}),
        (0.25, None, {"until": None, "delay": 250}),
        (timedelta(minutes=1), None, {"until": None, "delay": 60_000}),
        (None, datetime(1970, 1, 2, tzinfo=UTC), {"until": 86_400_000, "delay": None}),
        (None, datetime.fromisoformat("1970-01-01T01:00:00+01:00"), {"until": 0, "delay": None}),
        (None, datetime(2030, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")), {"until": 1_909_130_400_000, "delay": None}),
        (None, datetime(2030, 1, 1, 12, tzinfo=ZoneInfo("Europe/London")), {"until": 1_893_499_200_000, "delay": None}),
    ],
)
def test_delay_is_a_duration_or_a_moment(delay: Any, until: datetime | None, expected: dict[str, Any]) -> None:
    request = desk.set_delay("set_workflow_delay", ["one"], delay, until)
    assert {name: request.arguments[name] for name in expected} == expected


def test_delay_that_is_none_or_both_or_has_no_zone_is_refused() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for delay, until in ((None, None), (5, moment)):
        with pytest.raises(MisuseError, match="delay_until"):
            desk.set_delay("set_workflow_delay", ["one"], delay, until)
    with pytest.raises(ConfigurationError, match="time zone"):
        desk.set_delay("set_workflow_delay", ["one"], None, moment.replace(tzinfo=None))


def test_pruning_needs_a_policy() -> None:
    with pytest.raises(MisuseError, match="Retention"):
        desk.prune([], dry_run=True, progress=None)


def _stored(value: Any, type_: Any) -> Any:
    payloads = Payloads(Serialization())
    return payloads.typed(type_).load(*payloads.dump(value))


def test_changes_come_back_from_a_record_with_their_refusals() -> None:
    refused = TransitionRefused("The run b cannot cancel.", workflow_id="b", status="SUCCESS", event="cancel")
    changes = Changes(("a",), {"b": refused, "c": WorkflowNotFound("There is no run 'c'.")})
    back = _stored(ChangesRecord.of(changes), ChangesRecord).changes()
    assert back.changed == ("a",)
    assert [(type(each), str(each)) for each in back.refused.values()] == [
        (TransitionRefused, "The run b cannot cancel."),
        (WorkflowNotFound, "There is no run 'c'."),
    ]
    assert vars(back.refused["b"]) == {"workflow_id": "b", "status": "SUCCESS", "event": "cancel"}


def test_other_answers_come_back_from_a_record_as_they_were() -> None:
    state = WorkflowState(workflow_id="a", status=WorkflowStatus.ERROR, name="n", attributes={"x": [1]})
    page = _stored(PageRecord([state], "next"), PageRecord).page()
    assert (list(page), page.cursor) == ([state], "next")
    policy = Retention(older_than=1)
    report = _stored(PruneRecord([(3, 2)], dry_run=False), PruneRecord).report([policy])
    assert (report.matched, report.deleted, report.policies[0].policy) == (3, 2, policy)
    counted = _stored([CountRecord({"status": "ERROR"}, 4, 1, 2)], list[CountRecord])[0].counted()
    assert (counted.group, counted.count, counted.oldest, counted.newest) == ({"status": "ERROR"}, 4, 1, 2)
