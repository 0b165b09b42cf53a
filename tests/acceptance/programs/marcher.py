"""A worker for tests in which a database fails or many processes follow one another: long runs, in either colour.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import HoldfastError
from holdfast.testing.effects import Effects
from holdfast.testing.program import obey, obey_on_loop, say
from holdfast.workflows.operations.place import StepPlace, here

SETTINGS = json.loads(sys.argv[1])
LEDGER = Effects(SETTINGS["ledger"])
CAP = int(SETTINGS.get("cap", 100))


def note(what: str) -> None:
    """Have an effect outside of the engine, on behalf of the run this code belongs to."""
    place = here.get()
    assert place is not None
    step = f"@{place.identity}" if isinstance(place, StepPlace) else ""
    LEDGER.append(place.run.id, what + step, place.run.token)


def is_held(number: int) -> bool:
    """Whether runs are to go no further than to the pace before this one: as long as a test keeps a file there."""
    return "held_from" in SETTINGS and number >= SETTINGS["held_from"] and Path(SETTINGS["held_while"]).exists()


def define_async(app: AsyncHoldfast) -> dict[str, Any]:
    @app.step(name="pace")
    async def pace(number: int, seconds: float) -> int:
        while is_held(number):  # noqa: ASYNC110 -- a file, which nobody announces
            await asyncio.sleep(0.02)
        note(f"pace {number}")
        await asyncio.sleep(seconds)
        return number

    @app.workflow(name="march")
    async def march(paces: int, seconds: float) -> int:
        note("begin")
        return sum([await pace(number, seconds) for number in range(paces)])

    @app.workflow(name="rest", max_recovery_attempts=CAP)
    async def rest(times: int, seconds: float) -> int:
        note("begin")
        for _ in range(times):
            await app.sleep(seconds)
        return times

    @app.workflow(name="poison", max_recovery_attempts=CAP)
    async def poison() -> None:
        note("begin")
        os.kill(os.getpid(), signal.SIGKILL)

    return locals()


def define_sync(app: Holdfast) -> dict[str, Any]:
    @app.step(name="pace")
    def pace(number: int, seconds: float) -> int:
        while is_held(number):
            time.sleep(0.02)
        note(f"pace {number}")
        time.sleep(seconds)
        return number

    @app.workflow(name="march")
    def march(paces: int, seconds: float) -> int:
        note("begin")
        return sum([pace(number, seconds) for number in range(paces)])

    @app.workflow(name="rest", max_recovery_attempts=CAP)
    def rest(times: int, seconds: float) -> int:
        note("begin")
        for _ in range(times):
            app.sleep(seconds)
        return times

    @app.workflow(name="poison", max_recovery_attempts=CAP)
    def poison() -> None:
        note("begin")
        os.kill(os.getpid(), signal.SIGKILL)

    return locals()


class SmallFile(sqlite3.Connection):
    """A connection whose database may not grow while a test keeps a file in its way: SQLite says that it is full."""

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        if not self.in_transaction:
            full = Path(SETTINGS["full_while"]).exists()
            super().execute(f"PRAGMA max_page_count = {1 if full else 1 << 30}").fetchall()
        return super().execute(sql, *rest)


def make_room_scarce() -> None:
    plain = sqlite3.connect
    sqlite3.connect = lambda *args, **named: plain(*args, **named, factory=SmallFile)  # type: ignore[assignment]


def options() -> dict[str, Any]:
    given: dict[str, Any] = {"lease": 1.0, "application_version": "tested"} | SETTINGS.get("app", {})
    return given


class SyncSide:
    """Carries commands out with ``Holdfast``."""

    def __init__(self) -> None:
        self.app = Holdfast(SETTINGS["url"], **options())
        self.workflows = define_sync(self.app)

    def main(self) -> None:
        self.app.launch()
        say("ready")
        obey(self.do)

    def do(self, verb: str, *args: Any) -> None:
        try:
            getattr(self, verb)(*args)
        except HoldfastError as error:
            say("failed", verb, *args, type(error).__name__, str(error))

    def start(self, name: str, run_id: str, *args: Any) -> None:
        self.workflows[name].options(workflow_id=run_id).start(*args)
        say("started", run_id)

    def run(self, name: str, run_id: str, *args: Any) -> None:
        self.within(None, name, run_id, *args)

    def within(self, deadline: float | None, name: str, run_id: str, *args: Any) -> None:
        try:
            handle = self.workflows[name].options(workflow_id=run_id).start(*args)
            say("acknowledged", run_id)
            value = handle.result(timeout=deadline)
        except (HoldfastError, TimeoutError) as error:
            say("result", run_id, type(error).__name__, str(error))
        else:
            say("result", run_id, value)

    def close(self) -> None:
        self.app.close()
        say("closed")
        os._exit(0)


class AsyncSide:
    """Carries commands out with ``AsyncHoldfast``."""

    def __init__(self) -> None:
        self.app = AsyncHoldfast(SETTINGS["url"], **options())
        self.workflows = define_async(self.app)

    def main(self) -> None:
        asyncio.run(self.serve())

    async def serve(self) -> None:
        await self.app.launch()
        say("ready")
        await obey_on_loop(self.do)

    async def do(self, verb: str, *args: Any) -> None:
        try:
            await getattr(self, verb)(*args)
        except HoldfastError as error:
            say("failed", verb, *args, type(error).__name__, str(error))

    async def start(self, name: str, run_id: str, *args: Any) -> None:
        await self.workflows[name].options(workflow_id=run_id).start(*args)
        say("started", run_id)

    async def run(self, name: str, run_id: str, *args: Any) -> None:
        await self.within(None, name, run_id, *args)

    async def within(self, deadline: float | None, name: str, run_id: str, *args: Any) -> None:
        try:
            handle = await self.workflows[name].options(workflow_id=run_id).start(*args)
            say("acknowledged", run_id)
            value = await handle.result(timeout=deadline)
        except (HoldfastError, TimeoutError) as error:
            say("result", run_id, type(error).__name__, str(error))
        else:
            say("result", run_id, value)

    async def close(self) -> None:
        await self.app.close()
        say("closed")
        os._exit(0)


if __name__ == "__main__":
    if "full_while" in SETTINGS:
        make_room_scarce()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    (SyncSide() if SETTINGS["colour"] == "sync" else AsyncSide()).main()
