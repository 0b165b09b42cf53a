"""Breakers and protected calls in a forked child: none of them waits for a thread or a loop that is not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

FreshDatabase = Callable[[str], str]

IN_CHILD = """
import os, sys, time

def in_child(check):
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def outcome(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__
"""

SHARED = """
from holdfast.resilience import CircuitBreaker
from holdfast.stores import SQLCircuitBreakerStateRepository

told = []
with SQLCircuitBreakerStateRepository(sys.argv[1]) as repository:
    def made(name):
        return CircuitBreaker(name, repository=repository, failures=2, listeners=[lambda event: told.append(event)])

    used, blocked, unused = made("used"), made("blocked"), made("unused")
    repository.atomic_force_open("blocked", "maintenance")
    assert outcome(used.call, str, 1) == "1"
    assert outcome(blocked.call, str, 1) == "CircuitOpen"
    told.clear()

    def check():
        assert outcome(blocked.call, str, 1) == "CircuitOpen", "the operator's word was known"
        for breaker in (used, unused):
            assert outcome(breaker.call, str, 1) == "1"
            assert [outcome(breaker.call, int, "x") for _ in range(3)] == ["ValueError", "ValueError", "CircuitOpen"]
        assert all(breaker.storage_away for breaker in (used, blocked, unused))
        away = [event for event in told if event.kind == "storage_away"]
        assert sorted(event.service_name for event in away) == ["blocked", "unused", "used"]
        assert all("before a fork" in str(event.error) for event in away)

    in_child(check)
    repository.atomic_force_open("used", "maintenance")
    assert outcome(used.call, str, 1) == "CircuitOpen"
    assert not used.storage_away
print("well")
"""

APPLICATION = """
from holdfast import Holdfast

app, told = Holdfast(sys.argv[1]), []
app.breaker("api").listen(lambda event: told.append(event.kind))
with app:
    assert outcome(app.breaker("api").call, str, 1) == "1"

    def check():
        assert outcome(app.breaker("api").call, str, 1) == "1"
        with app:
            assert outcome(app.breaker("api").call, str, 1) == "1"
            assert not app.breaker("api").storage_away
            assert told == ["storage_away", "storage_back"], told
            app.breakers.atomic_force_open("api", "maintenance")
            assert outcome(app.breaker("api").call, str, 1) == "CircuitOpen"

    in_child(check)
print("well")
"""

LIMITED = """
from holdfast import Holdfast

app = Holdfast(sys.argv[1])

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "done"

left_behind = app.protect("left", timeout=600, breaker=False)(lambda: os.getpid())
interrupted = app.protect("interrupted", timeout=1, interrupt=True, breaker=False)(spin)

left_behind()
outcome(interrupted, 0)  # the watch is there, and sleeps until the time of this call would have been over

def check():
    assert left_behind() == os.getpid()
    assert outcome(interrupted, 600) == "CallTimeout"

in_child(check)

@app.protect("forks", timeout=600, interrupt=True, breaker=False)
def forks():
    child = os.fork()
    if child == 0:
        assert outcome(interrupted, 600) == "CallTimeout"
    return child

child = forks()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("well")
"""


@pytest.mark.parametrize("program", [SHARED, APPLICATION, LIMITED], ids=["shared", "application", "limited"])
def test_forked_child_decides_by_itself_and_says_so(program: str, fresh_database: FreshDatabase) -> None:
    command = [sys.executable, "-c", IN_CHILD + program, fresh_database("sqlite")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
