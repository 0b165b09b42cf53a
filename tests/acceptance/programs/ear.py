"""A process that never polls: it reads its table when it is hinted at, and says what it saw, and when.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
``put N`` commits the number N, tells the others and says when it had committed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Any

from holdfast.db import ConnectionManager
from holdfast.errors import Unavailable
from holdfast.model.world import RealWorld
from holdfast.testing.program import obey_on_loop, say
from holdfast.workflows.wakeups.wakeups import wakeups_for

SETTINGS = json.loads(sys.argv[1])
_READS, _READ_AGAIN = 100, 0.1


class Ear:
    """Reads when woken, one read for all hints that come meanwhile."""

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager
        self._woken = asyncio.Event()
        self._seen = -1
        self._reads = 0
        self.wakeups = wakeups_for(
            manager, "holdfast", RealWorld(), self._woken.set, enabled=bool(SETTINGS.get("enabled", True))
        )

    async def serve(self) -> None:
        await self.wakeups.start()
        say("ready")
        await asyncio.gather(obey_on_loop(self._do), self._read_when_woken())

    async def _read_when_woken(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._read_until_found()

    async def _read_until_found(self) -> None:
        """Read for a hint. A slow disk may show the commit later than the hint, a server that restarts none at all."""
        for _ in range(_READS):
            with suppress(Unavailable):
                if await self._read() or self._woken.is_set():
                    return
            await asyncio.sleep(_READ_AGAIN)

    async def _read(self) -> bool:
        self._reads += 1
        rows = await self._manager.fetch("SELECT n FROM heard WHERE n > ? ORDER BY n", self._seen)
        at = time.monotonic()
        for row in rows:
            self._seen = row["n"]
            say("saw", self._seen, at)
        return bool(rows)

    async def put(self, number: int) -> None:
        await self._manager.execute("INSERT INTO heard VALUES (?)", number)
        at = time.monotonic()
        self.wakeups.tell()
        say("put", number, at)

    async def report(self, question: str) -> None:
        say("report", question, self.wakeups.alive, self._reads)

    async def _do(self, verb: str, *args: Any) -> None:
        await getattr(self, verb)(*args)


async def main() -> None:
    async with ConnectionManager(SETTINGS["url"]) as manager:
        await Ear(manager).serve()


if __name__ == "__main__":
    asyncio.run(main())
