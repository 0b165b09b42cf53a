"""A process is killed at every named place a run passes, on every database; another goes on, and the run ends once.

One process after the other is killed on the same database, each at another place: what those before it have left is
taken over by the next. The last one ends all.

The invariants shown: what was acknowledged is there (I4), each identity has one record (I5), nothing is stranded (I6).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

KINDS = ["sqlite", "postgres", "mariadb"]

# Where a worker that starts runs may die, and the how manieth time it comes there.
ON_THE_WAY = [
    ("run.started", 2),
    ("run.before_user_code", 1),
    ("step.before_user_code", 2),
    ("step.after_user_code", 5),
    ("step.recorded", 4),
    ("child.started", 1),
    ("child.started", 2),
    ("timer.set", 1),
    ("run.outcome_written", 1),
    ("run.told", 1),
    ("beat", 1),
    ("pipeline.taken", 4),
    ("pipeline.before_commit", 4),
    ("pipeline.after_commit", 4),
    ("pipeline.acknowledged", 4),
]
# Where a worker that takes over may die.
IN_TAKING_OVER = [
    ("release.begun", 1),
    ("release.done", 1),
    ("run.claimed", 1),
    ("run.loaded", 1),
    ("run.before_user_code", 2),
]

LEASE = {"lease": 0.6}
PARTS = 4


# Both colours meet every database; the long run has the other half of the combinations.
TURNS = pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.soak)])


def colour_for(kind: str, place: int) -> str:
    return ("sync", "async")[(place + KINDS.index(kind)) % 2]


def die_at(stage: Stage, place: tuple[str, int], colour: str, runs: dict[str, int], **settings: Any) -> None:
    """Have a worker start *runs*, and die at *place*: with one of them, or with one that it has taken over."""
    doomed = stage.worker(colour, faults=[(*place, "kill")], **settings)
    for run_id, result in runs.items():
        doomed.tell("start", "journey", run_id, result // 6)
    assert doomed.end() == -signal.SIGKILL
    acknowledged = [run_id for _, run_id in doomed.heard("started")]
    assert set(acknowledged) <= stage.statuses().keys()


def journeys(name: object) -> dict[str, int]:
    """Return the ids of three runs, and their results."""
    return {f"journey-{name}-{number}": 6 * number for number in (1, 2, 3)}


def finish_all(stage: Stage, worker: Worker, runs: dict[str, int]) -> None:
    """Ask for every run, whether or not its start was acknowledged; all must end, each with its own result."""
    for run_id, result in runs.items():
        worker.tell("run", "journey", run_id, result // 6)
    for run_id, result in runs.items():
        assert worker.hear("result", run_id) == ["result", run_id, result]
    assert stage.all_ended()
    stage.check_record()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(PARTS))
@TURNS
def test_i4_i6_a_run_whose_worker_dies_on_the_way_ends_once(
    kind: str, part: int, turn: int, stage: Callable[[str], Stage]
) -> None:
    scene, runs = stage(kind), dict[str, int]()
    for number, place in enumerate(ON_THE_WAY[part::PARTS], turn):
        mine = journeys(number)
        die_at(scene, place, colour_for(kind, number), mine, app=LEASE)
        runs |= mine
    finish_all(scene, scene.ready(colour_for(kind, part + turn), app=LEASE), runs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [IN_TAKING_OVER[:3], IN_TAKING_OVER[3:]], ids=["releasing", "claiming"])
@TURNS
def test_i6_a_run_whose_rescuer_dies_ends_once(
    kind: str, places: list[tuple[str, int]], turn: int, stage: Callable[[str], Stage]
) -> None:
    scene, runs = stage(kind), journeys("first")
    die_at(scene, ("step.recorded", 3), colour_for(kind, turn), runs, app=LEASE)
    for number, place in enumerate(places, turn):
        die_at(scene, place, colour_for(kind, number), {}, app=LEASE)
    finish_all(scene, scene.ready(colour_for(kind, len(places) + turn), app=LEASE), runs)


@pytest.mark.parametrize("kind", KINDS)
def test_i6_a_run_whose_worker_dies_while_it_hands_over_ends_once(kind: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    first = scene.ready("async", faults=[("run.handed_over", 2, "kill")])
    for number in range(3):
        first.tell("start", "lingering", f"lingering-{number}", 0.3)
        first.hear("started", f"lingering-{number}")
    until(lambda: len([effect for effect in scene.ledger.all() if effect.what.startswith("linger")]) == 3)
    first.tell("close")
    assert first.end() == -signal.SIGKILL
    assert "ENQUEUED" in scene.statuses().values()

    second = scene.ready("sync")
    for number in range(3):
        second.tell("run", "lingering", f"lingering-{number}", 0.3)
    for number in range(3):
        assert second.hear("result", f"lingering-{number}")[2] == "lingered"
    scene.check_record()


# Where a worker may die that puts runs away whenever they wait, and loads them again.
WHILE_WAITING = [("run.put_away", 1), ("run.put_away", 2), ("run.claimed", 1), ("run.loaded", 1), ("step.recorded", 6)]
# They wait so long that the wait is not over before they are put away, however busy the machine is.
RESTLESS: dict[str, Any] = {"app": LEASE | {"put_away_after": 0.001}, "nap": 3.0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(2))
@TURNS
def test_i6_a_run_whose_worker_dies_putting_it_away_or_loading_it_ends_once(
    kind: str, part: int, turn: int, stage: Callable[[str], Stage]
) -> None:
    scene, runs = stage(kind), dict[str, int]()
    for number, place in enumerate(WHILE_WAITING[part::2], turn):
        mine = journeys(number)
        die_at(scene, place, colour_for(kind, number), mine, **RESTLESS)
        runs |= mine
    finish_all(scene, scene.ready(colour_for(kind, part + turn), **RESTLESS), runs)
