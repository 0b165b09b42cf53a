"""A server whose disk is really full, under load: runs pause, and go on when there is room. Nothing is lost.

The whole server is on a small disk. It may answer errors, stand still, or end (PostgreSQL does, when it can write no
more of its log); then it is started again when there is room, as an operator would.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import DatabaseError
from holdfast.testing.servers import KINDS
from holdfast.testing.small_disk import SmallDisk
from holdfast.testing.stage import Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from holdfast.testing.nursery import Nursery
    from holdfast.testing.servers import Server

pytestmark = pytest.mark.soak

PROGRAM = Path(__file__).parents[1] / "acceptance" / "programs" / "marcher.py"
LEASE = 3.0
PACES = 400
MEGABYTES = {"postgres": 160, "mariadb": 400}


def until_ended(server: Server, scene: Stage) -> None:
    """Make PostgreSQL begin new files of its log until it ends, since it cannot."""

    def ended() -> bool:
        with suppress(DatabaseError):
            scene.execute("SELECT pg_switch_wal()")
            scene.execute("CHECKPOINT")
        return not server.running

    until(ended)


@pytest.mark.parametrize("colour", ["async", "sync"])
@pytest.mark.parametrize(("kind", "ends"), [("postgres", False), ("postgres", True), ("mariadb", False)])
def test_a_disk_that_is_really_full_pauses_runs_and_loses_nothing(
    kind: str, ends: bool, colour: str, tmp_path: Path, nursery: Nursery
) -> None:
    with ExitStack() as afterwards:
        disk = afterwards.enter_context(SmallDisk(MEGABYTES[kind]))
        settings = {"restart_after_crash": "off"} if ends else None
        server = afterwards.enter_context(KINDS[kind](base=disk.folder, settings=settings))
        scene = Stage(PROGRAM, server.url, tmp_path / "effects", afterwards, nursery)
        worker = scene.ready(colour, app={"lease": LEASE})
        runs = [f"run-{number}" for number in range(20)]
        for run_id in runs:
            worker.tell("run", "march", run_id, PACES, 0.02)
        for run_id in runs:
            worker.hear("acknowledged", run_id)
        until(lambda: len(scene.ledger.all()) > 10 * len(runs))

        disk.fill()
        scene.until_quiet(2 * LEASE)
        if ends:
            until_ended(server, scene)
            scene.until_quiet(2 * LEASE)
        assert not worker.heard("result")
        assert not worker.heard("failed")
        assert worker.alive
        disk.free()
        if not server.running:
            server.start()

        assert [worker.hear("result", run_id, patience=300)[2] for run_id in runs] == [sum(range(PACES))] * len(runs)
        rows = scene.fetch("SELECT workflow_uuid, recovery_attempts, executions FROM {runs}")
        assert {row["workflow_uuid"] for row in rows} == set(runs)
        assert {(row["recovery_attempts"], row["executions"]) for row in rows} == {(0, 1)}
        scene.check_record()
