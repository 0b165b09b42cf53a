"""Sleeps until the next slot of any schedule is due, and fires it.

At rest it asks the database nothing: the dispatcher's poll brings the moment of the next slot along. Only where no poll
comes, since this process has no room for more runs, it asks by itself: a slot must not be missed for that.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.core.backoff import backoff
from holdfast.core.limits import soonest
from holdfast.core.outage import Outage
from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World
    from holdfast.workflows.schedules.firing import Fired, Firing

logger = logging.getLogger("holdfast.schedules")

_UNHEARD = 5.0  # without a word from the dispatcher for so long, ask
_TRY_AGAIN = 0.5
_SHORTEST = 0.001
_BUSY = 0.005, 1.0  # what is due is held by somebody else: look again so soon, and ever more seldom


class Ticker:
    """Fires slots when they are due. Lives on the loop.

    *fired* is called with a queue in which runs wait now, None if they are delayed; *cancelled* with the runs that had
    to make room for others.
    """

    def __init__(
        self, firing: Firing, world: World, fired: Callable[[str | None], None], cancelled: Callable[[list[str]], None]
    ) -> None:
        self._firing = firing
        self._world = world
        self._fired = fired
        self._cancelled = cancelled
        self._due: float | None = None  # on the world's monotonic clock
        self._heard = 0.0
        self._in_vain = 0
        self._outage = Outage()
        self._changed = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; on the loop."""
        self._heard = self._world.monotonic() - _UNHEARD  # so that it asks first
        self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-schedules")

    async def stop(self) -> None:
        """Fire nothing more, after what is under way."""
        if self._task is not None:
            self._stopping = True
            self._changed.set()
            await self._task

    def heard(self, due_in: float | None) -> None:
        """Take notice of when the next slot of any schedule is due; on the loop."""
        now = self._world.monotonic()
        self._heard = now
        self._set(None if due_in is None else now + due_in)

    def _set(self, due: float | None) -> None:
        if due != self._due:
            self._due = due
            self._changed.set()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._once()
                self._outage.is_over()
            except DatabaseError as error:
                if self._outage.is_told(self._world.monotonic()):
                    logger.warning("Firing schedules fails and is tried again: %s", error)
                await self._rest(_TRY_AGAIN)
            except Exception:
                # The service loop: whatever one schedule has done to it, the others go on.
                logger.exception("Firing schedules failed and is tried again.")
                await self._rest(_TRY_AGAIN)

    async def _once(self) -> None:
        self._changed.clear()
        now = self._world.monotonic()
        if self._due is not None and self._due <= now:
            await self._note(await self._fire())
        elif now - self._heard >= _UNHEARD:
            self.heard(await self._firing.due_in())
        else:
            unheard = self._heard + _UNHEARD - now
            await self._rest(unheard if self._due is None else min(unheard, max(_SHORTEST, self._due - now)))

    async def _fire(self) -> Fired:
        due, self._due = self._due, None  # what is heard meanwhile may be newer than what firing has read
        try:
            return await self._firing.fire()
        except DatabaseError:
            self._due = due
            raise

    async def _note(self, fired: Fired) -> None:
        for queue_name in fired.queues:
            self._fired(queue_name)
        if fired.cancelled:
            self._cancelled(list(fired.cancelled))
        told = None if self._due is None else self._due - self._world.monotonic()
        self.heard(soonest(told, fired.due_in))
        self._in_vain = 0 if fired.runs or fired.due_in is None or fired.due_in > 0 else self._in_vain + 1
        if self._in_vain:
            base, cap = _BUSY
            await self._world.sleep(backoff(self._in_vain, base=base, cap=cap, draw=self._world.random.random()))

    async def _rest(self, seconds: float) -> None:
        """Wait so long, or until something is heard."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


__all__ = ["Ticker"]
