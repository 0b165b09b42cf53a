"""A forked child launches the application of its parent anew, for itself, and leaves its parent's alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

FreshDatabase = Callable[[str], str]

BLOCKING = """
import multiprocessing, os, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1])
other = sys.argv[2]

@app.step(breaker="dependency")
def add(number):
    return number + 1

@app.transaction(database=other)
def elsewhere(transaction, number):
    return transaction.fetchone("SELECT 1 AS one")["one"] + number

@app.workflow
def adding(number):
    return elsewhere(add(number))

def in_child():
    try:
        adding(1)
    except Exception as error:
        print(type(error).__name__, "|", error, flush=True)
    app.close()
    with app:
        assert adding(2) == 4
        executors = {(each.pid, each.executor_id) for each in app.list_executors()}
        assert (os.getpid(), "local") in executors and (os.getppid(), "local") in executors, executors
    print("the child is well", flush=True)

with app:
    assert adding(1) == 3
    started = multiprocessing.get_context("fork").Process(target=in_child)
    started.start()
    started.join()
    assert started.exitcode == 0
    assert adding(3) == 5
    child = os.fork()
    if child == 0:
        in_child()
        sys.exit(0)  # with all that an interpreter frees at its end
    assert os.waitpid(child, 0)[1] == 0
    for number in range(20):
        assert adding(number) == number + 2
print("the parent is well")
"""

AWAITED = """
import asyncio, multiprocessing, sys
from holdfast import AsyncHoldfast

app = AsyncHoldfast(sys.argv[1])

@app.step
async def add(number):
    return number + 1

@app.workflow
async def adding(number):
    return await add(number) + 1

async def of_child():
    try:
        await adding(1)
    except Exception as error:
        print(type(error).__name__, "|", error, flush=True)
    async with app:
        assert await adding(2) == 4
    print("the child is well", flush=True)

def in_child():
    asyncio.run(of_child())

async def main():
    async with app:
        assert await adding(1) == 3
        for _ in range(2):
            child = multiprocessing.get_context("fork").Process(target=in_child)
            child.start()
            await asyncio.to_thread(child.join)
            assert child.exitcode == 0
            assert await adding(3) == 5
    print("the parent is well")

asyncio.run(main())
"""

IN_A_RUN = """
import os, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1])

@app.step
def note(text):
    return text

@app.workflow
def forking(where):
    if where == "step":
        return app.run_step(fork, "other")
    fork("mine")
    return note("the parent's")

@app.workflow
def other():
    return note("other")

def fork(what):
    child = os.fork()
    if child == 0:
        try:
            with app:
                print(note("the child's") if what == "mine" else other(), flush=True)
        except Exception as error:
            print(type(error).__name__, "|", error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    return what

with app:
    print(forking.options(workflow_id="mine")("workflow"))
    print([(each.identity, each.output) for each in app.list_steps("mine")])
    print(forking("step"))
    [state] = app.list_workflows(name="other")
    print(state.status.value, state.parent_workflow_id)
"""

SAID = [
    "MisuseError | The application was launched before a fork, by the parent: launch() it in this process.",
    "the child is well",
]


@pytest.mark.parametrize("program", [BLOCKING, AWAITED], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_forked_child_launches_anew_and_its_parent_goes_on(
    kind: str, program: str, fresh_database: FreshDatabase
) -> None:
    command = [sys.executable, "-c", program, fresh_database(kind), fresh_database(kind)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*SAID, *SAID, "the parent is well"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_i1_forked_child_writes_nothing_for_the_run_its_code_is_in(kind: str, fresh_database: FreshDatabase) -> None:
    command = [sys.executable, "-c", IN_A_RUN, fresh_database(kind)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    refused, *rest = done.stdout.splitlines()
    assert refused.startswith("MisuseError | Run mine goes on in the process that this one was forked from, and")
    assert rest == [
        "the parent's",
        "[('0', \"the parent's\")]",
        "other",
        "other",
        "SUCCESS None",
    ]
