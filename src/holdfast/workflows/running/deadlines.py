"""The time a run may take: the executor that runs it cancels it on the moment.

Whatever nobody runs, or whose executor is gone, is found by the dispatcher's poll instead. Both write the same guarded
statement, which goes by the database's clock.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError
from holdfast.workflows.running.waiting import void

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World
    from holdfast.workflows.control import Control
    from holdfast.workflows.running.run import Run

logger = logging.getLogger("holdfast.workflows")

_LOOK_AGAIN = 0.05


class Deadlines:
    """Watches the runs of this executor that have a deadline. Lives on the loop."""

    def __init__(
        self,
        control: Control,
        world: World,
        now: Callable[[], float],
        on_loop: Callable[[Callable[[], None]], bool],
        cancelled: Callable[[list[str]], None],
    ) -> None:
        self._control = control
        self._on_loop = on_loop
        self._world = world
        self._now = now
        self._cancelled = cancelled
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, run: Run, deadline_ms: int) -> None:
        """Cancel *run* at *deadline_ms*, unless it has ended; from any thread."""
        self._on_loop(lambda: self._begin(run, deadline_ms / 1000))

    async def stop(self) -> None:
        """Watch nothing any more: what is still running is handed over with its deadline."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Cancel every run whose deadline has passed, whoever has it."""
        self._cancelled(await self._control.cancel_overdue())

    def _begin(self, run: Run, deadline: float) -> None:
        task = asyncio.get_running_loop().create_task(self._wait(run, deadline), name=f"holdfast-deadline-{run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        run.watch(lambda _: void(self._on_loop(lambda: void(task.cancel()))))

    async def _wait(self, run: Run, deadline: float) -> None:
        while not run.ended:
            left = deadline - self._now()
            if left > 0:  # also later on, where the database's clock was set back
                await self._world.sleep(left)
                continue
            try:
                await self.sweep()
            except DatabaseError as error:  # it is away: nothing of the run can be written meanwhile either
                logger.warning("The deadline of run %s has passed; cancelling it is tried again: %s", run.id, error)
            if not run.ended:  # the database's clock is a little behind
                await self._world.sleep(_LOOK_AGAIN)
