"""Who is a suspect, and how many of those that were claimed begin."""

from __future__ import annotations

import pytest

from holdfast.testing.world import VirtualWorld
from holdfast.workflows.ownership.trial import Trial, is_suspect

CAPS = {"flow": 10}


@pytest.mark.parametrize(
    ("attempts", "cap", "suspect"),
    [(0, 0, False), (0, 10, False), (4, 10, False), (5, 10, True), (10, 10, True), (1, 3, False), (2, 3, True)],
)
def test_run_is_suspect_from_half_of_its_cap_on(attempts: int, cap: int, *, suspect: bool) -> None:
    assert is_suspect(attempts, cap) is suspect


@pytest.mark.parametrize(
    ("claimed", "idle", "begun", "given_back"),
    [
        ([0, 5, 6, 0], True, [0, 0], [5, 6]),  # none beside the others, which begin at once
        ([0, 5, 6, 0], False, [0, 0, 5], [6]),
        ([5, 6], True, [5], [6]),
        ([5, 6], False, [5], [6]),
        ([0, 0], True, [0, 0], []),
    ],
)
def test_one_suspect_begins_unless_the_idle_have_others_to_begin(
    claimed: list[int], begun: list[int], given_back: list[int], *, idle: bool
) -> None:
    rows = [{"id": number, "name": "flow", "recovery_attempts": each} for number, each in enumerate(claimed)]
    parted = Trial(VirtualWorld(), 30.0).sort(rows, CAPS, idle=idle)
    assert [[row["recovery_attempts"] for row in part] for part in parted] == [begun, given_back]
