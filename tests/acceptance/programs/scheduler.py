"""A worker of the schedule tests: one executor that fires slots, and may have a wrong clock or die in the middle of it.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime  # noqa: TC003 -- the workflow is given one, by its annotation
from typing import Any

from holdfast import AsyncHoldfast, faults
from holdfast.testing.clocks import mend_sleep
from holdfast.testing.effects import Effects
from holdfast.testing.program import obey_on_loop, say

SETTINGS = json.loads(sys.argv[1])


class Side:
    """Carries commands out."""

    def __init__(self) -> None:
        self.app = AsyncHoldfast(
            SETTINGS["url"],
            lease=1.0,
            application_version="tested",
            clock_offset_ms="SELECT ms FROM test_clock",
        )
        self.effects = Effects(SETTINGS["ledger"])

        @self.app.workflow(name="slot")
        async def slot(scheduled_at: datetime, context: str) -> str:
            self.effects.append(self.app.workflow_id or "", f"{context} {scheduled_at.isoformat()}", "")
            return context

    async def serve(self) -> None:
        if "die" in SETTINGS:
            faults.arm(SETTINGS["die"])
        await self.app.launch()
        say("ready")
        await obey_on_loop(self.do)

    async def do(self, verb: str, *args: Any) -> None:
        await getattr(self, verb)(*args)
        say("done", verb, *args)

    async def create(self, name: str, schedule: str, settings: dict[str, Any]) -> None:
        await self.app.create_schedule(name, "slot", schedule, context=name, **settings)

    async def look(self) -> None:
        self.app._engine.work_released()


mend_sleep()
asyncio.run(Side().serve())
