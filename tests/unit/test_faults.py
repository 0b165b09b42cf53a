"""Fault points: inert unless armed, and none that nobody announces."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast import faults

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _inert_afterwards() -> Iterator[None]:
    yield
    faults.disarm()


def test_unknown_point_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(LookupError, match=r"no fault point 'pipeline\.never'.*pipeline\.taken"):
        faults.arm("pipeline.never")


def test_every_point_that_is_announced_is_known_and_every_known_one_is_announced() -> None:
    source = Path(holdfast.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py") if path.name != "faults.py")
    announced = set(re.findall(r"""faults\.point\(\s*["']([^"']+)["']""", text))
    assert announced <= set(faults.POINTS)
    # Some are named by one who has a row written, and announced by the one who writes it.
    assert {name for name in faults.POINTS if f'"{name}"' in text} == set(faults.POINTS)


def test_point_that_is_not_armed_does_nothing() -> None:
    seen: list[str] = []
    faults.arm("pipeline.taken", lambda: seen.append("taken"))
    faults.point("pipeline.acknowledged")
    assert seen == []


def test_armed_point_acts_once_at_its_turn_and_never_after_disarm() -> None:
    seen: list[int] = []
    count = 0
    faults.arm("pipeline.taken", lambda: seen.append(count), at=3)
    for number in range(1, 6):
        count = number
        faults.point("pipeline.taken")
    assert seen == [3]
    faults.arm("pipeline.taken", lambda: seen.append(0))
    faults.disarm()
    faults.point("pipeline.taken")
    assert seen == [3]


def test_armed_point_kills_the_process_by_default() -> None:
    script = "from holdfast import faults; faults.arm('pipeline.taken'); faults.point('pipeline.taken')"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == -signal.SIGKILL
