"""Where the calls of a saver go: sync calls to a loop of its own, async calls to the caller's.

Each loop has connections of its own. A database in memory is one for all of them, so it lives on the saver's loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db import ConnectionManager, DatabaseURL
from holdfast.db.portal import Portal
from holdfast.stores.threads import SQLThreads

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.stores.threads import LargeValue, Place, Saved, Threads, Write

T = TypeVar("T")


class Sides:
    """Opens threads on a loop when that loop first asks for them."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._url = url
        self._in_memory = _is_memory(url)
        self._portal = Portal("holdfast-saver")
        self._opening = threading.Lock()
        self._sync: Threads | None = None
        self._async: dict[asyncio.AbstractEventLoop, asyncio.Future[Threads]] = {}

    def call(self, work: Callable[[Threads], Awaitable[T]]) -> T:
        """Do *work* from a thread that may wait."""
        return self._portal.call(_await(work, self._blocking()))

    async def acall(self, work: Callable[[Threads], Awaitable[T]]) -> T:
        """Do *work* on the caller's loop."""
        if self._in_memory:
            return await asyncio.to_thread(self.call, work)
        return await work(await self._here())

    def put(self, saved: Saved, values: Sequence[LargeValue]) -> None:
        """Store a checkpoint, from a thread that may wait."""
        threads = self._blocking()
        if isinstance(threads, SQLThreads):
            threads.put_blocking(saved, values)
        else:
            self._portal.call(threads.put(saved, values))

    def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store writes, from a thread that may wait."""
        threads = self._blocking()
        if isinstance(threads, SQLThreads):
            threads.put_writes_blocking(place, writes)
        else:
            self._portal.call(threads.put_writes(place, writes))

    def close(self) -> None:
        """End what sync calls have opened."""
        with self._opening:
            threads, self._sync = self._sync, None
            if threads is not None:
                self._portal.call(threads.close())
                self._portal.stop()

    async def aclose(self) -> None:
        """End what was opened by sync calls and on this loop."""
        opening = self._async.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).close()
        await asyncio.to_thread(self.close)

    def _blocking(self) -> Threads:
        threads = self._sync
        if threads is None:
            with self._opening:
                if self._sync is None:
                    self._portal.start()
                    self._sync = self._portal.call(_opened(self._url))
                threads = self._sync
        return threads

    async def _here(self) -> Threads:
        loop = asyncio.get_running_loop()
        opening = self._async.get(loop)
        if opening is None:
            self._async = {known: future for known, future in self._async.items() if not known.is_closed()}
            opening = self._async[loop] = loop.create_task(_opened(self._url))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._async.get(loop) is opening:
                del self._async[loop]  # the next call tries again
            raise


async def _opened(url: str | os.PathLike[str]) -> Threads:
    threads = SQLThreads(ConnectionManager(url))
    await threads.initialize()
    return threads


async def _await(work: Callable[[Any], Awaitable[T]], threads: Threads) -> T:
    return await work(threads)


def _is_memory(url: str | os.PathLike[str]) -> bool:
    return DatabaseURL.parse(url).in_memory
