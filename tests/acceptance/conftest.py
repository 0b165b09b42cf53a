"""What the acceptance tests share: stages whose worker processes never outlive a test."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "worker.py"


@pytest.fixture
def stage(fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery) -> Iterator[Callable[[str], Stage]]:
    """Call with "sqlite", "postgres" or "mariadb", or with a URL, for a stage; its workers are killed afterwards."""
    with ExitStack() as afterwards:
        yield lambda kind: Stage(
            PROGRAM, kind if "://" in kind else fresh_database(kind), tmp_path / "effects", afterwards, nursery
        )
