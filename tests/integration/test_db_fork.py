"""A forked child has no connection of its parent's: it is told so, and the parent's goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

FreshDatabase = Callable[[str], str]

FORKED = """
import asyncio, os, sys, threading
from holdfast.db import ConnectionManager
from holdfast.db import Pipeline
from holdfast.db import SyncConnectionManager
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


BESIDE = """
import os, sqlite3, sys, threading
from holdfast.db import SyncConnectionManager
from holdfast.errors import MisuseError

path = sys.argv[1]

def write(manager, key):
    with manager.transaction() as transaction:
        transaction.execute("INSERT INTO t VALUES (?)", key)
    manager.execute("INSERT INTO t VALUES (?)", key + " alone")

def in_child(call):
    child = os.fork()
    if child == 0:
        threading.Timer(20, os._exit, [9]).start()
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return child

def beside_a_busy_parent(number):
    with SyncConnectionManager(path) as own:
        write(own, f"child {number}")

def after_its_parent():
    with SyncConnectionManager(path) as own:
        write(own, "before")
        os.write(ready[1], b"x")
        os.read(closed[0], 1)
        write(own, "after")
        os.write(ready[1], b"x")
        os.read(closed[0], 1)

def refused():
    try:
        SyncConnectionManager(path).initialize()
    except MisuseError as error:
        assert "forked while a transaction was open" in str(error), error
    else:
        raise AssertionError("nothing was raised")

manager = SyncConnectionManager(path)
manager.initialize()
manager.execute("CREATE TABLE t (k TEXT)")

stop = threading.Event()
def busy():
    while not stop.is_set():
        write(manager, "parent")
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
for number in range(8):
    assert os.waitpid(in_child(lambda: beside_a_busy_parent(number)), 0)[1] == 0, number
stop.set()
for thread in threads:
    thread.join()

with manager.transaction() as transaction:
    transaction.execute("INSERT INTO t VALUES ('in the middle')")
    assert os.waitpid(in_child(refused), 0)[1] == 0

ready, closed = os.pipe(), os.pipe()
child = in_child(after_its_parent)
os.read(ready[0], 1)
manager.close()
os.write(closed[1], b"x")
os.read(ready[0], 1)
keys = {key for key, in sqlite3.connect(path).execute("SELECT k FROM t")}
print(sorted(keys - {"parent", "parent alone"}))
os.write(closed[1], b"x")
assert os.waitpid(child, 0)[1] == 0
"""


def test_forked_child_has_a_sqlite_file_beside_its_parent_and_after_it(fresh_database: FreshDatabase) -> None:
    path = fresh_database("sqlite").removeprefix("sqlite:///")
    done = subprocess.run([sys.executable, "-c", BESIDE, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    children = [f"child {number}{rest}" for number in range(8) for rest in ("", " alone")]
    kept = ["after", "after alone", "before", "before alone", *children, "in the middle"]
    assert done.stdout.splitlines() == [str(kept)]
