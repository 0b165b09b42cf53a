"""A process is killed while it puts runs in queues; processes race for the same ids. On every database.

The invariants shown: what was acknowledged is there, and all of it or nothing (I4); a workflow enqueues once, whoever
carries it on (I5); nothing is stranded (I6).
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

KINDS = ["sqlite", "postgres", "mariadb"]
PROGRAM = Path(__file__).parent / "programs" / "enqueuer.py"
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@EVERY_KIND
@pytest.mark.parametrize(("point", "there"), [("enqueue.before_commit", 0), ("run.enqueued", 1_200)])
def test_i4_many_runs_whose_enqueuer_dies_are_all_there_or_none(
    kind: str, point: str, there: int, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    doomed = scene.ready(faults=[(point, 1)])
    doomed.tell("many", "tag", 1_200)
    assert doomed.end() == -signal.SIGKILL
    assert len(scene.statuses()) == there

    second = scene.ready()
    second.tell("many", "tag", 1_200)
    second.hear("many", "tag")
    assert len(scene.statuses()) == 1_200
    second.tell("listen")
    until(scene.all_ended)


RIDER_DIES = ["pipeline.before_commit", "pipeline.after_commit", "run.enqueued", "run.claimed"]


@EVERY_KIND
def test_i4_i6_run_that_is_claimed_in_the_commit_of_its_entry_ends_once_whoever_dies(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    """One process after the other dies where it has enqueued at rest, each at another place."""
    scene = stage(kind)
    for point in RIDER_DIES:
        doomed = scene.ready(faults=[(point, 1)])
        doomed.tell("one", point)
        assert doomed.end() == -signal.SIGKILL
    # The last one may have died with what another had left behind, before it had enqueued itself.
    assert set(RIDER_DIES[1:3]) <= set(scene.statuses()) <= set(RIDER_DIES[1:])

    last = scene.ready()
    last.tell("listen")
    until(scene.all_ended)


PARENT_DIES = [
    ("pipeline.before_commit", 2),
    ("pipeline.after_commit", 2),
    *(("child.started", at) for at in (1, 2, 3, 4)),
    ("run.enqueued", 2),
    ("run.outcome_written", 1),
]


@EVERY_KIND
@pytest.mark.parametrize("part", range(2))
def test_i5_workflow_whose_executor_dies_while_it_enqueues_has_each_child_once(
    kind: str, part: int, stage: Callable[[str], Stage]
) -> None:
    """One process after the other dies, each at another place; the last one ends the parents of all."""
    scene, deaths = stage(kind), PARENT_DIES[part::2]
    for number, death in enumerate(deaths):
        doomed = scene.worker(faults=[death])
        doomed.tell("parent", number)
        assert doomed.end() == -signal.SIGKILL

    last = scene.ready()
    families = []
    for number in range(len(deaths) + 1):
        last.tell("parent", number)
        families.append(last.hear("parent", number)[2])
    assert len({ids[4] for ids in families}) == 1
    children = {row["workflow_uuid"] for row in scene.fetch("SELECT * FROM {runs} WHERE queue_name = 'quiet'")}
    assert children == {each for ids in families for each in ids}
    assert len(children) == 5 * len(families) + 1
    last.tell("listen")
    due = children - {ids[5] for ids in families}
    until(lambda: {scene.statuses()[each] for each in due} == {"SUCCESS"})


@EVERY_KIND
def test_processes_that_race_for_deduplication_ids_get_the_same_runs(kind: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    racers = [scene.worker() for _ in range(3)]
    for racer in racers:
        racer.hear("ready")
    for number, racer in enumerate(racers):
        racer.tell("race", number)
    found = [racer.hear("race", number)[2] for number, racer in enumerate(racers)]
    assert found[0] == found[1] == found[2]
    assert set(scene.statuses()) == set(found[0])
    assert len(found[0]) == 20
