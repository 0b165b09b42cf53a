"""Applications for ``holdfast worker``: one of each colour, with work that ends when a file appears, or never."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

from holdfast import AsyncHoldfast, Holdfast
from holdfast.testing.workers import PATIENCE

_LOOK_AGAIN = 0.02

app = Holdfast(executor_id="porter", application_version="v1", lease=float(os.environ.get("LEASE", "10")))
aio = AsyncHoldfast(executor_id="steward", application_version="v1")


@app.step
def until_there(path: str) -> str:
    """Wait for a file on a thread, as a slow call would; another one says that this has begun."""
    Path(f"{path}.begun").touch()
    while not Path(path).exists():
        time.sleep(_LOOK_AGAIN)
    return path


@app.workflow(name="held")
def held(path: str) -> str:
    """Do something that ends when a file appears."""
    return until_there(path)


@app.workflow(name="double")
def double(number: int) -> int:
    """Do something quick."""
    return number * 2


@app.workflow(name="piped")
def piped(program: str) -> str:
    """Have a program read all of its standard input, and return what it prints."""
    return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE).stdout


def block(path: str) -> None:
    """Begin, and never end: a call that nobody can interrupt."""
    Path(path).touch()
    while True:
        time.sleep(_LOOK_AGAIN)


@aio.workflow(name="stuck_step")
async def stuck_step(path: str) -> None:
    """Wait for a step that does not end, on a thread of the loop's own: the loop will wait for it."""
    await aio.run_step(asyncio.to_thread, block, path)


@aio.workflow(name="blocked_loop")
async def blocked_loop(path: str) -> None:
    """Block the event loop: a mistake."""
    block(path)


@aio.workflow(name="idle")
async def idle(path: str) -> None:
    """Begin, and wait for nothing."""
    await aio.run_step(Path(f"{path}.begun").touch)
    await asyncio.Event().wait()
