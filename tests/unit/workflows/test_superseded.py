"""What an execution is told whose write is refused."""

from __future__ import annotations

import pytest

from holdfast.workflows.facts import superseded


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (None, "the run is gone"),
        ("PENDING", "another execution owns the run"),
        ("SUCCESS", "the run is SUCCESS, and nothing more is recorded for it"),
        ("CANCELLED", "the run is CANCELLED, and nothing more is recorded for it"),
    ],
)
def test_who_is_refused_is_told_what_has_become_of_the_run(status: str | None, why: str) -> None:
    assert str(superseded(None if status is None else {"status": status})) == why
