"""Mistakes of the first hour are refused where they are made, in words that say what to write; in both colours."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from holdfast import AsyncClient, AsyncHoldfast, Client, Holdfast, Retention
from holdfast.errors import ConfigurationError, InvalidSchedule, InvalidURL, MisuseError, NotInitialized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Door:
    """An application or a client of either colour, whose calls come to their ends on the calling thread."""

    def __init__(self, raw: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.raw = raw
        self._loop = loop

    def __call__(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return self.end(partial(getattr(self.raw, verb), *args, **kwargs))

    def end(self, call: Callable[[], Any]) -> Any:
        """Make a call, on the loop if it is one of the async colour, and return what it comes to."""

        async def made() -> Any:
            result = call()
            return await result if inspect.isawaitable(result) else result

        asynchronous = isinstance(self.raw, AsyncHoldfast | AsyncClient)
        return self._loop.run_until_complete(made()) if asynchronous else call()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.fixture(params=[Holdfast, AsyncHoldfast])
def app(request: pytest.FixtureRequest, tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Door]:
    door = Door(request.param(f"sqlite:///{tmp_path}/doors.sqlite", application_version="1"), loop)
    door("launch")
    yield door
    door("close")


@pytest.fixture(params=[Holdfast, AsyncHoldfast, Client, AsyncClient])
def door(request: pytest.FixtureRequest, tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Door]:
    url = f"sqlite:///{tmp_path}/doors.sqlite"
    with Holdfast(url):
        pass
    door = Door(request.param(url), loop)
    door("launch" if isinstance(door.raw, Holdfast | AsyncHoldfast) else "open")
    yield door
    door("close")


BY_NAME: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("echo", "a secret"), {}, "args are several, not one text: put it in a list"),
    (("echo", 5), {}, "args are several, in a list or a tuple, not int"),
    (("echo", {"said": 1}), {}, "args are several, in a list or a tuple"),
    (("echo", [1], "a secret"), {}, "kwargs are names and their values, .* not str"),
    (
        ("echo", [1]),
        {"prio": 1, "workflow_uuid": "x"},
        "A run has no option prio, workflow_uuid; there are workflow_id",
    ),
    (("echo", [1]), {"workflow_id": 17}, "workflow_id is a text, not 17: pass '17'"),
    ((None, [1]), {}, "The name of a function is a text"),
]


def test_call_by_name_that_is_none_is_refused(door: Door) -> None:
    for args, options, told in BY_NAME:
        with pytest.raises(ConfigurationError, match=told) as refused:
            door("enqueue", *args, queue_name="q", **options)
        assert "secret" not in str(refused.value)
        if isinstance(door.raw, Client | AsyncClient):
            with pytest.raises(ConfigurationError, match=told):
                door("start_workflow", *args, **options)
            with pytest.raises(ConfigurationError, match=told):
                door("enqueue_many", [door.raw.call(*args, **options)], queue_name="q")


def test_workflow_itself_where_its_name_is_wanted_is_refused_with_the_name(door: Door) -> None:
    workflow = Holdfast("sqlite:///never.db").workflow(name="later")(lambda: None)
    with pytest.raises(ConfigurationError, match="has the name of a workflow, not the workflow itself: pass 'later'"):
        door("enqueue", workflow, [], queue_name="q")


def test_execute_is_given_a_workflow_and_names_with_values(app: Door) -> None:
    workflow = Holdfast("sqlite:///never.db").workflow(name="later")(lambda: None)
    for wrong in ("later", None, lambda: None, 5):
        with pytest.raises(ConfigurationError, match=r"execute\(\) takes a workflow of this application"):
            app("execute", wrong, {})
    mine = workflow if isinstance(app.raw, Holdfast) else AsyncHoldfast("sqlite:///never.db").workflow(lambda: None)
    for unnamed in ([1], [], "ab", 5, {4: 4}):
        with pytest.raises(ConfigurationError, match=r"parameters are names and values, as in .* not "):
            app("execute", mine, unnamed)


def test_ids_and_schedules_that_are_not_several_are_refused(door: Door) -> None:
    for wrong in (17, None, 1.5, {"a": 1}):
        with pytest.raises(ConfigurationError, match="workflow_ids are several, in a list or a tuple, not"):
            door("cancel_workflows", wrong)
    door("create_schedule", "nightly", "report", "0 3 * * *")
    nothing: list[Any] = [17, None, {}, ""]
    for none in nothing:
        with pytest.raises(ConfigurationError, match="schedules are several"):
            door("apply_schedules", none)
    assert [each.schedule_name for each in door("list_schedules")] == ["nightly"]


def test_schedules_are_chosen_by_texts_alone(door: Door) -> None:
    numbers: list[Any] = [0, False, [], 5]
    for wrong in numbers:
        with pytest.raises(ConfigurationError, match="workflow_name is a text, not"):
            door("list_schedules", workflow_name=wrong)
        with pytest.raises(ConfigurationError, match="schedule_name_prefix is a text, not"):
            door("list_schedules", schedule_name_prefix=wrong)


def test_time_zone_that_is_empty_is_refused_with_what_to_write(door: Door) -> None:
    with pytest.raises(InvalidSchedule, match="cron_timezone of the schedule 'nightly' is empty: write an IANA name"):
        door("create_schedule", "nightly", "report", "0 3 * * *", cron_timezone="")


class Order(str, Enum):  # noqa: UP042 -- a StrEnum writes out its text
    """Ids as a program may keep them; written out, a member says something else than its text."""

    FIRST = "order-1"
    SECOND = "order-2"


def test_member_of_an_enum_is_the_run_that_its_text_names(app: Door) -> None:
    child = app.raw.workflow(name="child")(lambda: 1)

    def begin() -> str:
        return cast("str", child.start().workflow_id)

    async def begin_awaited() -> str:
        return cast("str", (await child.start()).workflow_id)

    outer = app.raw.workflow(name="parent")(begin if isinstance(app.raw, Holdfast) else begin_awaited)
    started = app.end(lambda: outer.options(workflow_id=Order.FIRST).start())
    assert app.end(started.result) == "order-1-0"
    forked = app("fork_workflow", Order.FIRST, new_workflow_id=Order.SECOND)
    assert [type(each.workflow_id) for each in (started, forked)] == [str, str]
    assert (f"{started.workflow_id}", f"{forked.workflow_id}") == ("order-1", "order-2")
    assert app.end(forked.result) == "order-2-0"
    assert list(app("cancel_workflows", [Order.FIRST]).refused) == ["order-1"]


def test_member_of_an_enum_is_the_schedule_that_its_text_names(door: Door) -> None:
    door("create_schedule", Order.FIRST, "report", "0 3 * * *")
    assert door("get_schedule", "order-1").schedule_name == "order-1"
    assert door("trigger_schedule", Order.FIRST).workflow_id.startswith("sched-order-1-trigger-")


@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast, Client, AsyncClient])
def test_url_that_is_none_names_no_file(kind: Any, tmp_path: Path) -> None:
    for wrong in (5, False, 1.5, object(), b"shop.db", ["shop.db"]):
        with pytest.raises(InvalidURL, match=f"is a text or a path, not a {type(wrong).__name__}"):
            kind(wrong)
    kind(tmp_path / "shop.db")


def test_queues_and_calls_that_are_not_several_are_refused(door: Door) -> None:
    for wrong in (5, None):
        if isinstance(door.raw, Client | AsyncClient):
            with pytest.raises(ConfigurationError, match="calls are several"):
                door("enqueue_many", wrong, queue_name="q")
        else:
            with pytest.raises(ConfigurationError, match="names are several"):
                type(door.raw)("sqlite:///never.db").listen_queues(wrong)


def test_truth_is_no_duration(door: Door) -> None:
    for truth in (True, False):
        with pytest.raises(ConfigurationError, match=f"Retention.older_than is a number of seconds, .* not {truth}"):
            Retention(older_than=truth)  # False would delete all that has ended
        with pytest.raises(ConfigurationError, match=f"delay .*not {truth}"):
            door("enqueue", "echo", [], queue_name="q", delay=truth)


def test_id_that_is_no_text_is_refused_by_name(door: Door) -> None:
    for wrong in (17, None, ["a"], b"a", UUID(int=17)):
        instead = f": pass '{wrong}'" if isinstance(wrong, int | UUID) else ""
        for verb in ("get_workflow", "retrieve_workflow", "cancel_workflow", "list_steps", "fork_workflow"):
            with pytest.raises(ConfigurationError, match=rf"workflow_id is a text, not .*{instead}\.$"):
                door(verb, wrong)
        with pytest.raises(ConfigurationError, match="workflow_id is a text"):
            door("cancel_workflows", [wrong])
    with pytest.raises(ConfigurationError, match="workflow_id is a text"):
        door("fork_workflow", "x", new_workflow_id=17)


def test_id_of_a_call_that_is_no_text_is_refused(app: Door) -> None:
    workflow = app.raw.workflow(name="numbered")(lambda: None)
    with pytest.raises(ConfigurationError, match="workflow_id is a text, not 17: pass '17'"):
        app.end(workflow.options(workflow_id=17).start)
    with pytest.raises(ConfigurationError, match="workflow_id is a text, not 17: pass '17'"):
        app.end(workflow.options(workflow_id=17, queue_name="q").enqueue)


def test_option_of_a_run_that_there_is_not_is_refused_without_names_of_ours(app: Door) -> None:
    workflow = app.raw.workflow(name="optional")(lambda: None)
    with pytest.raises(ConfigurationError, match=r"^A run has no option workflow_uuid; there are workflow_id"):
        workflow.options(workflow_uuid="x")


def test_filter_or_place_that_is_none_is_refused_without_names_of_ours(door: Door) -> None:
    with pytest.raises(ConfigurationError, match=r"^list_workflows\(\) has no filter foo; there are workflow_ids,"):
        door("list_workflows", foo=1)
    with pytest.raises(ConfigurationError, match=r"^count_workflows\(\) has no filter foo; there are"):
        door("count_workflows", foo=1)
    for verb in ("fork_workflow", "rewind_workflow"):
        with pytest.raises(ConfigurationError, match=rf"^{verb}\(\) has no option foo; there are application_"):
            door(verb, "x", foo=1)


def test_gather_and_timeout_take_what_is_still_to_be_done(app: Door) -> None:
    if isinstance(app.raw, Holdfast):
        made: Any = [lambda: 1, 2]
        told = r"takes what is to be called, not 2: write `lambda: price\(1\)`"
    else:
        made, told = [asyncio.sleep(0), lambda: 2], r"takes what can be awaited, not <function"
    with pytest.raises(MisuseError, match=told):
        app("gather", *made)
    with pytest.raises(MisuseError, match=told):
        app("timeout", 5, made[1])


def test_gather_in_a_workflow_refuses_results_before_anything_is_begun(app: Door) -> None:
    begun: list[int] = []

    async def part() -> None:
        begun.append(1)

    def mistaken() -> list[None]:
        wrong: Any = [lambda: begun.append(1), 2]
        return cast("Holdfast", app.raw).gather(*wrong)

    async def mistaken_too() -> list[None]:
        wrong: Any = [part(), 2]
        return await cast("AsyncHoldfast", app.raw).gather(*wrong)

    workflow = app.raw.workflow(mistaken if isinstance(app.raw, Holdfast) else mistaken_too)
    with pytest.raises(MisuseError, match=r"gather\(\) .*takes what .*, not 2"):
        app.end(workflow)
    assert begun == []


def test_what_is_not_open_says_how_it_is_opened(app: Door) -> None:
    url = app.raw._engine.settings.url
    with pytest.raises(NotInitialized, match=r"call open\(\) first, or use it in a with block"):
        Client(url).start_workflow("echo", [1])
    with pytest.raises(NotInitialized, match=r"call launch\(\)"):
        Holdfast(url).list_workflows()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay_until": date(2026, 1, 1)}, "delay_until is a datetime with a time zone"),
        ({"delay_until": "2026-01-01"}, "delay_until is a datetime with a time zone"),
        ({"delay_until": datetime(2026, 1, 1)}, "delay_until needs a time zone"),  # noqa: DTZ001
        ({"delay": "5"}, "A delay is a number of seconds"),
    ],
)
def test_moment_that_is_none_is_refused(app: Door, options: dict[str, Any], said: str) -> None:
    work = app.raw.workflow(name="later")(lambda: None)
    with pytest.raises(ConfigurationError, match=said):
        app.end(work.options(queue_name="q", **options).enqueue)


WRONG_KINDS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("set_workflow_delay", ("id",), {"delay_until": "2026-01-01"}, "delay_until is a datetime with a time zone"),
    ("set_workflow_delay", ("id",), {"delay": b"1"}, "delay is a number of seconds"),
    ("create_schedule", (None, "echo", "@daily"), {}, "The name of a schedule is a text, not None"),
    ("create_schedule", ("s", "echo", 5), {}, "The cron expression of the schedule 's' is a text, not 5"),
    ("create_schedule", ("s", "echo", ["@daily"]), {}, "The cron expression of the schedule 's' is a text"),
    ("create_schedule", ("s", "echo", "@daily"), {"cron_timezone": 5}, "cron_timezone of the schedule 's' is a text"),
    ("create_schedule", ("s", "echo", "@daily"), {"queue_name": 5}, "queue_name is a text, not 5"),
    ("backfill_schedule", ("s", "2026-01-01", datetime(2026, 1, 2, tzinfo=UTC)), {}, "start is a datetime"),
    ("backfill_schedule", ("s", datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 2)), {}, "end is a datetime"),
    ("get_schedule", (5,), {}, "The name of a schedule is a text, not 5"),
    ("pause_schedule", ("nul\0",), {}, "The name of a schedule has 1 to 255 Unicode characters and no NUL"),
    ("list_schedules", (), {"workflow_name": 5}, "workflow_name is a text, not 5"),
    ("retrieve_queue", (5,), {}, "The name of a queue is a text, not 5: pass '5'"),
    ("pause_queue", (5,), {}, "The name of a queue is a text, not 5"),
    ("delete_queue", (5,), {}, "The name of a queue is a text, not 5"),
    ("register_queue", ("q",), {"concurrency": Decimal("sNaN")}, "concurrency of the queue 'q' is a whole number"),
    ("set_latest_application_version", (5,), {}, "version_name is a text, not 5"),
    ("fork_workflow", ("id", 1), {"queue_name": ""}, "queue_name has 1 to 255"),
    ("fork_workflow", ("id", 1), {"queue_partition_key": ""}, "queue_partition_key has 1 to 255"),
    ("rewind_workflow", ("id", 1), {"application_version": 5}, "application_version is a text, not 5"),
    ("resume_workflow", ("id",), {"queue_name": ""}, "queue_name has 1 to 255"),
    ("resume_workflow", ("id",), {"queue_partition_key": 5}, "queue_partition_key is a text, not 5"),
    ("resume_workflow", ("id",), {"queue_name": "_holdfast_x"}, "begin with _holdfast_ are ours"),
    ("fork_workflow", ("id", 1), {"queue_name": "_holdfast_x"}, "begin with _holdfast_ are ours"),
    ("rewind_workflow", ("id", 1), {"queue_name": "_holdfast_x"}, "begin with _holdfast_ are ours"),
    ("rewind_workflow", ("id", 2**70), {}, "start_step is the position of the first step"),
    ("fork_workflow", ("id", 2**31), {}, "start_step is the position of the first step"),
    ("update_workflow_attributes", ("id", "paid"), {}, "attributes are names and their values, .* not 'paid'"),
    ("apply_schedules", ([{"name": "s"}],), {}, "A schedule is a ScheduleSpec, as in .* not {'name': 's'}"),
    ("enqueue", ("echo",), {"queue_name": "q", "attributes": ["a"]}, "attributes are names and their values"),
    ("enqueue", ("echo",), {"queue_name": "q", "authenticated_roles": 5}, "authenticated_roles are several"),
    ("count_workflows", (), {"group_by": 5}, "group_by are several, in a list or a tuple, not int"),
    ("count_workflows", (), {"group_by": [None]}, "Runs cannot be counted by None: choose from status"),
    ("list_workflows", (), {"limit": 1.5}, "limit of a page is from 1 to 10000, not 1.5"),
    ("list_workflows", (), {"limit": "10"}, "limit of a page is from 1 to 10000, not '10'"),
    ("list_steps", ("id",), {"limit": 1.5}, "limit and the offset of steps are whole numbers"),
    ("list_steps", ("id",), {"offset": 2**70}, "limit and the offset of steps are whole numbers"),
    ("count_workflows", (), {"group_by": "colour"}, "Runs cannot be counted by colour: choose from status"),
    ("put_dispatch_state", ("nul\0", "f", "k", "v"), {}, "service_name has 1 to 255 Unicode characters and no NUL"),
    ("put_dispatch_state", ("s", 5, "k", "v"), {}, "workflow_fn_name is a text, not 5"),
    ("put_dispatch_state", ("s", "f", "k", b"v"), {}, "value is a text or None, not bytes"),
    ("put_dispatch_state", ("s", "f", "k", "nul\0"), {}, "value has a NUL or half a character in it"),
    (
        "put_dispatch_state",
        ("s", "f", "k", "v"),
        {"update_seq": 1.5},
        "update_seq is a whole number of at most 64 bits",
    ),
    ("put_dispatch_state", ("s", "f", "k", "v"), {"update_time": float("nan")}, "update_time is a number of seconds"),
    ("get_dispatch_state", ("s", "f", ""), {}, "key has 1 to 255 Unicode characters"),
]


def test_key_of_a_debounced_call_is_a_text(app: Door) -> None:
    work = app.raw.workflow(name="later")(lambda: None)
    for key in (None, 5, b"k"):
        with pytest.raises(ConfigurationError, match=r"The key of debounce\(\) is a text, not "):
            app.end(partial(work.options(queue_name="q").debounce, key, 1))


def test_policies_that_are_none_are_refused(door: Door) -> None:
    with pytest.raises(MisuseError, match=r"prune\(\) takes policies, as Retention\(older_than=86_400\), not a int"):
        door("prune", 5)


@pytest.mark.parametrize("wrong", [[("order-17", "paid")], "order-17", [{"destination_id": "order-17"}]])
def test_messages_that_are_none_are_refused(door: Door, wrong: Any) -> None:
    with pytest.raises(MisuseError, match=r"send_many\(\) takes messages, as in \[Message"):
        door("send_many", wrong)


@pytest.mark.parametrize(("verb", "args", "kwargs", "said"), WRONG_KINDS)
def test_value_of_a_wrong_kind_is_refused_by_its_name(
    door: Door, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        door(verb, *args, **kwargs)
