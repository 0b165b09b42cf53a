"""The permission to start user code: it lasts until a margin before the lease of the last acknowledged beat ends.

An executor that cannot beat may be taken for gone. What it has running is fenced by tokens; what it has not started it
must not start, because outside effects cannot be fenced.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World

_LOOK_AGAIN = 0.5


class Permit:
    """Renewed by each acknowledged beat, from the beat's thread; asked for before user code is started."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until = 0.0
        self._renewed = threading.Condition()
        self._tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def renew(self, until: float) -> None:
        """Permit starts until *until* on the monotonic clock."""
        with self._renewed:
            self._until = until
            tasks, self._tasks = self._tasks, []
            self._renewed.notify_all()
        for loop, woken in tasks:
            with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                loop.call_soon_threadsafe(_wake, woken)

    def withdraw(self) -> None:
        """Permit nothing until it is renewed."""
        with self._renewed:
            self._until = 0.0

    def is_valid(self) -> bool:
        """Whether user code may be started now."""
        return self._world.monotonic() < self._until

    async def wait(self) -> None:
        """Wait until a beat is acknowledged again, on no thread: there may be thousands who wait."""
        loop = asyncio.get_running_loop()
        while not self.is_valid():
            woken: asyncio.Future[None] = loop.create_future()
            with self._renewed:
                if self.is_valid():
                    return
                self._tasks.append((loop, woken))
            await woken

    def wait_blocking(self, check: Callable[[], object]) -> None:
        """Wait on this thread until a beat is acknowledged again, or *check* raises that nothing is to be started."""
        with self._renewed:
            while not self.is_valid():
                self._renewed.wait(_LOOK_AGAIN)
                check()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
