"""Writes through a pipeline from tasks and from threads, and says each key the moment it is acknowledged.

Its arguments are a URL, and where it dies: a fault point, which may be empty, and at which time.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast import faults
from holdfast.db import ConnectionManager, Pipeline
from holdfast.testing.ledger import Ledger


def say(key: str) -> None:
    os.write(1, f"{key}\n".encode())


async def main(url: str, point: str, at: int) -> None:
    async with ConnectionManager(url) as manager:
        ledger = Ledger(manager.dialect)
        await ledger.create(manager)
        if point:
            faults.arm(point, at=at)
        async with Pipeline(manager) as pipeline:

            async def task(name: str) -> None:
                for number in range(25):
                    say(await pipeline.write(ledger, (f"{name}-{number}", "note", number)))

            def thread(name: str) -> None:
                for number in range(25):
                    say(pipeline.write_blocking(ledger, (f"{name}-{number}", "note", number)))

            await asyncio.gather(
                *(task(f"task-{n}") for n in range(4)),
                *(asyncio.to_thread(thread, f"thread-{n}") for n in range(2)),
            )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
