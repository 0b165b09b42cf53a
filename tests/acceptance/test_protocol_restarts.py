"""Long sleeps and one restart after another beside a run that kills its executor each time: only that one is given up.

Two hundred of each are in ``tests/soak``.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.restarts import check_that_only_poison_is_given_up
from holdfast.testing.stage import Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "marcher.py"
RUNS = 40
OPERATIONS = 150


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_i6_long_sleeps_and_restarts_beside_a_poisonous_neighbour_give_up_the_poison_alone(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    with ExitStack() as afterwards:
        scene = Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery)
        check_that_only_poison_is_given_up(scene, cap=2, sleeps=4, lease=0.7)


@pytest.mark.parametrize("flow", ["march", "rest"])
@pytest.mark.parametrize(("kind", "colour"), [("sqlite", "async"), ("sqlite", "sync"), ("postgres", "sync")])
def test_i6_a_close_in_the_middle_of_everything_ends_no_run(
    kind: str, colour: str, flow: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    """Wherever a run is when its executor closes, it is handed over; that the application closes is not its outcome."""
    with ExitStack() as afterwards:
        scene = Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery)
        worker = scene.ready(colour, app={"lease": 10.0})
        for number in range(RUNS):
            worker.tell("start", flow, f"run-{number}", OPERATIONS, 0.0)
        for number in range(RUNS):
            worker.hear("started", f"run-{number}")
        for part in (1, 2, 3):
            until(lambda: recorded(scene) > part * RUNS * OPERATIONS // 5)  # noqa: B023 -- asked at once
            worker.tell("close")
            worker.hear("closed")
            failed = scene.fetch("SELECT workflow_uuid, error FROM {runs} WHERE status = 'ERROR'")
            assert not failed
            worker = scene.ready(colour, app={"lease": 10.0})
        until(scene.all_ended)
        assert {row["recovery_attempts"] for row in scene.fetch("SELECT recovery_attempts FROM {runs}")} == {0}
        assert scene.fetch("SELECT 1 AS one FROM {runs} WHERE executions > 1")
        scene.check_record()


def recorded(scene: Stage) -> int:
    return int(scene.fetch("SELECT count(*) AS amount FROM {steps}")[0]["amount"])
