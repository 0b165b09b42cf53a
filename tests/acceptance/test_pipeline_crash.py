"""A process is killed at each place of the pipeline: what it acknowledged is there, and it can go on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.testing.ledger import Ledger

FreshDatabase = Callable[[str], str]
POINTS = sorted(name for name in faults.POINTS if name.startswith("pipeline."))

# Writes from tasks and from threads, and says each key on standard output the moment it is acknowledged.
CHILD = """
import asyncio, os, sys
from holdfast import faults
from holdfast.db import ConnectionManager, Pipeline
from holdfast.testing.ledger import Ledger

url, point, at = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def main():
    async with ConnectionManager(url) as manager:
        ledger = Ledger(manager.dialect)
        await ledger.create(manager)
        if point:
            faults.arm(point, at=at)
        async with Pipeline(manager) as pipeline:
            async def task(name):
                for number in range(25):
                    key = await pipeline.write(ledger, (f"{name}-{number}", "note", number))
                    os.write(1, (key + "\\n").encode())
            def thread(name):
                for number in range(25):
                    key = pipeline.write_blocking(ledger, (f"{name}-{number}", "note", number))
                    os.write(1, (key + "\\n").encode())
            await asyncio.gather(*(task(f"task-{n}") for n in range(4)),
                                 *(asyncio.to_thread(thread, f"thread-{n}") for n in range(2)))

asyncio.run(main())
"""


def run_child(url: str, point: str, at: int) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", CHILD, url, point, str(at)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert point or done.returncode == 0, done.stderr.decode()
    return done.returncode, done.stdout.decode().split()


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
    kind: str, point: str, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)

    code, acknowledged = run_child(url, point, at=7)

    assert code == -signal.SIGKILL
    assert acknowledged
    assert set(acknowledged) <= entries(url).keys()

    code, again = run_child(url, "", at=0)

    assert len(again) == 150
    expected = {f"task-{n}-{i}": i for n in range(4) for i in range(25)}
    expected |= {f"thread-{n}-{i}": i for n in range(2) for i in range(25)}
    assert entries(url) == expected


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_nothing_is_written_by_a_process_killed_before_its_first_commit(
    kind: str, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    code, acknowledged = run_child(url, "pipeline.taken", at=1)
    assert code == -signal.SIGKILL
    assert acknowledged == []
    assert entries(url) == {}
