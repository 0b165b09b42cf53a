"""Statements that fail at the n-th time: serialization failures, deadlocks, lock timeouts, raised by real servers.

Each leaves nothing behind and is tried again: every run ends once, nobody is taken for gone, and the record agrees with
what happened outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.statement_errors import StatementErrors
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

LEASE = 4.0

CODES = [
    pytest.param("postgres", "40001", id="postgres-40001-serialization"),
    pytest.param("postgres", "40P01", id="postgres-40P01-deadlock"),
    pytest.param("mariadb", 1205, id="mariadb-1205-lock-timeout"),
    pytest.param("mariadb", 1213, id="mariadb-1213-deadlock"),
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
    for n in (1, 2, 3, 5):
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
    assert len(scene.statuses()) == 20
    assert scene.fetch("SELECT 1 AS one FROM {runs} WHERE executions > 1")
    scene.check_record()


def begun(scene: Stage, prefix: str) -> int:
    return len({e.run_id for e in scene.ledger.all() if e.run_id.startswith(prefix) and e.what.startswith("a")})
