"""A workflow of ours that is executed for an idempotency key goes on after a crash, and does not start again."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "once.py"


@pytest.fixture
def worker(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with settings for a process that executes; it is killed afterwards."""
    with ExitStack() as afterwards:

        def start(**settings: Any) -> Worker:
            each = afterwards.enter_context(Worker(PROGRAM, nursery, **settings))
            each.hear("ready")
            return each

        yield start


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("sqlite", "key.claimed"),
        ("sqlite", "key.before_result"),
        *((kind, "step.recorded") for kind in ("sqlite", "postgres", "mariadb")),
    ],
)
def test_crash_in_the_middle_is_gone_on_from(
    kind: str,
    point: str,
    worker: Callable[..., Worker],
    fresh_database: Callable[[str], str],
    tmp_path: Path,
) -> None:
    settings = {"url": fresh_database(kind), "ledger": str(tmp_path / "ledger")}
    doomed = worker(**settings, faults=[(point, 1)])
    doomed.tell("17", "key")
    assert doomed.end() == -signal.SIGKILL
    heir = worker(**settings)
    heir.tell("17", "key")
    results, run_id = heir.hear("done", "17")[2:]
    assert results == ["charged 17", "shipped 17"]
    assert Counter((tmp_path / "ledger").read_text().splitlines()) == {"charge 17": 1, "ship 17": 1}
    heir.tell("17", "key")
    heir.tell("18", "key")
    assert heir.hear("failed", "18") == ["failed", "18", "KeyConflict"]
    assert [answer[3] for answer in heir.heard("done", "17")] == [run_id, run_id]


def test_workflow_that_failed_is_executed_anew_under_its_key(
    worker: Callable[..., Worker], fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    one = worker(url=fresh_database("sqlite"), ledger=str(tmp_path / "ledger"))
    one.tell("lost", "key")
    one.tell("lost", "key")
    one.tell("end", "other")
    one.hear("done", "end")
    assert one.heard("failed", "lost") == [["failed", "lost", "ValueError"]] * 2
    assert Counter((tmp_path / "ledger").read_text().splitlines())["ship lost"] == 2
