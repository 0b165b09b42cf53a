"""Statements that fail at the n-th time: serialization failures, deadlocks, timeouts, raised by real servers.

Each leaves nothing behind and is tried again: every run ends once, nobody is taken for gone, and the record agrees with
what happened outside.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from holdfast.testing.rival import Rival
from holdfast.testing.statement_errors import StatementErrors
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

LEASE = 4.0

CODES = [
    pytest.param("postgres", "40001", id="postgres-40001-serialization"),
    pytest.param("postgres", "40P01", id="postgres-40P01-deadlock"),
    pytest.param("postgres", "57014", id="postgres-57014-broken-off"),
    pytest.param("mariadb", 1205, id="mariadb-1205-lock-timeout"),
    pytest.param("mariadb", 1213, id="mariadb-1213-deadlock"),
    pytest.param("mariadb", 1317, id="mariadb-1317-broken-off"),
]


@pytest.mark.parametrize(("kind", "code"), CODES)
def test_the_nth_statement_that_fails_loses_and_doubles_nothing(
    kind: str, code: str | int, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    workers = [scene.ready(colour, app={"lease": LEASE}) for colour in ("async", "sync")]
    errors = StatementErrors(scene)
    for n in [*range(1, 13), 16, 23, 31, 40]:
        times = 1 + n % 3
        errors.arm(code, at=n, times=times)
        for worker in workers:
            worker.tell("many", "journey", f"{n}-{worker.pid}-", 4)
        for worker in workers:
            assert worker.hear("results", f"{n}-{worker.pid}-")[2] == [6 * number for number in range(4)]
        until(lambda: errors.raised == times)  # noqa: B023 -- asked at once

    assert not [line for worker in workers for line in worker.heard("failed")]
    runs = scene.fetch("SELECT status, recovery_attempts, executions FROM {runs}")
    assert len(runs) == 16 * 2 * 4 * 3  # each journey has two children
    assert {tuple(run.values()) for run in runs} == {("SUCCESS", 0, 1)}
    scene.check_record()


@pytest.mark.parametrize(("kind", "code"), CODES)
def test_release_and_claim_survive_the_nth_statement_that_fails(
    kind: str, code: str | int, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    lease = {"lease": 1.0}
    survivor, victim = scene.ready("async", app=lease), scene.ready("sync", app=lease)
    errors = StatementErrors(scene)
    for n in (1, 3):
        prefix = f"{n}-{victim.pid}-"
        for number in range(5):
            victim.tell("start", "walk", f"{prefix}{number}", number)
        until(lambda: begun(scene, prefix) == 5)  # noqa: B023 -- asked at once
        errors.arm(code, at=n, times=3)
        victim.kill()
        for number in range(5):
            survivor.tell("run", "walk", f"{prefix}{number}", number)
        for number in range(5):
            assert survivor.hear("result", f"{prefix}{number}")[2] == 3 * number
        until(lambda: errors.raised == 3)
        victim = scene.ready("sync", app=lease)

    assert scene.all_ended()
    assert len(scene.statuses()) == 10
    assert scene.fetch("SELECT 1 AS one FROM {runs} WHERE executions > 1")
    scene.check_record()


def load(scene: Stage, workers: list[Worker], count: int, *, turn: int = 0) -> None:
    """Ask each worker for *count* runs of half a second and more; return when both have begun."""
    for worker in workers:
        worker.tell("many", "walk", f"{turn}-{worker.pid}-", count)
    until(lambda: all(begun(scene, f"{turn}-{worker.pid}-") > 5 for worker in workers))


def assert_all_ended_once(
    scene: Stage, workers: list[Worker], count: int, *, turn: int = 0, woken: bool = False
) -> None:
    for worker in workers:
        assert worker.hear("results", f"{turn}-{worker.pid}-")[2] == [3 * number for number in range(count)]
    assert not [line for worker in workers for line in worker.heard("failed")]
    assert scene.all_ended()
    assert len(scene.statuses()) == (turn + 1) * len(workers) * count
    scene.check_record(woken=woken)


def retried(workers: list[Worker], code: str) -> int:
    """Return how often the workers' logs say that the server asked to try again, with *code*."""
    logs = [Path(f"/proc/{worker.pid}/fd/2").read_text(errors="replace") for worker in workers]
    return sum(log.count(f"asks to try again ({code})") for log in logs)


def disturbed(
    scene: Stage, workers: list[Worker], code: str, disturb: Callable[[Rival, Callable[[], bool]], None]
) -> None:
    """Load *workers* beside a rival that disturbs them, until the server has asked one of them to try again.

    On a fast machine a load may be done before the rival has met with anybody: then there is another one.
    """
    for turn in range(10):
        load(scene, workers, 100, turn=turn)
        disturb(Rival(scene.url), lambda: retried(workers, code) >= 3)
        assert_all_ended_once(scene, workers, 100, turn=turn)
        if retried(workers, code):
            return
    pytest.fail(f"no worker was ever asked to try again ({code})")


@pytest.mark.parametrize(("kind", "code"), [("postgres", "40P01"), ("mariadb", "1213")])
def test_real_deadlocks_lose_and_double_nothing(kind: str, code: str, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    # PostgreSQL looks for a deadlock after a second, which is to be less than the engine's patience with a statement.
    workers = [scene.ready(colour, app={"lease": 6.0}) for colour in ("async", "sync")]
    disturbed(scene, workers, code, Rival.lock_in_opposite_order)


def test_real_serialization_failures_lose_and_double_nothing(stage: Callable[[str], Stage]) -> None:
    """In a database whose owner has made REPEATABLE READ the default."""
    scene = stage("postgres")
    name = urlsplit(scene.url).path.lstrip("/")
    scene.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    workers = [scene.ready(colour, app={"lease": 6.0}) for colour in ("async", "sync")]
    disturbed(scene, workers, "40001", Rival.change_what_others_wait_for)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_rows_that_are_held_for_two_leases_are_waited_for(kind: str, stage: Callable[[str], Stage]) -> None:
    """Longer than the engine's patience with a statement, and than the server's with a lock (1205 on MariaDB)."""
    lease = 1.5
    scene = stage(kind)
    workers = [scene.ready(colour, app={"lease": lease}) for colour in ("async", "sync")]
    load(scene, workers, 30)
    end = time.monotonic() + 2 * lease
    Rival(scene.url).hold_all(lambda: time.monotonic() >= end)

    assert_all_ended_once(scene, workers, 30, woken=True)


def begun(scene: Stage, prefix: str) -> int:
    return len({e.run_id for e in scene.ledger.all() if e.run_id.startswith(prefix) and e.what.startswith("a")})
