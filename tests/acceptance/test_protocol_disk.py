"""A full disk under load: runs pause, and go on when there is room again. Nothing that was acknowledged is lost.

It is the same to the engine as a database that is away: nobody is told an error but who set a deadline of their own,
no run ends because of it, and no executor is taken for gone. SQLite is made to run out of pages, and out of file size
(the operating system refuses the write); the servers say in a trigger what they say when their disk is full. Disks that
are really full are in ``tests/soak``, since it takes privileges to have a small one.
"""

from __future__ import annotations

import itertools
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from holdfast.testing.statement_errors import FOR_EVER, StatementErrors
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

PROGRAM = Path(__file__).parent / "programs" / "marcher.py"
LEASE = 1.5
PACES = 40
PACE = 0.05
TOTAL = sum(range(PACES))


class Disk(Protocol):
    """Something that can be full."""

    def __init__(self, scene: Stage, mark: Path) -> None: ...

    def fill(self, worker: Worker) -> None:
        """Leave no room."""

    def free(self, worker: Worker) -> None:
        """Make room again."""


class Pages:
    """SQLite may take no new page for its file: SQLITE_FULL at a statement."""

    def __init__(self, scene: Stage, mark: Path) -> None:
        self._mark = mark

    def fill(self, worker: Worker) -> None:
        self._mark.touch()

    def free(self, worker: Worker) -> None:
        self._mark.unlink()


class FileSize:
    """The operating system lets the write-ahead log grow no more: a write fails, at a statement or at the commit."""

    def __init__(self, scene: Stage, mark: Path) -> None:
        self._log = Path(scene.url.removeprefix("sqlite:///") + "-wal")

    def fill(self, worker: Worker) -> None:
        self._limit(worker, self._log.stat().st_size)

    def free(self, worker: Worker) -> None:
        self._limit(worker, resource.RLIM_INFINITY)

    def _limit(self, worker: Worker, most: int) -> None:
        _, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (most, hard))


class Server:
    """A server that answers every write with the code it has for a full disk."""

    code: str | int

    def __init__(self, scene: Stage, mark: Path) -> None:
        self._errors = StatementErrors(scene)

    def fill(self, worker: Worker) -> None:
        self._errors.arm(self.code, times=FOR_EVER)

    def free(self, worker: Worker) -> None:
        self._errors.disarm()
        assert self._errors.raised > 0


class Postgres(Server):
    code = "53100"


class MariaDB(Server):
    code = 1021


class MariaDBTable(Server):
    code = 1114


DISKS: dict[str, tuple[str, type[Disk]]] = {
    "sqlite-pages": ("sqlite", Pages),
    "sqlite-file-size": ("sqlite", FileSize),
    "postgres-53100": ("postgres", Postgres),
    "mariadb-1021": ("mariadb", MariaDB),
    "mariadb-1114": ("mariadb", MariaDBTable),
}


@pytest.mark.parametrize(
    ("way", "colour"),
    [
        *itertools.product(["sqlite-pages", "sqlite-file-size"], ["async", "sync"]),
        ("postgres-53100", "async"),
        ("mariadb-1021", "sync"),
        ("mariadb-1114", "async"),
    ],
)
def test_a_full_disk_pauses_runs_and_loses_nothing(
    way: str, colour: str, stage: Callable[[str], Stage], tmp_path: Path
) -> None:
    kind, disk_of = DISKS[way]
    scene, mark = stage(kind), tmp_path / "full"
    worker = scene.ready(colour, app={"lease": LEASE}, full_while=str(mark))
    disk = disk_of(scene, mark)
    early, running = [f"early-{n}" for n in range(5)], [f"running-{n}" for n in range(10)]
    for name in early:
        worker.tell("run", "march", name, 3, 0.0)
    assert [worker.hear("result", name)[2] for name in early] == [3] * 5
    for name in running:
        worker.tell("within", 1.2 * LEASE + 1.0, "march", name, PACES, PACE)
    for name in running:
        worker.hear("acknowledged", name)
    until(lambda: len(scene.ledger.all()) > 60)

    disk.fill(worker)
    worker.tell("run", "march", "at once", 3, 0.0)
    scene.until_quiet(1.2 * LEASE)
    worker.tell("run", "march", "meanwhile", 3, 0.0)
    # Who had a deadline hears that it is over, and nobody hears anything else.
    for name in running:
        assert worker.hear("result", name)[2] == "TimeoutError"
    for name in ("at once", "meanwhile"):  # the last free page may hold one of them
        assert worker.heard("result", name) in ([], [["result", name, 3]])
    assert not worker.heard("failed")
    assert set(scene.statuses().values()) == {"SUCCESS", "PENDING"}
    assert worker.alive
    disk.free(worker)

    assert [worker.hear("result", name)[2] for name in ("at once", "meanwhile")] == [3, 3]
    until(scene.all_ended)
    runs = {row["workflow_uuid"]: row for row in scene.fetch("SELECT * FROM {runs}")}
    assert set(runs) == {*early, *running, "at once", "meanwhile"}
    assert {runs[name]["output"] for name in running} == {str(TOTAL)}
    assert {(run["recovery_attempts"], run["executions"]) for run in runs.values()} == {(0, 1)}
    scene.check_record()
