"""A worker of the protocol tests: one executor, in either colour, with the workflows the tests use.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from holdfast import AsyncHoldfast, Holdfast, faults
from holdfast.errors import HoldfastError
from holdfast.testing.clocks import mend_sleep
from holdfast.testing.effects import Effects
from holdfast.testing.program import obey, obey_on_loop, say
from holdfast.workflows.operations.place import StepPlace, here

SETTINGS = json.loads(sys.argv[1])
NAP = SETTINGS.get("nap", 0.05)
LEDGER = Effects(SETTINGS["ledger"])


def note(what: str) -> None:
    """Have an effect outside of the engine, on behalf of the run this code belongs to."""
    place = here.get()
    assert place is not None
    step = f"@{place.identity}" if isinstance(place, StepPlace) else ""
    LEDGER.append(place.run.id, what + step, place.run.token)


def is_held() -> bool:
    """Whether runs that walk are to go no further: as long as a test keeps a file there."""
    return "held_while" in SETTINGS and Path(SETTINGS["held_while"]).exists()


def pause_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang() -> None:
    time.sleep(600)


ACTIONS = {"kill": None, "pause": pause_self, "hang": hang}


def arm(point: str, at: int = 1, action: str = "kill") -> None:
    faults.arm(point, ACTIONS[action], at=at)


def options() -> dict[str, Any]:
    given: dict[str, Any] = {"lease": 1.0, "application_version": "tested"} | SETTINGS.get("app", {})
    return given


def define_async(app: AsyncHoldfast) -> dict[str, Any]:  # noqa: C901 -- a list of workflows
    @app.step(name="effect")
    async def effect(name: str, value: int) -> int:
        note(name)
        return value

    @app.step(name="linger")
    async def linger(seconds: float) -> str:
        note("linger")
        await asyncio.sleep(seconds)
        return "lingered"

    @app.step(name="block")
    async def block(seconds: float) -> str:
        note("block")
        time.sleep(seconds)  # noqa: ASYNC251 -- to block the loop is the point
        return "blocked"

    @app.workflow(name="leaf")
    async def leaf(value: int) -> int:
        note("begin")
        return await effect("leaf", value)

    @app.workflow(name="short")
    async def short(value: int) -> int:
        note("begin")
        return await effect("a", value) + await effect("b", value) + await effect("c", value)

    @app.step(name="pace")
    async def pace(name: str, value: int) -> int:
        note(name)
        await asyncio.sleep(0.2)
        while is_held():  # noqa: ASYNC110 -- a file, which nobody announces
            await asyncio.sleep(0.02)
        return value

    @app.workflow(name="walk")
    async def walk(value: int) -> int:
        note("begin")
        return await pace("a", value) + await pace("b", value) + await pace("c", value)

    @app.workflow(name="journey")
    async def journey(value: int) -> int:
        note("begin")
        total: int = await effect("a", value)
        handle = await leaf.start(value)
        total += await leaf(value)
        await app.sleep(NAP)
        total += sum(await app.gather(effect("left", value), effect("right", value)))
        total += await handle.result()
        total += await effect("z", value)
        return total

    @app.workflow(name="lingering")
    async def lingering(seconds: float) -> str:
        note("begin")
        return await linger(seconds)

    @app.workflow(name="blocking")
    async def blocking(seconds: float) -> str:
        note("begin")
        return await block(seconds)

    @app.workflow(name="sleeping", max_recovery_attempts=2)
    async def sleeping(seconds: float) -> str:
        note("begin")
        await app.sleep(seconds)
        return "slept"

    @app.workflow(name="poison", max_recovery_attempts=2)
    async def poison(way: str) -> str:
        note("begin")
        die(way)
        return "alive"

    @app.workflow(name="stumbling", max_recovery_attempts=2)
    async def stumbling(times: int) -> str:
        note("begin")
        for number in range(times):
            await effect(str(number), number)
            stumble(number)
        return "arrived"

    return locals()


def define_sync(app: Holdfast) -> dict[str, Any]:  # noqa: C901 -- a list of workflows
    @app.step(name="effect")
    def effect(name: str, value: int) -> int:
        note(name)
        return value

    @app.step(name="linger")
    def linger(seconds: float) -> str:
        note("linger")
        time.sleep(seconds)
        return "lingered"

    @app.workflow(name="leaf")
    def leaf(value: int) -> int:
        note("begin")
        return effect("leaf", value)

    @app.workflow(name="short")
    def short(value: int) -> int:
        note("begin")
        return effect("a", value) + effect("b", value) + effect("c", value)

    @app.step(name="pace")
    def pace(name: str, value: int) -> int:
        note(name)
        time.sleep(0.2)
        while is_held():
            time.sleep(0.02)
        return value

    @app.workflow(name="walk")
    def walk(value: int) -> int:
        note("begin")
        return pace("a", value) + pace("b", value) + pace("c", value)

    @app.workflow(name="journey")
    def journey(value: int) -> int:
        note("begin")
        total: int = effect("a", value)
        handle = leaf.start(value)
        total += leaf(value)
        app.sleep(NAP)
        total += sum(app.gather(lambda: effect("left", value), lambda: effect("right", value)))
        total += handle.result()
        total += effect("z", value)
        return total

    @app.workflow(name="lingering")
    def lingering(seconds: float) -> str:
        note("begin")
        return linger(seconds)

    @app.workflow(name="sleeping", max_recovery_attempts=2)
    def sleeping(seconds: float) -> str:
        note("begin")
        app.sleep(seconds)
        return "slept"

    @app.workflow(name="poison", max_recovery_attempts=2)
    def poison(way: str) -> str:
        note("begin")
        die(way)
        return "alive"

    @app.workflow(name="stumbling", max_recovery_attempts=2)
    def stumbling(times: int) -> str:
        note("begin")
        for number in range(times):
            effect(str(number), number)
            stumble(number)
        return "arrived"

    return locals()


def die(way: str) -> None:
    if way == "exit":
        os._exit(17)
    os.kill(os.getpid(), signal.SIGKILL)


def stumble(number: int) -> None:
    """Die at each place once."""
    place = here.get()
    assert place is not None
    if not any(effect.what == f"stumbled {number}" for effect in LEDGER.of(place.run.id)):
        note(f"stumbled {number}")
        os.kill(os.getpid(), signal.SIGKILL)


class SyncSide:
    """Carries commands out with ``Holdfast``."""

    def __init__(self) -> None:
        self.app = Holdfast(SETTINGS["url"], **options())
        self.workflows = self.define()

    def define(self) -> dict[str, Any]:
        return define_sync(self.app)

    def main(self) -> None:
        prepare_faults()
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
        try:
            value = self.workflows[name].options(workflow_id=run_id).start(*args).result()
        except HoldfastError as error:
            value = type(error).__name__
        say("result", run_id, value)

    def many(self, name: str, prefix: str, count: int) -> None:
        handles = [self.workflows[name].options(workflow_id=f"{prefix}{n}").start(n) for n in range(count)]
        say("results", prefix, [handle.result() for handle in handles])

    def close(self) -> None:
        self.app.close()
        say("closed")
        os._exit(0)


class AsyncSide:
    """Carries commands out with ``AsyncHoldfast``."""

    def __init__(self) -> None:
        self.app = AsyncHoldfast(SETTINGS["url"], **options())
        self.workflows = self.define()

    def define(self) -> dict[str, Any]:
        return define_async(self.app)

    def main(self) -> None:
        asyncio.run(self.serve())

    async def serve(self) -> None:
        prepare_faults()
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
        try:
            value = await (await self.workflows[name].options(workflow_id=run_id).start(*args)).result()
        except HoldfastError as error:
            value = type(error).__name__
        say("result", run_id, value)

    async def many(self, name: str, prefix: str, count: int) -> None:
        async def one(number: int) -> Any:
            handle = await self.workflows[name].options(workflow_id=f"{prefix}{number}").start(number)
            return await handle.result()

        say("results", prefix, await asyncio.gather(*(one(number) for number in range(count))))

    async def close(self) -> None:
        await self.app.close()
        say("closed")
        os._exit(0)


def prepare_faults() -> None:
    for point, at, action in SETTINGS.get("faults", ()):
        arm(point, at, action)


if __name__ == "__main__":
    mend_sleep()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    (SyncSide() if SETTINGS["colour"] == "sync" else AsyncSide()).main()
