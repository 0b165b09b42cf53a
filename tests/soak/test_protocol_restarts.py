"""Two hundred long sleeps and two hundred executors lost to a poisonous neighbour: only the poison is given up."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.restarts import check_that_only_poison_is_given_up
from holdfast.testing.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.nursery import Nursery

pytestmark = pytest.mark.soak

PROGRAM = Path(__file__).parents[1] / "acceptance" / "programs" / "marcher.py"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_two_hundred_long_sleeps_and_restarts_beside_a_poisonous_neighbour(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    with ExitStack() as afterwards:
        scene = Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery)
        check_that_only_poison_is_given_up(scene, cap=199, sleeps=200, lease=0.7)
