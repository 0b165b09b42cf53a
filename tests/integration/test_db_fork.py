"""A forked child has no connection of its parent's: it is told so, and the parent's goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

FreshDatabase = Callable[[str], str]

FORKED = """
import asyncio, os, sys, threading
from holdfast.db import ConnectionManager, Pipeline, SyncConnectionManager
from holdfast.testing.ledger import Ledger

url = sys.argv[1]

def refused(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, "|", error, flush=True)
    else:
        print("nothing was raised", flush=True)

def in_child(call):
    child = os.fork()
    if child == 0:
        threading.Timer(20, os._exit, [9]).start()
        try:
            call()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def blocking():
    with SyncConnectionManager(url) as manager:
        def child():
            refused(lambda: manager.fetch("SELECT 1 AS one"))
            manager.close()
        in_child(child)
        assert manager.fetch("SELECT 1 AS one") == [{"one": 1}]

async def on_a_loop():
    async with ConnectionManager(url, pool_size=1) as manager:
        ledger = Ledger(manager.dialect)
        await ledger.create(manager)
        async with Pipeline(manager) as pipeline:
            def child():
                threading.Thread(target=other).start()
                for thread in threading.enumerate():
                    if thread is not threading.current_thread() and not isinstance(thread, threading.Timer):
                        thread.join()
            def other():
                refused(lambda: asyncio.run(use()))
                refused(lambda: pipeline.write_blocking(ledger, ("child", "", 0)))
                asyncio.run(manager.close())
            async def use():
                await manager.fetch("SELECT 1 AS one")
            in_child(child)
            assert await pipeline.write(ledger, ("parent", "", 0)) == "parent"
            assert await manager.fetch("SELECT entry_key FROM holdfast_ledger") == [{"entry_key": "parent"}]

blocking()
asyncio.run(on_a_loop())
print("the parent is well")
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_forked_child_is_refused_and_leaves_its_parent_alone(kind: str, fresh_database: FreshDatabase) -> None:
    command = [sys.executable, "-c", FORKED, fresh_database(kind)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third, last = done.stdout.splitlines()
    assert first.startswith("WrongLoop | ")
    assert "fork" in first
    assert second.startswith("WrongLoop | ")
    assert "fork" in second
    assert third.startswith("MisuseError | ")
    assert "fork" in third
    assert last == "the parent is well"
