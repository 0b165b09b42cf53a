"""Who waits in this process for a message or an event; each has a bell that is rung when it may have come.

Whoever sends or sets in this process rings at once. For what comes from elsewhere there is one look for all who wait:
soon after a hint from another process, and now and then in any case. A bell may ring for nothing: whoever waits looks.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.outage import Outage
from holdfast.db.outlast import first_of
from holdfast.errors import DatabaseError, NotInitialized
from holdfast.workflows.parking import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.model.world import World

logger = logging.getLogger("holdfast.workflows")

_FIRST_LOOK = 0.01
_LONGEST_WAIT = 0.5
_WITH_HINTS = 2.0
_MOST_AT_ONCE = 500


class Bell:
    """Rings for one who waits; on the loop."""

    def __init__(self, thing: Awaited, world: World) -> None:
        self.thing = thing
        self._world = world
        self._rung = asyncio.Event()
        self._closed = False

    def ring(self) -> None:
        """Have those who wait look."""
        self._rung.set()

    def close(self) -> None:
        """Tell those who wait that nobody looks for them any more."""
        self._closed = True
        self._rung.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it rings, or until so much time has passed. Raises ``NotInitialized`` once nobody looks."""
        timer = None if seconds is None else asyncio.create_task(self._ring_in(seconds), name="holdfast-bell")
        try:
            await self._rung.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._rung.clear()
        if self._closed:
            raise NotInitialized(
                f"It was closed before the {self.thing.kind} {self.thing.key!r} of run {self.thing.workflow_id} came."
            )

    async def _ring_in(self, seconds: float) -> None:
        await self._world.sleep(seconds)
        self._rung.set()


class Bells:
    """All bells of a process. Lives on the loop; *hears* says whether hints from other processes are heard."""

    def __init__(
        self, manager: ConnectionManager, parking: Queries, world: World, hears: Callable[[], bool] = lambda: False
    ) -> None:
        self._manager = manager
        self._query = parking["things_look"]
        self._world = world
        self._hears = hears
        self._bells: dict[Awaited, list[Bell]] = {}
        self._stirred = asyncio.Event()
        self._wait = _FIRST_LOOK
        self._outage = Outage()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @contextmanager
    def watch(self, thing: Awaited) -> Iterator[Bell]:
        """Have a bell for the length of the block. Look after this, and not before: what comes later rings."""
        bell = Bell(thing, self._world)
        if self._stopped:
            bell.close()
        self._bells.setdefault(thing, []).append(bell)
        self._wait = _FIRST_LOOK
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-bells")
        try:
            yield bell
        finally:
            left = [each for each in self._bells.pop(thing) if each is not bell]
            if left:
                self._bells[thing] = left

    @property
    def waiting(self) -> int:
        """For how many things somebody waits."""
        return len(self._bells)

    def ring(self, things: Iterable[Awaited]) -> None:
        """Ring for all who wait for one of *things*."""
        for thing in things:
            for bell in self._bells.get(thing, ()):
                bell.ring()

    def look_soon(self) -> None:
        """Look now for all who wait: something is new in the database."""
        if self._bells:
            self._stirred.set()

    async def have_come(self, things: Sequence[Awaited]) -> bool:
        """Return whether one of *things* is there."""
        return bool(await self._there(list(things)))

    async def stop(self) -> None:
        """Look no more, and say so to whoever still waits."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for bells in self._bells.values():
            for bell in bells:
                bell.close()

    async def _run(self) -> None:
        while self._bells and not self._stopped:
            await self._pause()
            try:
                for thing in await self._there(list(self._bells)):
                    self.ring([thing])
                self._outage.is_over()
            except DatabaseError as error:  # the database is away: whoever waits has a deadline of their own
                if self._outage.is_told(self._world.monotonic()):
                    logger.warning("Looking for messages and events fails and is tried again: %s", error)

    async def _pause(self) -> None:
        self._stirred.clear()
        longest = _WITH_HINTS if self._hears() else _LONGEST_WAIT
        await first_of(self._stirred.wait(), self._world.sleep(self._wait))
        self._wait = min(longest, self._wait * 1.5)

    async def _there(self, things: list[Awaited]) -> list[Awaited]:
        found: list[Awaited] = []
        for first in range(0, len(things), _MOST_AT_ONCE):
            some = things[first : first + _MOST_AT_ONCE]
            rows = await self._manager.fetch_batch(self._query, some)
            there = {Awaited(row["kind"], row["id"], row["thing"]) for row in rows}
            found.extend(each for each in some if each in there)
        return found
