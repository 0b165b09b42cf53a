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

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).parent / "programs" / "marcher.py"


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_i6_long_sleeps_and_restarts_beside_a_poisonous_neighbour_give_up_the_poison_alone(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    with ExitStack() as afterwards:
        scene = Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards)
        check_that_only_poison_is_given_up(scene, cap=2, sleeps=6, lease=0.7)
