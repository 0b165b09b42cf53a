"""A process of the tests of flow checkpoints: walks a flow, writes without end, or claims, and may die while it does.

It is given its settings as JSON: the URL of the checkpoints, what to do, and where to die.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from holdfast import faults
from holdfast.errors import StaleCheckpoint, StorageError
from holdfast.stores import CheckpointBackend, FlowCheckpoint, ask, from_url, resume, run_steps
from holdfast.testing.program import say

SETTINGS = json.loads(sys.argv[1])


def effect(name: str) -> None:
    """Do something to the world outside that cannot be undone, and be seen to have done it."""
    descriptor = os.open(Path(SETTINGS["effects"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{name}\n".encode())
    os.close(descriptor)


def first(value: int) -> int:
    effect("first")
    return value + 1


def second(value: int) -> int:
    answer: int = ask("How many?")
    effect("second")
    return value * answer


def third(value: int) -> str:
    effect("third")
    return f"{value}!"


STEPS = [first, second, third]


def walk(backend: CheckpointBackend) -> None:
    """Walk a whole flow, answering its question."""
    waiting = run_steps("flow", STEPS, backend, input=1)
    last = resume(waiting.id, STEPS, backend, answers={"second": 10})
    say("done", last.get_node_output("third"))


def write(backend: CheckpointBackend) -> None:
    """Write one checkpoint again and again, and make and delete others, until killed."""
    steady = backend.load("steady") or FlowCheckpoint("flow", "steady", id="steady")
    number = 0
    say("ready")
    while True:
        number += 1
        steady.metadata = {"one": number, "filling": "x" * (number % 50 * 400), "two": number}
        try:
            backend.save(steady)
        except StaleCheckpoint:  # another writer was before this one
            steady = backend.load("steady") or steady
        passing = FlowCheckpoint("flow", f"passing {os.getpid()} {number}", metadata={"one": number, "two": number})
        backend.save(passing)
        if number % 2:
            backend.delete(passing.id)


async def race(backend: CheckpointBackend) -> None:
    """Claim one checkpoint after the other, with many tasks at once; say which were won here."""
    say("ready")
    sys.stdin.readline()
    won = []
    for number in range(SETTINGS["rounds"]):
        claims = await asyncio.gather(*(backend.aclaim(f"race-{number}", lease=600) for _ in range(25)))
        won += [number] * sum(claim is not None for claim in claims)
    say("won", won)
    await backend.aclose()


def full(backend: CheckpointBackend) -> None:
    """Write while files may not grow, as on a full disk; say what came of it, and what is there afterwards."""
    made = FlowCheckpoint("flow", "run", id="1", metadata={"v": "old"})
    backend.save(made)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    made.metadata = {"v": "x" * 2_000_000}
    try:
        backend.save(made)
        say("refused", None)
    except StorageError as error:
        say("refused", str(error))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    there = backend.load("1")
    say("there", there and there.metadata["v"], [each.id for each in backend.list_by_flow("flow")])
    backend.save(made)
    there = backend.load("1")
    say("again", there and len(there.metadata["v"]))


def main() -> None:
    backend = from_url(SETTINGS["url"])
    for name, at in SETTINGS.get("faults", []):
        faults.arm(name, at=at)
    if SETTINGS["verb"] == "race":
        asyncio.run(race(backend))
    else:
        {"walk": walk, "write": write, "full": full}[SETTINGS["verb"]](backend)


if __name__ == "__main__":
    main()
