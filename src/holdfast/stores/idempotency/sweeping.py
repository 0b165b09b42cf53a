"""Keys that have expired are removed by those who bring new ones."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger("holdfast.idempotency")

_EVERY = 256  # new keys; a sweep removes more than these, so that no backlog stays


class Sweeping:
    """Has *sweep* called in a task of its own, once for so many keys that a store was given; on the store's loop."""

    def __init__(self, sweep: Callable[[], Coroutine[Any, Any, int]]) -> None:
        self._sweep = sweep
        self._keys = 0
        self._task: asyncio.Task[None] | None = None

    def count(self) -> None:
        """Take notice of a key that was given."""
        self._keys += 1
        if self._keys >= _EVERY and (self._task is None or self._task.done()):
            self._keys = 0
            self._task = asyncio.get_running_loop().create_task(self._swept())

    async def settle(self) -> None:
        """Wait for a sweep that is under way."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _swept(self) -> None:
        try:
            await self._sweep()
        except HoldfastError as error:
            logger.warning("Idempotency keys that have expired were not removed, which is tried again: %s", error)


__all__ = ["Sweeping"]
