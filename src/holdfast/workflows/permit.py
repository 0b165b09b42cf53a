"""The permission to start user code: it lasts until a margin before the lease of the last acknowledged beat ends.

An executor that cannot beat may be taken for gone. What it has running is fenced by tokens; what it has not started it
must not start, because outside effects cannot be fenced.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model.world import World


class Permit:
    """Renewed by each acknowledged beat, from the beat's thread; asked for before each step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until = 0.0
        self._renewed = threading.Condition()

    def renew(self, until: float) -> None:
        """Permit starts until *until* on the monotonic clock."""
        with self._renewed:
            self._until = until
            self._renewed.notify_all()

    def is_valid(self) -> bool:
        """Whether user code may be started now."""
        return self._world.monotonic() < self._until

    async def wait(self) -> None:
        """Wait until a beat is acknowledged again."""
        while not self.is_valid():
            await asyncio.to_thread(self._wait_once)

    def wait_blocking(self) -> None:
        """Wait on this thread until a beat is acknowledged again."""
        while not self.is_valid():
            self._wait_once()

    def _wait_once(self) -> None:
        with self._renewed:
            self._renewed.wait(0.5)
