"""What is left of a run that has ended in this process: nothing, without the garbage collector's help."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

from holdfast import AsyncHoldfast
from holdfast.testing.contract.venue import until

if TYPE_CHECKING:
    from pathlib import Path


def test_run_that_was_waited_for_is_freed_when_it_has_ended(tmp_path: Path) -> None:
    app = AsyncHoldfast(f"sqlite:///{tmp_path / 'runs.db'}")
    tasks: list[weakref.ref[asyncio.Task[Any]]] = []

    @app.step
    async def double(number: int) -> int:
        return number * 2

    @app.workflow
    async def flow(number: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(weakref.ref(task))
        return await double(number)

    async def scene() -> None:
        async with app:
            gc.disable()
            try:
                assert await flow(2) == 4
                handle = await flow.start(3)
                assert await handle.result() == 6
                del handle
                await until(lambda: [task() for task in tasks] == [None, None])
            finally:
                gc.enable()

    asyncio.run(scene())
