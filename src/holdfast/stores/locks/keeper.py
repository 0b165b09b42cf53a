"""Extends a lease for as long as somebody needs it, and notices when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.stores.locks.lease import Lease
    from holdfast.stores.locks.store import DistributedLock

logger = logging.getLogger("holdfast.locks")

_EXTENSIONS_PER_TTL = 3


class Keeper:
    """Keeps *lease*, from its making until ``end``. *lost* is called once, on the loop, if it cannot be kept."""

    def __init__(self, locks: DistributedLock, lease: Lease, ttl: float, lost: Callable[[], Any] | None = None) -> None:
        self._locks = locks
        self._lease = lease
        self._ttl = ttl
        self._lost = lost
        self.is_lost = False
        self._task = asyncio.create_task(self._keep(), name=f"holdfast-lock-{lease.key}")

    async def end(self) -> None:
        """Extend no more, and give the lock back; one that cannot be given back was lost.

        That it is given back is handed over before anything is waited for: a task that is cancelled again and again, as
        within a cancel scope of anyio, gives it back, too.
        """
        self._task.cancel()
        if not self.is_lost:
            self.is_lost = not await self._locks.release(self._lease)

    async def end_for_error(self) -> None:
        """End because of an error, which is the one to be raised: that of the storage is only logged."""
        try:
            await self.end()
        except HoldfastError as error:
            logger.warning("The lock %s could not be given back, and has to expire: %s", self._lease.key, error)

    async def _keep(self) -> None:
        world = self._locks.world
        until = world.monotonic() + self._ttl
        while world.monotonic() < until:
            await world.sleep(self._ttl / _EXTENSIONS_PER_TTL)
            asked = world.monotonic()
            try:
                if not await self._locks.extend(self._lease, self._ttl):
                    break
            except HoldfastError as error:
                logger.warning("The lease of lock %s could not be extended yet: %s", self._lease.key, error)
            else:
                until = asked + self._ttl
        self.is_lost = True
        if self._lost is not None:
            self._lost()


__all__ = ["Keeper"]
