"""Several worker processes under load, killed and paused at random: every run ends once, with its own result."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.chaos import Chaos
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.testing.stage import Stage


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_i1_i5_i6_runs_survive_kills_and_pauses_under_load(
    kind: str, stage: Callable[[str], Stage], tmp_path: Path
) -> None:
    scene, hold = stage(kind), tmp_path / "hold"
    # A process of SQLite that is paused while it holds the file makes all others wait; it is paused elsewhere.
    draw = random.Random(kind)  # noqa: S311 -- to be repeatable is the point
    chaos = Chaos(scene, draw, workers=2, lease=1.0, pauses=kind != "sqlite", hold=hold)
    for _ in range(4):
        hold.touch()  # whoever is struck has runs under way, however fast they are
        chaos.start(50)
        until(chaos.is_busy)
        chaos.strike()
        hold.unlink()

    chaos.settle()
    assert chaos.kills + chaos.stops == 4
    assert len(chaos.wanted) >= 200
