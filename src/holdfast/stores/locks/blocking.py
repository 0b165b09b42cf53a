"""Locks for code without an event loop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.model.workflow import Duration, seconds
from holdfast.stores.blocking import BlockingStore
from holdfast.stores.locks.keeper import Keeper
from holdfast.stores.locks.store import TTL, DistributedLock, lost, not_acquired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.stores.locks.lease import Lease


class SyncLockStore(BlockingStore[DistributedLock]):
    """Any locks, called from threads; their loop is *portal*'s."""

    def acquire(
        self,
        key: str,
        owner: str | None = None,
        ttl: Duration = TTL,
        *,
        blocking: bool = True,
        timeout: Duration | None = None,
    ) -> Lease | None:
        """Acquire a lock for *ttl* seconds; wait for it, at most *timeout* seconds, unless *blocking* is False.

        None means that it is somebody else's. Whoever waits in this process is woken by a ``release`` through this
        object, and asks now and then for those elsewhere. *owner* is for people; the default names the process. A call
        that is cancelled holds nothing. ``Unavailable`` if the database is away for as long, and for 5 seconds.
        """
        return self._call(self._store.acquire(key, owner, ttl, blocking=blocking, timeout=timeout))

    def release(self, lease: Lease) -> bool:
        """Give a lock back; False if it is somebody else's by now, or was given back before."""
        return self._call(self._store.release(lease))

    def extend(self, lease: Lease, ttl: Duration = TTL) -> bool:
        """Have a lease end *ttl* seconds from now; False if it is over, which cannot be undone."""
        return self._call(self._store.extend(lease, ttl))

    def get(self, key: str) -> Lease | None:
        """Return the lease under which a lock is held now; None if nobody holds it."""
        return self._call(self._store.get(key))

    @contextmanager
    def lease(
        self,
        key: str,
        ttl: Duration = TTL,
        *,
        owner: str | None = None,
        timeout: Duration | None = None,
    ) -> Iterator[Lease]:
        """Hold a lock for a block of code, extended three times a *ttl* for as long as that takes.

        Raises ``LockNotAcquired`` if it is not had within *timeout* seconds. If the lease is lost in spite of the
        extensions, the block is cancelled and ``LockLost`` raised.
        """
        lease = self.acquire(key, owner, ttl, timeout=timeout)
        if lease is None:
            raise not_acquired(key, timeout)
        keeper = self._call(self._kept(lease, ttl))
        try:
            yield lease
        except BaseException:
            self._call(keeper.end_for_error())
            raise
        self._call(keeper.end())
        if keeper.is_lost:  # a thread cannot be interrupted
            raise lost(lease)

    async def _kept(self, lease: Lease, ttl: Duration) -> Keeper:
        return Keeper(self._store, lease, seconds(ttl))


__all__ = ["SyncLockStore"]
