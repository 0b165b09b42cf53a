"""A process is killed at each place of the pipeline: what it acknowledged is there, and it can go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.testing.ledger import Ledger
from holdfast.testing.workers import PATIENCE

if TYPE_CHECKING:
    from holdfast.testing.nursery import Nursery

FreshDatabase = Callable[[str], str]
RunChild = Callable[[str, str, int], tuple[int, list[str]]]
POINTS = sorted(name for name in faults.POINTS if name.startswith("pipeline."))

PROGRAM = Path(__file__).parent / "programs" / "pipeline_writer.py"


@pytest.fixture
def run_child(nursery: Nursery) -> RunChild:
    """Call with a URL and where to die; return the exit code and what was acknowledged."""

    def run(url: str, point: str, at: int) -> tuple[int, list[str]]:
        done = nursery.run(PROGRAM, url, point, str(at), timeout=PATIENCE)
        assert point or done.returncode == 0, done.stderr
        return done.returncode, done.stdout.split()

    return run


def entries(url: str) -> dict[str, int]:
    async def read() -> dict[str, int]:
        async with ConnectionManager(url) as manager:
            rows = await Ledger(manager.dialect).entries(manager)
            assert len({row["entry_key"] for row in rows}) == len(rows)
            return {row["entry_key"]: row["amount"] for row in rows}

    return asyncio.run(read())


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
@pytest.mark.parametrize("point", POINTS)
def test_everything_acknowledged_before_a_kill_is_there_after_it(
    kind: str, point: str, fresh_database: FreshDatabase, run_child: RunChild
) -> None:
    url = fresh_database(kind)

    code, acknowledged = run_child(url, point, 7)

    assert code == -signal.SIGKILL
    assert acknowledged
    assert set(acknowledged) <= entries(url).keys()

    code, again = run_child(url, "", 0)

    assert len(again) == 150
    expected = {f"task-{n}-{i}": i for n in range(4) for i in range(25)}
    expected |= {f"thread-{n}-{i}": i for n in range(2) for i in range(25)}
    assert entries(url) == expected


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_nothing_is_written_by_a_process_killed_before_its_first_commit(
    kind: str, fresh_database: FreshDatabase, run_child: RunChild
) -> None:
    url = fresh_database(kind)
    code, acknowledged = run_child(url, "pipeline.taken", 1)
    assert code == -signal.SIGKILL
    assert acknowledged == []
    assert entries(url) == {}
