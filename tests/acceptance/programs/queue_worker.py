"""A worker of the queue tests: one executor that claims from all queues, and may be slow or die in the middle of it.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from holdfast import AsyncHoldfast, faults
from holdfast.testing.program import obey_on_loop, say

SETTINGS = json.loads(sys.argv[1])


def slow_commits(seconds: float) -> None:
    """Take so long before the commit of every claim from a limited queue."""

    def wait() -> None:
        faults.arm("claim.before_commit", wait)
        time.sleep(seconds)

    faults.arm("claim.before_commit", wait)


class Side:
    """Carries commands out."""

    def __init__(self) -> None:
        given = {"lease": 1.0, "application_version": "tested"} | SETTINGS.get("app", {})
        self.app = AsyncHoldfast(SETTINGS["url"], **given)

        @self.app.workflow(name="hold")
        async def hold(number: int, seconds: float) -> int:
            await asyncio.sleep(seconds)
            return number

        self.hold = hold

    async def serve(self) -> None:
        if "slow" in SETTINGS:
            slow_commits(SETTINGS["slow"])
        if "die" in SETTINGS:
            faults.arm(*SETTINGS["die"][:1], at=SETTINGS["die"][1])
        await self.app.launch()
        say("ready")
        await obey_on_loop(self.do)

    async def do(self, verb: str, *args: Any) -> None:
        await getattr(self, verb)(*args)
        say("done", verb, *args)

    async def register(self, name: str, settings: dict[str, Any]) -> None:
        await self.app.register_queue(name, **settings)

    async def pause(self, name: str) -> None:
        await self.app.pause_queue(name)

    async def resume(self, name: str) -> None:
        await self.app.resume_queue(name)

    async def enqueue(self, name: str, count: int, seconds: float, key: str | None = None) -> None:
        flow = self.hold.options(queue_name=name, queue_partition_key=key)
        await flow.enqueue_many([flow.call(number, seconds) for number in range(count)])


asyncio.run(Side().serve())
