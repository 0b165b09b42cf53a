"""Appends to one stream from several tasks, and says each append on standard output the moment it is acknowledged.

Its argument is JSON: ``url``, ``name``, ``tasks``, ``appends`` of each, and perhaps ``point`` and ``at`` where it dies.
"""

from __future__ import annotations

import asyncio
import json
import sys

from holdfast import faults
from holdfast.stores import StoreFactory
from holdfast.testing.program import say


async def main(url: str, name: str, tasks: int, appends: int, point: str | None = None, at: int = 1) -> None:
    async with StoreFactory(url) as factory:
        store = await factory.create_event_store()
        if point is not None:
            faults.arm(point, at=at)

        async def append(task: int) -> None:
            for number in range(appends):
                mark = f"{name}-{task}-{number}"
                size = 1 + number % 3
                stored = await store.append("s", [{"type": "e", "data": [mark, k]} for k in range(size)])
                say(mark, [event["sequence"] for event in stored])

        await asyncio.gather(*(append(task) for task in range(tasks)))


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
