"""Letters of runs are made once, wherever an executor dies; of processes that replay, one has each letter."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import AsyncSQLFailedOperationRepository
from holdfast.testing.stage import Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from holdfast.stores import FailedOperationData
    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "undertaker.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
PROCESSES, LETTERS = 3, 60


@pytest.fixture
def scene(kind: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery) -> Iterator[Stage]:
    with ExitStack() as afterwards:
        yield Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery)


def with_letters(url: str, work: Callable[[AsyncSQLFailedOperationRepository], Coroutine[Any, Any, Any]]) -> Any:
    """Run *work* with the letters at *url*, and return what it returns."""

    async def main() -> Any:
        async with ConnectionManager(url) as manager, AsyncSQLFailedOperationRepository(manager) as letters:
            return await work(letters)

    return asyncio.run(main())


def all_letters(url: str) -> list[FailedOperationData]:
    found: list[FailedOperationData] = with_letters(url, lambda letters: letters.find(limit=1000))
    return found


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("sqlite", "run.claimed"),
        ("sqlite", "dead_letters.before_commit"),
        ("sqlite", "dead_letter.made"),
        ("postgres", "dead_letters.before_commit"),
        ("mariadb", "run.claimed"),
    ],
)
def test_run_that_is_given_up_has_one_letter_wherever_its_claimer_dies(scene: Stage, point: str) -> None:
    first = scene.ready(name="first")
    first.tell("start", "poison", "poison")
    assert first.end() == -signal.SIGKILL
    second = scene.worker(name="second", faults=[(point, 1)])
    assert second.end() == -signal.SIGKILL
    status = scene.statuses()["poison"]
    assert (status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED") is (len(all_letters(scene.url)) == 1)
    third = scene.ready(name="third", cured=True)
    until(lambda: scene.statuses()["poison"] == "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
    [letter] = all_letters(scene.url)
    assert (letter.id, letter.status, letter.workflow_id) == ("run-poison", "pending", "poison")
    third.tell("replay", {"id": letter.id})
    assert third.hear("report")[1]["replayed"] == 1
    assert scene.statuses()["poison"] == "SUCCESS"
    assert [each.status for each in all_letters(scene.url)] == ["resolved"]


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("sqlite", "pipeline.before_commit"),
        ("sqlite", "run.outcome_written"),
        ("postgres", "pipeline.before_commit"),
        ("mariadb", "run.outcome_written"),
    ],
)
def test_run_that_fails_has_one_letter_wherever_its_executor_dies(scene: Stage, point: str) -> None:
    at = 2 if point == "pipeline.before_commit" else 1  # the first commit is that of its start
    doomed = scene.worker(name="doomed", faults=[(point, at)])
    doomed.hear("ready")
    doomed.tell("start", "failing", "failing")
    assert doomed.end() == -signal.SIGKILL
    assert len(all_letters(scene.url)) == (scene.statuses()["failing"] == "ERROR")
    scene.ready(name="next")
    until(lambda: scene.statuses()["failing"] == "ERROR")
    [letter] = all_letters(scene.url)
    assert (letter.id, letter.status, letter.failure_type) == ("run-failing", "pending", "ValueError")


@EVERY_KIND
def test_processes_that_replay_together_handle_each_letter_once(scene: Stage) -> None:
    workers = [scene.ready(name=str(number)) for number in range(PROCESSES)]

    async def fill(letters: AsyncSQLFailedOperationRepository) -> list[str]:
        made = await asyncio.gather(*(letters.create("work", "t") for _ in range(LETTERS)))
        return [each.id for each in made]

    ids = with_letters(scene.url, fill)
    for worker in workers:
        worker.tell("replay", {"domain": "work", "concurrency": 4})
    reports = [worker.hear("report")[1] for worker in workers]
    assert sum(report["replayed"] for report in reports) == LETTERS
    assert sorted(effect.run_id for effect in scene.ledger.all()) == sorted(ids)
    assert {each.status for each in all_letters(scene.url)} == {"resolved"}


@EVERY_KIND
def test_replay_that_ends_after_its_letter_was_taken_away_changes_nothing(scene: Stage, tmp_path: Path) -> None:
    until_there = tmp_path / "go"
    late = scene.ready(name="late", until=str(until_there))
    letter = with_letters(scene.url, lambda letters: letters.create("work", "t"))
    late.tell("replay", {"id": letter.id})
    late.hear("handling")
    assert until(lambda: with_letters(scene.url, lambda letters: letters.release_stale_replaying(0))) == 1
    other = scene.ready(name="other")
    other.tell("replay", {"id": letter.id, "resolved_by_id": 7})
    assert other.hear("report")[1]["replayed"] == 1
    until_there.touch()
    assert late.hear("report")[1]["lost"] == 1
    [found] = all_letters(scene.url)
    assert (found.status, found.resolved_by_id, found.retry_count) == ("resolved", 7, 2)
