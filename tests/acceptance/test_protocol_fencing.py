"""I1: whoever has lost a run writes nothing for it, wherever it was stopped; I16: a closed attempt has no voice."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import Superseded
from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.testing.contract.venue import apart
from holdfast.testing.workers import until
from holdfast.workflows.facts import FinishRuns, HandOverRuns, RecordSteps, StartChildren, StartRuns
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

KINDS = ["sqlite", "postgres", "mariadb"]

# Where a worker is stopped by the operating system, in the middle of a run.
PAUSES = [
    ("postgres", "step.after_user_code", 2),
    ("postgres", "pipeline.taken", 3),
    ("postgres", "pipeline.before_commit", 3),
    ("postgres", "run.outcome_written", 1),
    ("mariadb", "step.after_user_code", 2),
    ("mariadb", "pipeline.taken", 3),
    ("mariadb", "pipeline.before_commit", 3),  # here a transaction is open and holds the run's row
]


def rows_of(scene: Stage, run_id: str) -> list[dict[str, Any]]:
    return [
        scene.run(run_id),
        *scene.fetch("SELECT * FROM {steps} WHERE workflow_uuid = ? ORDER BY identity", run_id),
    ]


@pytest.mark.parametrize(("kind", "point", "at"), PAUSES)
@pytest.mark.parametrize("colour", ["sync", pytest.param("async", marks=pytest.mark.soak)])
def test_i1_a_worker_paused_past_its_lease_changes_nothing_when_it_wakes(
    kind: str, point: str, at: int, colour: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    stale = scene.ready(colour, faults=[(point, at, "pause")])
    stale.tell("run", "short", "paused", 7)
    until(stale.is_paused)

    fresh = scene.ready("async" if colour == "sync" else "sync")
    fresh.tell("run", "short", "paused", 7)
    assert fresh.hear("result", "paused")[2] == 21
    after = rows_of(scene, "paused")
    stale.wake()
    assert stale.hear("result", "paused")[2] == 21
    stale.tell("run", "short", "next", 1)
    assert stale.hear("result", "next")[2] == 3

    assert rows_of(scene, "paused") == after
    scene.check_record(woken=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_i13_a_worker_paused_past_its_lease_begins_no_step_that_is_recorded(
    kind: str, colour: str, stage: Callable[[str], Stage]
) -> None:
    """It sleeps when it is paused. Awake, it must wait for a beat, which tells it that its run is not its own."""
    scene = stage(kind)
    stale = scene.ready(colour, faults=[("timer.set", 1, "pause")])
    stale.tell("run", "journey", "paused", 7)
    until(stale.is_paused)

    fresh = scene.ready("async" if colour == "sync" else "sync")
    fresh.tell("run", "journey", "paused", 7)
    result = fresh.hear("result", "paused")[2]
    stale.wake()
    assert stale.hear("result", "paused")[2] == result
    stale.tell("run", "short", "next", 1)
    assert stale.hear("result", "next")[2] == 3

    after_the_sleep = [each.what.partition("@")[0] for each in scene.ledger.of("paused")]
    assert {name: after_the_sleep.count(name) for name in ("left", "right", "z")} == {"left": 1, "right": 1, "z": 1}


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_i1_a_worker_of_sqlite_paused_past_its_lease_changes_nothing_when_it_wakes(
    colour: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage("sqlite")
    stale = scene.ready(colour)
    stale.tell("run", "lingering", "paused", 0.5)
    until(lambda: any(effect.what.startswith("linger") for effect in scene.ledger.all()))
    scene.pause(stale)

    fresh = scene.ready("async" if colour == "sync" else "sync")
    fresh.tell("run", "lingering", "paused", 0.5)
    assert fresh.hear("result", "paused")[2] == "lingered"
    after = rows_of(scene, "paused")
    stale.wake()
    assert stale.hear("result", "paused")[2] == "lingered"
    stale.tell("run", "short", "next", 1)
    assert stale.hear("result", "next")[2] == 3

    assert rows_of(scene, "paused") == after
    scene.check_record(woken=True)


def test_i1_a_writer_paused_inside_a_transaction_of_sqlite_makes_all_wait_and_loses_nothing(
    stage: Callable[[str], Stage],
) -> None:
    scene = stage("sqlite")
    other = scene.ready("async")
    holder = scene.ready("sync", faults=[("pipeline.before_commit", 3, "pause")])
    holder.tell("run", "short", "paused", 7)
    until(holder.is_paused)
    other.tell("run", "short", "other", 1)
    holder.wake()

    assert holder.hear("result", "paused")[2] == 21
    assert other.hear("result", "other")[2] == 3
    assert scene.run("paused")["recovery_attempts"] == 0
    scene.check_record()


class Facts:
    """The facts of runs, written by hand through two connections."""

    def __init__(self, manager: ConnectionManager) -> None:
        queries = workflow_queries(manager.dialect, "holdfast")
        self.queries = queries
        self.start = StartRuns(queries, application_id="test", executor_id="local", incarnation="gone")
        self.record = RecordSteps(queries)
        self.children = StartChildren(self.record, self.start)
        self.finish = FinishRuns(queries)
        self.hand_over = HandOverRuns(queries)

    async def release(self, manager: ConnectionManager) -> int:
        return await manager.execute(
            self.queries["runs_release"], incarnation="gone", most=10, internal_queue=INTERNAL_QUEUE
        )


def start_row(run_id: str, token: str, parent: str | None = None) -> tuple[Any, ...]:
    return (run_id, "f", None, None, "[]", "json", token, parent, "mark", *[None] * 6, "tested")


def step_row(run_id: str, token: str, identity: str = "0") -> tuple[Any, ...]:
    return (run_id, token, int(identity) + 1, "step", identity, "mark", '"value"', None, None, "json", 0)


WRITES: dict[str, Callable[[Facts], tuple[Any, tuple[Any, ...]]]] = {
    "step": lambda facts: (facts.record, step_row("run", "first")),
    "child": lambda facts: (facts.children, (step_row("run", "first"), start_row("child", "child", "run"))),
    "outcome": lambda facts: (facts.finish, ("run", "first", "SUCCESS", "1", None, "json")),
    "hand-over": lambda facts: (facts.hand_over, ("run", "first")),
}


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("write", list(WRITES))
def test_i1_a_write_under_way_is_not_passed_by_a_release(
    kind: str, write: str, fresh_database: Callable[[str], str]
) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await Migrator(manager).migrate()
            facts = Facts(manager)
            await manager.run(lambda tx: facts.start.apply(tx, [start_row("run", "first")]))
            async with manager.transaction() as transaction:
                written, row = WRITES[write](facts)
                [outcome] = await written.apply(transaction, [row])
                assert not isinstance(outcome, BaseException)
                assert await apart(facts.release(manager)) == 0
            assert await facts.release(manager) == {"step": 1, "child": 2}.get(write, 0)

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_i1_a_change_that_a_workflow_makes_is_not_passed_by_a_release(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    """Of queues, say: the run is asked for by itself, after the change and before its record."""

    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await Migrator(manager).migrate()
            facts = Facts(manager)
            await manager.run(lambda tx: facts.start.apply(tx, [start_row("run", "first")]))
            async with manager.transaction() as transaction:
                found = await transaction.fetchone(facts.queries["run_share"], id="run")
                assert found == {"status": "PENDING", "owner_xid": "first"}
                assert await apart(facts.release(manager)) == 0
            assert await facts.release(manager) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", list(WRITES))
def test_i1_a_write_that_waited_for_a_release_is_refused(
    kind: str, write: str, fresh_database: Callable[[str], str]
) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await Migrator(manager).migrate()
            facts = Facts(manager)
            await manager.run(lambda tx: facts.start.apply(tx, [start_row("run", "first")]))
            written, row = WRITES[write](facts)
            async with manager.transaction() as transaction:
                named = {"incarnation": "gone", "most": 10, "internal_queue": INTERNAL_QUEUE}
                assert await transaction.execute(facts.queries["runs_release"], **named) == 1
                stale = asyncio.create_task(apart(manager.run(lambda tx: written.apply(tx, [row]))))
                await asyncio.wait([stale], timeout=0.1)
            [outcome] = await stale
            if write == "hand-over":  # the run is not its own any more, which is all that was wanted
                assert outcome is True
            else:
                assert isinstance(outcome, Superseded)
            runs = await manager.run(lambda tx: tx.fetch_batch(facts.queries["runs_look"], [("run",), ("child",)]))
            assert [(row["workflow_uuid"], row["status"], row["owner_xid"]) for row in runs] == [
                ("run", "ENQUEUED", None)
            ]
            steps = await manager.run(lambda tx: tx.fetch_batch(facts.queries["steps_of_runs"], [("run",)]))
            assert steps == []

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", ["step", "child", "outcome"])
def test_i1_a_run_that_has_ended_writes_nothing_more_under_its_token(
    kind: str, write: str, fresh_database: Callable[[str], str]
) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await Migrator(manager).migrate()
            facts = Facts(manager)
            await manager.run(lambda tx: facts.start.apply(tx, [start_row("run", "first")]))
            end = ("run", "first", "ERROR", None, "{}", "json")
            assert await manager.run(lambda tx: facts.finish.apply(tx, [end])) == [True]
            written, row = WRITES[write](facts)
            [outcome] = await manager.run(lambda tx: written.apply(tx, [row]))
            if write == "outcome":  # it is told that it has one, and which one does not change
                assert outcome is True
            else:
                assert isinstance(outcome, Superseded)
            runs = await manager.run(lambda tx: tx.fetch_batch(facts.queries["runs_look"], [("run",), ("child",)]))
            assert [(row["workflow_uuid"], row["status"]) for row in runs] == [("run", "ERROR")]
            assert await manager.run(lambda tx: tx.fetch_batch(facts.queries["steps_of_runs"], [("run",)])) == []

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
def test_i1_a_task_that_a_run_has_left_behind_changes_nothing(kind: str, fresh_database: Callable[[str], str]) -> None:
    left: list[asyncio.Task[Any]] = []

    async def scene() -> None:
        app = AsyncHoldfast(fresh_database(kind))
        begun, may_end = asyncio.Event(), asyncio.Event()
        ran: list[str] = []

        @app.step
        async def slow() -> None:
            begun.set()
            await may_end.wait()

        @app.workflow
        async def child() -> None:
            ran.append("child")

        async def behind() -> None:
            with suppress(Superseded):  # a step that was under way is not recorded
                await slow()
            for more in (child, partial(app.set_event, "state", "late"), partial(app.recv, "topic", timeout=1)):
                with pytest.raises(Superseded, match="ended"):
                    await more()

        @app.workflow
        async def ends() -> str:
            left.append(asyncio.create_task(behind()))
            await begun.wait()
            return "ended"

        async with app:
            assert await ends.options(workflow_id="run")() == "ended"
            await app.send("run", "for nobody", "topic")
            may_end.set()
            await left[0]
            assert ran == []
            assert await app.list_steps("run") == []
            assert await app.get_all_events("run") == {}
            assert [each.consumed for each in await app.get_all_notifications("run")] == [False]

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
def test_i1_a_thread_that_a_run_has_left_behind_changes_nothing(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind))
    begun, may_end = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @app.step
    def slow() -> None:
        begun.set()
        assert may_end.wait(60)

    def behind() -> None:
        for more in (slow, partial(app.set_event, "state", "late")):
            try:
                more()
            except Superseded as error:
                raised.append(error)

    @app.workflow
    def ends() -> str:
        threads.append(threading.Thread(target=contextvars.copy_context().run, args=(behind,)))
        threads[0].start()
        assert begun.wait(60)
        return "ended"

    threads: list[threading.Thread] = []
    with app:
        assert ends.options(workflow_id="run")() == "ended"
        may_end.set()
        threads[0].join(60)
        assert len(raised) == 2
        assert app.list_steps("run") == []
        assert app.get_all_events("run") == {}
