"""Nothing is taken from the living: I3 (observation), I10 (clocks), I13 (blocked is not gone), I14 (back in time)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import ConnectionManager
from holdfast.errors import Unavailable
from holdfast.model.world import RealWorld
from holdfast.testing.clocks import WrongClock
from holdfast.testing.contract.venue import until as wait_until
from holdfast.testing.workers import Worker, until
from holdfast.workflows.engine import wiring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.testing.servers import Server
    from holdfast.testing.stage import Stage

KINDS = ["sqlite", "postgres", "mariadb"]
LEASE = 1.0
LONG = 4.0  # where nobody may be taken for gone, however busy the machine is


class _SteppedWorld(RealWorld):
    """A machine whose wall clock is set while it runs."""

    ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


def assert_nothing_was_released(scene: Stage) -> None:
    runs = scene.fetch("SELECT workflow_uuid, recovery_attempts, executions FROM {runs}")
    assert runs
    assert {(run["recovery_attempts"], run["executions"]) for run in runs} == {(0, 1)}


@pytest.mark.parametrize("kind", KINDS)
def test_i3_two_processes_with_the_same_name_leave_each_other_alone(kind: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    workers = [scene.ready(colour, app={"lease": LONG}) for colour in ("sync", "async")]
    for number, worker in enumerate(workers):
        worker.tell("run", "lingering", f"long-{number}", 1.5 * LONG)
        worker.tell("many", "short", f"short-{number}-", 20)
    for number, worker in enumerate(workers):
        assert worker.hear("result", f"long-{number}")[2] == "lingered"
        assert worker.hear("results", f"short-{number}-")[2] == [3 * n for n in range(20)]

    assert {row["executor_id"] for row in scene.fetch("SELECT executor_id FROM {executors}")} == {"local"}
    assert_nothing_was_released(scene)
    scene.check_record()


@pytest.mark.parametrize("kind", KINDS)
def test_i13_a_function_that_blocks_the_loop_loses_nothing_and_is_named(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    watcher = scene.ready("sync", app={"lease": LONG})
    blocked = scene.ready("async", app={"lease": LONG})
    for number in range(5):  # writes that are under way, or about to be, while the loop stands still
        blocked.tell("run", "journey", f"beside-{number}", 1)
    blocked.tell("run", "blocking", "blocking", 1.5 * LONG)
    seen = until(lambda: scene.fetch("SELECT * FROM {executors} WHERE stalled_since IS NOT NULL"))
    assert [row["pid"] for row in seen] == [blocked.pid]

    assert blocked.hear("result", "blocking")[2] == "blocked"
    for number in range(5):
        assert blocked.hear("result", f"beside-{number}")[2] == 6
    assert "The event loop is blocked, by <FrameSummary" in blocked.log()
    assert "in block>" in blocked.log()
    until(lambda: not scene.fetch("SELECT * FROM {executors} WHERE stalled_since IS NOT NULL"))
    assert watcher.alive
    assert_nothing_was_released(scene)


def test_i13_an_executor_whose_writes_hang_stops_beating_and_is_taken_over(stage: Callable[[str], Stage]) -> None:
    scene = stage("sqlite")
    stuck = scene.ready("sync", app={"lease": LEASE}, faults=[("pipeline.after_commit", 3, "hang")])
    stuck.tell("start", "short", "stuck", 2)
    until(lambda: scene.fetch("SELECT 1 AS one FROM {steps}"))

    other = scene.ready("async", app={"lease": LEASE})
    other.tell("run", "short", "stuck", 2)
    assert other.hear("result", "stuck")[2] == 6
    assert "does not beat: a write has been under way" in stuck.log()
    assert scene.run("stuck")["executions"] >= 2
    scene.check_record(woken=True)


@pytest.mark.parametrize("kind", KINDS)
def test_i10_a_wrong_clock_changes_nobody_s_lease(kind: str, stage: Callable[[str], Stage], tmp_path: Path) -> None:
    """Not one that is a day ahead or behind, nor one that is set two days back or forth while runs are under way."""
    scene = stage(kind)
    clocks = {"ahead": WrongClock(tmp_path / "ahead", "+1d"), "behind": WrongClock(tmp_path / "behind", "-1d")}
    ahead, behind = (
        scene.ready("async", app={"lease": LONG}, environment=clock.environment) for clock in clocks.values()
    )
    right = scene.ready("sync", app={"lease": LONG})
    workers = {"ahead": ahead, "behind": behind, "right": right}
    for name, worker in workers.items():
        worker.tell("run", "lingering", name, 2.0)
        worker.tell("run", "sleeping", f"sleep-{name}", 0.3)
    for name, worker in workers.items():
        assert worker.hear("result", f"sleep-{name}")[2] == "slept"
    clocks["ahead"].set("-1d")
    clocks["behind"].set("+1d")
    for name, worker in workers.items():
        assert worker.hear("result", name)[2] == "lingered"
    assert_nothing_was_released(scene)

    doomed = scene.ready("async", app={"lease": LEASE}, environment=clocks["behind"].environment)
    doomed.tell("start", "lingering", "orphan", 1.0)
    doomed.hear("started", "orphan")
    doomed.kill()
    ahead.tell("run", "lingering", "orphan", 1.0)
    assert ahead.hear("result", "orphan")[2] == "lingered"
    assert scene.run("orphan")["recovery_attempts"] == 0  # reset by its record
    assert scene.run("orphan")["executions"] >= 2


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("hours", [-1, 1])
def test_i10_timers_follow_the_database_when_the_own_clock_is_set_between_two_beats(
    kind: str, hours: int, fresh_database: Callable[[str], str]
) -> None:
    world = _SteppedWorld()
    app = Holdfast(fresh_database(kind), world=world, lease=60)

    @app.workflow
    def times() -> tuple[float, float]:
        app.sleep(0.01)
        return app.now().timestamp(), time.time()

    with app:
        times()
        world.ahead = hours * 3600.0
        said, right = times()
        [slept, _] = app.list_steps(app.list_workflows()[0].workflow_id)

    assert abs(said - right) < 1800
    assert abs(slept.output / 1000 - right) < 1800


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["async", "sync"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("DELETE FROM {executors}", id="row-gone"),
        pytest.param("UPDATE {executors} SET beat_seq = -5", id="back-in-time"),
    ],
)
def test_i14_an_executor_the_database_forgot_begins_anew_and_redoes_its_runs(
    kind: str, colour: str, damage: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    worker = scene.ready(colour, app={"lease": LEASE})
    [before] = scene.fetch("SELECT incarnation FROM {executors}")
    worker.tell("run", "lingering", "long", LEASE)
    until(lambda: any(effect.what.startswith("linger") for effect in scene.ledger.all()))
    assert scene.execute(damage) == 1

    assert worker.hear("result", "long")[2] == "lingered"
    [after] = scene.fetch("SELECT incarnation FROM {executors}")
    assert after["incarnation"] != before["incarnation"]
    run = scene.run("long")
    assert (run["status"], run["incarnation"]) == ("SUCCESS", after["incarnation"])
    assert run["executions"] >= 2  # a busy machine may be late with a beat, and begin anew once more
    scene.check_record(woken=True)


@pytest.mark.parametrize("kind", KINDS)
def test_i14_what_is_begun_anew_is_not_dropped_again(
    kind: str, fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by who looks for work in the middle of it, nor by who finds out a moment later what a beat has seen to.

    What is released must not be claimed for the incarnation that is given up: it would be released once more.
    """
    app = AsyncHoldfast(fresh_database(kind), lease=30)
    begun: list[str] = []
    looked = 0

    @app.workflow
    async def patient() -> str:
        begun.append(app.workflow_id or "")
        await gate.wait()
        return "ended"

    async def scene() -> str:
        async with app:
            engine = app._engine
            beats, loop, release = engine._beats, asyncio.get_running_loop(), engine._beats._releases.release

            async def release_and_look(incarnation: str, enough: Callable[[], bool]) -> None:
                nonlocal looked
                looked += 1
                await release(incarnation, enough)
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(engine.dispatch._look(), loop))

            monkeypatch.setattr(beats._releases, "release", release_and_look)
            handle = await patient.start()
            await wait_until(lambda: len(begun) == 1)
            first = engine.executor.incarnation
            engine.went_back()
            await wait_until(lambda: len(begun) == 2)
            second = engine.executor.incarnation
            beats.begin_anew(first)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(beats._look(), beats._loop))
            gate.set()
            assert await handle.result() == "ended"
            assert engine.executor.incarnation == second != first
            assert (looked, begun) == (1, [handle.workflow_id] * 2)
            return handle.workflow_id

    gate = asyncio.Event()
    assert asyncio.run(scene())


def test_i13_a_database_that_is_slow_when_an_executor_joins_is_tried_again(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat's patience is a part of the lease, and may be a fraction of a second; who joins owns nothing yet."""
    refusals = 3

    class Busy(ConnectionManager):
        async def initialize(self) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise Unavailable("This did not answer in time.")
            await super().initialize()

    monkeypatch.setattr(wiring, "ConnectionManager", Busy)  # that of the beat
    url = fresh_database("sqlite")
    with Holdfast(url, lease=LEASE) as app:
        assert [each.executor_id for each in app.list_executors()] == ["local"]
    assert refusals == 0


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_i3_i13_a_database_that_is_killed_away_for_three_leases_and_restarted_kills_nobody(
    kind: str, stage: Callable[[str], Stage], own_server: Callable[..., Server]
) -> None:
    lease = 3.0
    server = own_server(kind)
    scene = stage(server.url)
    workers = [scene.ready(colour, app={"lease": lease}) for colour in ("async", "sync")]
    for number, worker in enumerate(workers):
        worker.tell("run", "lingering", f"long-{number}", 4 * lease)
        worker.tell("many", "short", f"short-{number}-", 150)
    until(lambda: len(scene.ledger.all()) > 50)

    server.kill()
    until_elapsed(workers[0], 1.5 * lease)
    begun = len(scene.ledger.all())
    until_elapsed(workers[0], 1.5 * lease)
    assert len(scene.ledger.all()) == begun  # no user code is started when the lease may be over (I13)
    server.start()

    for number, worker in enumerate(workers):
        assert worker.hear("result", f"long-{number}")[2] == "lingered"
        assert worker.hear("results", f"short-{number}-")[2] == [3 * n for n in range(150)]

    before = len(scene.ledger.all())
    for number, worker in enumerate(workers):
        worker.tell("many", "short", f"again-{number}-", 100)
    until(lambda: len(scene.ledger.all()) > before + 20)
    server.restart()  # as an operator does it
    for number, worker in enumerate(workers):
        assert worker.hear("results", f"again-{number}-")[2] == [3 * n for n in range(100)]
    assert not [line for worker in workers for line in worker.heard("failed")]
    assert_nothing_was_released(scene)
    scene.check_record()


def until_elapsed(worker: Worker, seconds: float) -> None:
    """Let *seconds* pass, as the length of an outage; the worker must live through all of it."""
    began = time.monotonic()
    until(lambda: time.monotonic() - began >= seconds or not worker.alive)
    assert worker.alive
