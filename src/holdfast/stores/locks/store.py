"""``DistributedLock``: the calls of locks, the same on every backend. A backend carries out what is decided here."""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.backoff import backoff
from holdfast.core.durations import checked_seconds, milliseconds
from holdfast.db.outlast import first_of, outlast
from holdfast.errors import LockLost, LockNotAcquired, Unavailable
from holdfast.model.workflow import Duration, seconds
from holdfast.model.world import RealWorld, World
from holdfast.stores.cancels import PATIENCE, cancels, leave, to_the_end
from holdfast.stores.keys import checked_key
from holdfast.stores.locks.keeper import Keeper
from holdfast.stores.locks.lease import Held, Lease, checked_lease
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

TTL = 30.0
_LONGEST_OWNER = 255
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5


class DistributedLock(Opened, ABC):
    """Locks by key, each somebody's for a lease that ends by itself. The token of a key only grows.

    A lock is not held by a task or a thread, but by whoever has the ``Lease``; it is not reentrant. A holder that does
    nothing for longer than its lease has lost it: what it goes on to do is fenced only where its token is checked.
    """

    def __init__(self, *, world: World | None) -> None:
        self._world: World = world or RealWorld()
        self._owner = f"{socket.gethostname()}-{os.getpid()}"[:_LONGEST_OWNER]
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def world(self) -> World:
        """Time, ids and randomness as these locks see them."""
        return self._world

    async def acquire(
        self,
        key: str,
        owner: str | None = None,
        ttl: Duration = TTL,
        *,
        blocking: bool = True,
        timeout: Duration | None = None,  # noqa: ASYNC109 -- the word of every lock
    ) -> Lease | None:
        """Acquire a lock for *ttl* seconds; wait for it, at most *timeout* seconds, unless *blocking* is False.

        None means that it is somebody else's. Whoever waits in this process is woken by a ``release`` through this
        object, and asks now and then for those elsewhere. *owner* is for people; the default names the process. A call
        that is cancelled holds nothing. ``Unavailable`` if the database is away for as long, and for 5 seconds.
        """
        key = checked_key(key, "key of a lock")
        ttl_ms = milliseconds(ttl, "The ttl of a lock", least=0.001)
        deadline = None if timeout is None else self._world.monotonic() + checked_seconds(timeout, "timeout")
        tries = 0
        while True:
            woken = self._wait(key)
            try:
                left = None if deadline is None else deadline - self._world.monotonic()
                patience = None if blocking and left is None else max(PATIENCE, left or 0)
                found = await self._answered(patience, self._tried(key, self._named(owner), ttl_ms))
                if isinstance(found, Lease):
                    return found
                left = None if deadline is None else deadline - self._world.monotonic()
                if not blocking or (left is not None and left <= 0):
                    return None
                tries += 1
                await first_of(asyncio.wait([woken]), self._world.sleep(self._longest(found, tries, left)))
            finally:
                self._wait_no_more(key, woken)

    async def release(self, lease: Lease) -> bool:
        """Give a lock back; False if it is somebody else's by now, or was given back before."""
        done = await self._release(checked_lease(lease), self._world.new_id())
        faults.point("lock.released")
        for woken in self._waiting.get(lease.key, ()):
            if not woken.done():
                woken.set_result(None)
                break
        return done

    async def extend(self, lease: Lease, ttl: Duration = TTL) -> bool:
        """Have a lease end *ttl* seconds from now; False if it is over, which cannot be undone."""
        return await self._extend(checked_lease(lease), milliseconds(ttl, "The ttl of a lock", least=0.001))

    @abstractmethod
    async def get(self, key: str) -> Lease | None:
        """Return the lease under which a lock is held now; None if nobody holds it."""

    @asynccontextmanager
    async def lease(
        self,
        key: str,
        ttl: Duration = TTL,
        *,
        owner: str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 -- the word of every lock
    ) -> AsyncIterator[Lease]:
        """Hold a lock for a block of code, extended three times a *ttl* for as long as that takes.

        Raises ``LockNotAcquired`` if it is not had within *timeout* seconds. If the lease is lost in spite of the
        extensions, the block is cancelled and ``LockLost`` raised.
        """
        lease = await self.acquire(key, owner, ttl, timeout=timeout)
        if lease is None:
            raise not_acquired(key, timeout)
        task, before = asyncio.current_task(), cancels()
        keeper = Keeper(self, lease, seconds(ttl), lost=lambda: task and task.cancel())
        try:
            yield lease
        except BaseException as error:
            was_told = keeper.is_lost and isinstance(error, asyncio.CancelledError)
            await keeper.end_for_error()
            if was_told and task is not None and task.uncancel() <= before:
                raise lost(lease) from error
            raise
        await keeper.end()
        if keeper.is_lost:
            raise lost(lease)

    async def _answered(self, patience: float | None, trying: Coroutine[Any, Any, Lease | Held]) -> Lease | Held:
        """Return what comes of a try; ``Unavailable`` after *patience* seconds, while a database is away for longer.

        What a try acquires that nobody waits for any more is released.
        """
        if patience is None:
            return await trying
        task = asyncio.ensure_future(trying)
        try:
            await asyncio.wait([task], timeout=patience)
        except asyncio.CancelledError:
            if task.cancel():
                leave(task)
                await outlast(asyncio.wait([task], timeout=patience))
            elif task.exception() is None and isinstance(lease := task.result(), Lease):
                await to_the_end(self.release(lease))
            raise
        if task.cancel():
            leave(task)
            raise Unavailable(f"The locks have not answered within {patience:g} s: try again when they can be reached.")
        return task.result()

    async def _tried(self, key: str, owner: str, ttl_ms: int) -> Lease | Held:
        """Try once. What is handed over is carried out: whoever was cancelled meanwhile must not hold it."""
        before = cancels()
        found = await self._acquire(key, owner, self._world.new_id(), ttl_ms)
        faults.point("lock.acquired")
        if cancels() > before:
            if isinstance(found, Lease):
                await to_the_end(self.release(found))
            raise asyncio.CancelledError
        return found

    def _named(self, owner: str | None) -> str:
        if owner is None:
            return self._owner
        if len(checked_key(owner, "owner of a lock")) > _LONGEST_OWNER:
            raise ValueError(f"The owner of a lock has {len(owner)} characters, the longest may have {_LONGEST_OWNER}.")
        return owner

    def _longest(self, found: Held, tries: int, left: float | None) -> float:
        """Return how long to wait for word: until the lease ends, but look now and then, within what is left."""
        draw = self._world.random.random()
        pause = min(backoff(tries, base=_FIRST_PAUSE, cap=_LONGEST_PAUSE, draw=draw), max(found.seconds, 0.001))
        return pause if left is None else min(pause, left)

    def _wait(self, key: str) -> asyncio.Future[None]:
        """Stand in line before the lock is tried, so that no release goes unheard."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(woken)
        return woken

    def _wait_no_more(self, key: str, woken: asyncio.Future[None]) -> None:
        line = self._waiting[key]
        line.remove(woken)
        if not line:
            del self._waiting[key]

    @abstractmethod
    async def _acquire(self, key: str, owner: str, claim_key: str, ttl_ms: int) -> Lease | Held:
        """Try once, to the end even if the task is cancelled; *claim_key* is what is recognised as this call."""

    @abstractmethod
    async def _release(self, lease: Lease, key: str) -> bool:
        """Give a lock back; *key* is what is recognised as this call."""

    @abstractmethod
    async def _extend(self, lease: Lease, ttl_ms: int) -> bool:
        """Have a lease that is not over end *ttl_ms* from now."""


def not_acquired(key: str, timeout: Duration | None) -> LockNotAcquired:
    """Say that a lock was not had in time."""
    waited = "" if timeout is None else f" within {seconds(timeout):g} s"
    return LockNotAcquired(f"The lock {key!r} could not be acquired{waited}: others hold it. Try again later.")


def lost(lease: Lease) -> LockLost:
    """Say that a lock was lost while it was needed."""
    return LockLost(
        f"The lease of the lock {lease.key!r} (token {lease.token}) was lost before the block had ended: it was not "
        "extended in time, and somebody else may hold it."
    )


__all__ = ["DistributedLock"]
