"""Extends a lease for as long as somebody needs it, and notices when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.stores.cancels import PATIENCE, leave

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
        self._until = locks.world.monotonic() + ttl
        self._task = asyncio.create_task(self._keep(), name=f"holdfast-lock-{lease.key}")

    async def end(self) -> None:
        """Extend no more, and give the lock back; one that cannot be given back was lost.

        That it is given back is handed over before anything is waited for: a task that is cancelled again and again, as
        within a cancel scope of anyio, gives it back, too.
        """
        self._task.cancel()
        if self.is_lost:
            return
        was_held = self._left() > 0
        releasing = asyncio.ensure_future(self._locks.release(self._lease))
        await asyncio.wait([releasing], timeout=PATIENCE)
        if releasing.done():
            self.is_lost = not releasing.result()
        else:  # it is handed over, and carried out when the database is back
            leave(releasing)
            logger.warning("The lock %s is not given back within %g s, and has to expire.", self._lease.key, PATIENCE)
            self.is_lost = not was_held

    async def end_for_error(self) -> None:
        """End because of an error, which is the one to be raised: that of the storage is only logged."""
        try:
            await self.end()
        except HoldfastError as error:
            logger.warning("The lock %s could not be given back, and has to expire: %s", self._lease.key, error)

    async def _keep(self) -> None:
        while self._left() > 0:
            await self._locks.world.sleep(min(self._ttl / _EXTENSIONS_PER_TTL, self._left()))
            if not await self._extended():
                break
        self.is_lost = True
        if self._lost is not None:
            self._lost()

    async def _extended(self) -> bool:
        """Extend the lease; False if it is over, or was before there was an answer: others may have the lock then."""
        asked = self._locks.world.monotonic()
        extending = asyncio.ensure_future(self._locks.extend(self._lease, self._ttl))
        try:
            await asyncio.wait([extending], timeout=self._left())
            if not extending.done() or not extending.result():
                return False
        except HoldfastError as error:
            logger.warning("The lease of lock %s could not be extended yet: %s", self._lease.key, error)
        else:
            self._until = asked + self._ttl
        finally:
            if extending.cancel():
                leave(extending)
        return True

    def _left(self) -> float:
        """Return for how many seconds the lease lasts at least, by the clock of this process."""
        return max(0.0, self._until - self._locks.world.monotonic())


__all__ = ["Keeper"]
