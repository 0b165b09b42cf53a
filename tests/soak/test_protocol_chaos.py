"""The same chaos for longer, with more workers and a fresh seed every time; the seed is in the test's output."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.chaos import Chaos, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

pytestmark = pytest.mark.soak

ROUNDS = 60


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_runs_survive_kills_and_pauses_for_long(kind: str, stage: Callable[[str], Stage]) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    draw = random.Random(seed)  # noqa: S311 -- to be repeatable is the point
    chaos = Chaos(stage(kind), draw, workers=4, lease=1.5, pauses=kind != "sqlite")
    for _ in range(ROUNDS):
        chaos.start(draw.randrange(5, 60))
        pass_time(draw.uniform(0.1, 1.5))
        chaos.strike()

    chaos.settle()
    assert chaos.kills > 0
    assert len(chaos.wanted) > 5 * ROUNDS
