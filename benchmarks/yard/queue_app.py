"""The application that the benchmarks of queues share, and processes that work for it.

Run as a program it is such a process: it says "ready", and works until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast import AsyncHoldfast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from typing import Any

    from holdfast.workflows.declaring.functions import AsyncWorkflow

QUEUE = "bench"


def queue_app(
    url: str, *, works: bool = True
) -> tuple[AsyncHoldfast, AsyncWorkflow[[int], float, Coroutine[Any, Any, float]]]:
    """Return an application and its one workflow, which does nothing but return the moment at which it began.

    Unless it *works* it only enqueues. The moment is of the monotonic clock, which all processes of a machine share.
    """
    app = AsyncHoldfast(url, application_version="bench")

    @app.workflow
    async def noop(number: int) -> float:  # noqa: ARG001 -- every run has an argument, as real ones have
        return time.monotonic()

    if not works:
        app.listen_queues([])
    return app, noop


@asynccontextmanager
async def workers(url: str, count: int) -> AsyncIterator[None]:
    """Have *count* processes ready that work for every queue; the tables and the queues are there already."""
    pipe = asyncio.subprocess.PIPE
    children = [
        await asyncio.create_subprocess_exec(sys.executable, __file__, url, stdin=pipe, stdout=pipe)
        for _ in range(count)
    ]
    for child in children:
        assert child.stdout is not None
        assert (await child.stdout.readline()).strip() == b"ready"
    try:
        yield
    finally:
        for child in children:
            assert child.stdin is not None
            child.stdin.close()
            await child.wait()


async def _work(url: str) -> None:
    app, _ = queue_app(url)
    async with app:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))
