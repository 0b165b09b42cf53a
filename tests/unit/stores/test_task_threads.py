"""The threads of plain handlers: none waits for another, and no process waits for them at its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from holdfast.stores.tasks.threads import HandlerThreads

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60.0

STUCK = """
import asyncio, sys, threading
from holdfast.stores import StoreFactory, TaskWorker

async def main():
    async with StoreFactory(sys.argv[1]) as factory:
        tasks = await factory.create_task_queue()
        await tasks.enqueue("x", "stuck")

        def handler(task):
            worker.stop(now=True)
            threading.Event().wait()

        worker = TaskWorker(tasks, {"stuck": handler})
        await worker.run()
        print((await tasks.get_stats())["processing"])

asyncio.run(main())
"""


def test_process_ends_though_a_handler_does_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUCK, str(tmp_path / "tasks.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stdout == "1\n"


def test_call_goes_on_beside_one_that_does_not_end() -> None:
    threads, gate = HandlerThreads(), threading.Event()
    stuck = threads.submit(gate.wait, PATIENCE)
    first = threads.submit(threading.get_ident).result(PATIENCE)
    gate.set()
    assert stuck.result(PATIENCE)
    assert isinstance(first, int)
    threads.shutdown()


def test_error_is_told_and_threads_end_with_their_worker() -> None:
    threads, used = HandlerThreads(), set[threading.Thread]()
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 / 0).result(PATIENCE)
        used.add(threads.submit(threading.current_thread).result(PATIENCE))
    assert all(thread.daemon for thread in used)
    threads.shutdown()
    for thread in used:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="has ended"):
        threads.submit(threading.get_ident)
