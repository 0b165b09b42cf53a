"""Claims that last while their work does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger("holdfast.idempotency")


class Extending:
    """From now until ``end``, on this loop, *extend* is called three times a lease; it says whether the claim holds.

    Work that ends sooner costs one timer and no task. A claim that is lost is logged, and refuses its result.
    """

    def __init__(self, extend: Callable[[], Awaitable[bool]], lease_seconds: float) -> None:
        self._extend = extend
        self._lease = lease_seconds
        self._task: asyncio.Task[None] | None = None
        self._over = False
        self._wait()

    def end(self) -> None:
        """Extend no more; a second call changes nothing."""
        self._over = True
        self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._lease / 3, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._extended())

    async def _extended(self) -> None:
        try:
            held = await self._extend()
        except HoldfastError as error:
            logger.warning("The claim of an idempotency key could not be extended, and is tried again: %s", error)
            held = True
        if self._over:
            return
        if held:
            self._wait()
        else:
            logger.warning("The claim of an idempotency key was lost while its work went on: another may do it again.")


__all__ = ["Extending"]
