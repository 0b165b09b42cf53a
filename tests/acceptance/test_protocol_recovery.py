"""I6: nothing is stranded. What was claimed and lost comes back, what kills its executors is given up, alone."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

KINDS = ["sqlite", "postgres", "mariadb"]
QUEUE = "_holdfast_sys_internal"


def put(scene: Stage, run_id: str, **columns: Any) -> None:
    """Insert a run of ``short(2)`` behind the engine's back."""
    row = {
        "workflow_uuid": run_id,
        "status": "ENQUEUED",
        "name": "short",
        "inputs": scene.run("pattern")["inputs"],
        "serialization": scene.run("pattern")["serialization"],
        "queue_name": QUEUE,
        "application_version": "tested",
        "created_at": 1,
        "updated_at": 1,
    } | columns
    places = ", ".join("?" for _ in row)
    scene.execute(f"INSERT INTO {{runs}} ({', '.join(row)}) VALUES ({places})", *row.values())


def with_pattern(scene: Stage, colour: str) -> Worker:
    worker = scene.ready(colour)
    worker.tell("run", "short", "pattern", 2)
    assert worker.hear("result", "pattern")[2] == 6
    return worker


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["async", "sync"])
def test_i6_a_claim_whose_reply_was_lost_is_handed_back(kind: str, colour: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    with_pattern(scene, colour)
    [executor] = scene.fetch("SELECT incarnation FROM {executors}")
    put(scene, "lost", status="PENDING", owner_xid="nobody", executions=1, incarnation=executor["incarnation"])

    until(lambda: scene.statuses()["lost"] == "SUCCESS")
    assert scene.run("lost")["recovery_attempts"] == 0
    assert scene.run("lost")["executions"] >= 2
    scene.check_record()


@pytest.mark.parametrize("kind", KINDS)
def test_i6_runs_of_an_incarnation_without_a_row_are_released_whatever_their_version(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    with_pattern(scene, "async")
    gone = {"status": "PENDING", "owner_xid": "old", "incarnation": "gone", "executions": 1}
    put(scene, "mine", **gone)
    put(scene, "other-version", **gone, application_version="never seen again")
    put(scene, "other-function", **gone, name="nobody_has_this")

    until(lambda: scene.statuses()["mine"] == "SUCCESS")
    until(lambda: {scene.statuses()["other-version"], scene.statuses()["other-function"]} == {"ENQUEUED"})
    for run_id in ("other-version", "other-function"):
        run = scene.run(run_id)
        assert (run["owner_xid"], run["incarnation"], run["recovery_attempts"], run["queue_name"]) == (
            None,
            None,
            1,
            QUEUE,
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["kill", "exit"])
def test_a_run_that_kills_every_executor_is_given_up_and_its_waiters_are_told(
    kind: str, way: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    first = scene.ready("sync")
    first.tell("start", "poison", "poison", way)
    for _ in range(2):
        assert first.end() in {-signal.SIGKILL, 17}
        first = scene.worker("sync")
    assert first.end() in {-signal.SIGKILL, 17}

    survivor = scene.ready("async")
    survivor.tell("run", "poison", "poison", way)
    assert survivor.hear("result", "poison")[2] == "RecoveryExhausted"
    run = scene.run("poison")
    assert (run["status"], run["recovery_attempts"]) == ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", 3)
    until(lambda: scene.run("poison")["error"] is not None)
    run = scene.run("poison")
    assert "took its executor, last local, down 3 times" in run["error"]
    assert run["completed_at"] is not None
    assert len(scene.ledger.of("poison")) == 3
    survivor.tell("run", "short", "after", 1)
    assert survivor.hear("result", "after")[2] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_kills_its_executors_but_gets_on_is_never_given_up(kind: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    worker = scene.ready("async")
    worker.tell("start", "stumbling", "stumbling", 4)
    for _ in range(3):
        assert worker.end() == -signal.SIGKILL
        worker = scene.worker("async")
    assert worker.end() == -signal.SIGKILL

    last = scene.ready("sync")
    last.tell("run", "stumbling", "stumbling", 4)
    assert last.hear("result", "stumbling")[2] == "arrived"
    assert scene.run("stumbling")["recovery_attempts"] <= 1
    scene.check_record()


@pytest.mark.parametrize("kind", KINDS)
def test_a_poisonous_neighbour_is_given_up_alone(kind: str, stage: Callable[[str], Stage]) -> None:
    """The sleepers have the same cap as the poison, and record nothing between its deaths."""
    scene = stage(kind)
    workers = [scene.ready("async", app={"lease": 0.7})]
    sleepers = [f"sleeper-{number}" for number in range(3)]
    for run_id in sleepers:
        workers[0].tell("start", "sleeping", run_id, 9)
        workers[0].hear("started", run_id)
    workers[0].tell("start", "poison", "poison", "kill")

    def given_up() -> bool:
        if not workers[-1].alive:
            workers.append(scene.ready("async", app={"lease": 0.7}))
        return scene.statuses().get("poison") == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

    until(given_up)
    until(lambda: all(scene.statuses()[run_id] == "SUCCESS" for run_id in sleepers))
    assert len(workers) == 4  # the first, and one for each time the poison was tried again
    assert any("is tried alone" in worker.log() for worker in workers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["async", "sync"])
def test_graceful_close_hands_runs_over_at_once(kind: str, colour: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    patient = {"lease": 300}  # nobody's lease ends in this test
    leaving = scene.ready(colour, app=patient)
    staying = scene.ready(colour, app=patient)
    for number in range(10):
        leaving.tell("start", "lingering", f"long-{number}", 1.0)
        leaving.hear("started", f"long-{number}")
    until(lambda: len([1 for effect in scene.ledger.all() if effect.what.startswith("linger")]) == 10)
    leaving.tell("close")
    leaving.hear("closed")

    for number in range(10):
        staying.tell("run", "lingering", f"long-{number}", 1.0)
        assert staying.hear("result", f"long-{number}")[2] == "lingered"
        run = scene.run(f"long-{number}")
        assert (run["recovery_attempts"], run["executions"]) == (0, 2)
    assert len(scene.fetch("SELECT 1 AS one FROM {executors}")) == 1
    scene.check_record(woken=True)
