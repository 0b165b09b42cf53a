"""Schedules on single databases: methods of classes, processes without room, contexts that cannot be read, plans."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncClient, Holdfast, ScheduleSpec, faults
from holdfast.db import ConnectionManager, DialectName
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import ConfigurationError, ConnectionLost, QueryFailed, UnknownCommit
from holdfast.serialize import Encryption, Serialization
from holdfast.testing.workers import until
from holdfast.workflows.queues import queue_queries
from holdfast.workflows.schedules import schedule_queries, ticker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERY_SECOND = "* * * * * *"


def test_methods_of_classes_are_scheduled_and_those_of_objects_are_not(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/a.sqlite")
    given: list[tuple[Any, ...]] = []

    class Reports:
        config_name = "one"

        @app.scheduled("@yearly", name="static", context=1)
        @app.workflow
        @staticmethod
        def static(scheduled_at: datetime, context: int) -> None:
            given.append((scheduled_at, context))

        @app.workflow
        @classmethod
        def of_class(cls, scheduled_at: datetime) -> None:
            given.append((cls, scheduled_at))

        @app.workflow
        def of_object(self, scheduled_at: datetime) -> None:
            raise AssertionError(scheduled_at)

    with app:
        app.create_schedule("class", Reports.of_class, "@yearly")
        with pytest.raises(ConfigurationError, match="method of an object"):
            app.create_schedule("object", Reports().of_object, "@yearly")
        assert {each.schedule_name: each.passes for each in app.list_schedules()} == {"static": 2, "class": 1}
        app.trigger_schedule("static").result(timeout=60)
        app.trigger_schedule("class").result(timeout=60)
    assert (given[0][1], given[1][0]) == (1, Reports)
    assert all(isinstance(each, datetime) for each in (given[0][0], given[1][1]))


def test_slot_fires_where_the_process_has_no_room_for_more_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "_UNHEARD", 0.2)
    app = Holdfast(f"sqlite:///{tmp_path}/a.sqlite", max_runs=1)
    full, leave = threading.Event(), threading.Event()

    @app.workflow
    def fill() -> None:
        full.set()
        assert leave.wait(60)

    with app:
        busy = fill.start()
        assert full.wait(60)
        app.create_schedule("tick", "elsewhere", EVERY_SECOND)
        until(lambda: len(app.list_workflows(workflow_id_prefix="sched-tick-")) > 1)
        app.delete_schedule("tick")
        leave.set()
        busy.result(timeout=60)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_schedules_that_cannot_be_read_here_are_left_to_others_and_hold_up_none(
    fresh_database: Callable[[str], str], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database(kind)
    secret = Serialization(codecs=[Encryption(keys={"k": b"0" * 32}, current="k")])
    with Holdfast(url, serializer=secret) as other:
        other.apply_schedules([ScheduleSpec(f"s{each}", "any", "* * * * *", context="xyzzy") for each in range(100)])
        other.create_schedule("secret", "any", "* * * * *", context={"word": "xyzzy"}, automatic_backfill=True)
    app = Holdfast(url, clock_offset_ms="SELECT 120000")
    with app, caplog.at_level(logging.ERROR, "holdfast.schedules"):
        found = app.get_schedule("secret")
        assert found is not None
        assert "cannot be read" in found.context
        app.create_schedule("open", "any", EVERY_SECOND)
        until(lambda: len(app.list_workflows(workflow_id_prefix="sched-open-")) > 1)
        assert app.list_workflows(workflow_id_prefix="sched-secret-") == []
    [complaint] = [record.getMessage() for record in caplog.records if "secret" in record.getMessage()]
    assert "left to others" in complaint
    assert "xyzzy" not in complaint
    with Holdfast(url, serializer=secret, clock_offset_ms="SELECT 120000") as other:
        until(lambda: other.list_workflows(workflow_id_prefix="sched-secret-"))


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("schedule.before_commit", ConnectionLost("It broke before the commit was sent.")),
        ("schedule.before_commit", QueryFailed("It was refused.")),
        ("schedule.fired", UnknownCommit("It broke while the commit was under way.")),
    ],
)
def test_failure_while_slots_are_fired_costs_none_and_makes_none_twice(
    tmp_path: Path, place: str, error: Exception
) -> None:
    happened = threading.Event()

    def fail() -> None:
        happened.set()
        raise error

    app = Holdfast(f"sqlite:///{tmp_path}/a.sqlite")
    seen: list[datetime] = []

    @app.workflow
    def tick(scheduled_at: datetime) -> None:
        seen.append(scheduled_at)

    faults.arm(place, fail)
    try:
        with app:
            made = app.create_schedule("tick", tick, EVERY_SECOND, automatic_backfill=True)
            until(lambda: happened.is_set() and len(seen) > 1)
            app.pause_schedule("tick")
            until(lambda: all(run.status.has_ended for run in app.list_workflows()))
    finally:
        faults.disarm()
    assert made.next_due_at is not None
    assert sorted(seen) == [made.next_due_at + timedelta(seconds=number) for number in range(len(seen))]


def test_span_with_too_many_slots_is_refused(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/a.sqlite") as app:
        app.create_schedule("tick", "any", EVERY_SECOND)
        app.pause_schedule("tick")
        with pytest.raises(ConfigurationError, match="shorter span"):
            app.backfill_schedule("tick", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
        assert app.list_workflows() == []


def test_two_decorators_with_one_name_are_refused(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/a.sqlite")

    @app.scheduled("@daily", name="twice")
    @app.scheduled("@weekly", name="twice")
    @app.workflow
    def report() -> None:
        raise AssertionError

    with pytest.raises(ConfigurationError, match="two called twice"):
        app.launch()


def test_slots_that_were_missed_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/a.sqlite"
    with Holdfast(url) as app:
        app.create_schedule("night", "any", "0 3 * * *")
    with Holdfast(url, clock_offset_ms=f"SELECT {10 * 24 * 3600 * 1000}") as app:
        until(lambda: _is_ahead(app))
        assert app.list_workflows() == []
    assert any("night" in record.getMessage() and "missed" in record.getMessage() for record in caplog.records)


def _is_ahead(app: Holdfast) -> bool:
    found = app.get_schedule("night")
    assert found is not None
    assert found.next_due_at is not None
    return found.next_due_at > datetime.now(UTC) + timedelta(days=9)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_set_that_many_declare_at_once_is_one_of_theirs(fresh_database: Callable[[str], str], kind: str) -> None:
    sets = [[f"{letter}{number}" for number in range(5)] for letter in "ab"]

    async def declare(url: str) -> list[str]:
        clients = [AsyncClient(url, pool_size=1) for _ in range(4)]
        for client in clients:
            await client.open()
        for _ in range(3):
            wanted = [[ScheduleSpec(name, "any", "@daily") for name in sets[turn % 2]] for turn in range(len(clients))]
            await asyncio.gather(
                *(client.apply_schedules(specs) for client, specs in zip(clients, wanted, strict=True)),
                *(client.create_schedule("a0", "other", "@weekly") for client in clients[:2]),
            )
            await clients[0].apply_schedules(wanted[0])
        found = [each.schedule_name for each in await clients[0].list_schedules()]
        for client in clients:
            await client.close()
        return found

    url = fresh_database(kind)
    asyncio.run(_migrated(url))
    assert asyncio.run(declare(url)) == sets[0]


async def _migrated(url: str) -> None:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_what_is_due_is_found_by_its_index(fresh_database: Callable[[str], str], kind: str) -> None:
    plans = asyncio.run(_plans(fresh_database(kind)))
    assert "idx_workflow_schedules_due" in plans["schedules_due"]
    for name in ("schedules_next", "queues_survey"):
        # MariaDB answers the smallest of an index before it begins.
        assert "idx_workflow_schedules_due" in plans[name] or "optimized away" in plans[name], plans[name]


async def _plans(url: str) -> dict[str, str]:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
        for number in range(200):
            await manager.execute(
                f"INSERT INTO {schema}workflow_schedules (schedule_id, schedule_name, workflow_name, schedule, "
                "context, next_due_epoch_ms, created_at, updated_at) VALUES (?, ?, 'w', '@daily', 'null', ?, 0, 0)",
                f"i{number}",
                f"n{number}",
                9_000_000_000_000 + number,
            )
        schedules, queues = schedule_queries(manager.dialect, "holdfast"), queue_queries(manager.dialect, "holdfast")
        asked = [
            ("schedules_due", schedules["schedules_due"].bind({"most": 100})),
            ("schedules_next", schedules["schedules_next"].bind({})),
            ("queues_survey", queues["queues_survey"].bind({"internal_queue": "_internal"})),
        ]
        return {name: await _explain(manager, *calls[0]) for name, calls in asked}


async def _explain(manager: ConnectionManager, text: str, values: tuple[Any, ...]) -> str:
    backend = manager.backend()
    if not isinstance(backend, PooledBackend):
        return "\n".join(row["detail"] for row in await manager.fetch(f"EXPLAIN QUERY PLAN {text}", *values))
    session = await backend.connect_for_lookups()
    try:
        if manager.dialect is DialectName.POSTGRES:
            await session.execute("SET plan_cache_mode = force_generic_plan", ())
        return "\n".join(str(row) for row in await session.fetch(f"EXPLAIN {text}", values))
    finally:
        await session.close()
