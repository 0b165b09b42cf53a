"""A worker for tests in which a database fails or many processes follow one another: long runs, in either colour."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.testing.program import say

if TYPE_CHECKING:  # a program beside this one, which is not a package when it runs
    from tests.acceptance.programs.worker import SETTINGS, AsyncSide, SyncSide, note

    from holdfast import AsyncHoldfast, Holdfast
else:
    from worker import SETTINGS, AsyncSide, SyncSide, note

CAP = int(SETTINGS.get("cap", 100))


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


class SyncMarcher(SyncSide):
    """Marches with ``Holdfast``."""

    def define(self) -> dict[str, Any]:
        return define_sync(self.app)

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


class AsyncMarcher(AsyncSide):
    """Marches with ``AsyncHoldfast``."""

    def define(self) -> dict[str, Any]:
        return define_async(self.app)

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


if __name__ == "__main__":
    if "full_while" in SETTINGS:
        make_room_scarce()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    (SyncMarcher() if SETTINGS["colour"] == "sync" else AsyncMarcher()).main()
