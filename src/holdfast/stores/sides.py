"""One object for both colours: sync calls go to a loop of its own, async calls stay on the caller's loop.

Each loop has a store of its own, with its own connections, opened when that loop first asks. What lives in this
process alone, like a database in memory, is one for all, on the object's own loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from holdfast.db.portal import Portal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


class Closable(Protocol):
    """What is opened for a loop."""

    async def close(self) -> None:
        """End its connections."""


S = TypeVar("S", bound=Closable)
T = TypeVar("T")


class Sides(Generic[S]):
    """Opens a store with *open_* on each loop that asks for one; with *one* there is a single one for all loops."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, S]], *, one: bool = False) -> None:
        self._open = open_
        self._one = one
        self._portal = Portal("holdfast-store")
        self._opening = threading.Lock()
        self._sync: S | None = None
        self._async: dict[asyncio.AbstractEventLoop, asyncio.Task[S]] = {}

    def call(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Do *work* from a thread that may wait."""
        return self._portal.call(_await(work, self.blocking()))

    async def acall(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Do *work* for a task, on its loop."""
        if self._one:
            return await asyncio.to_thread(self.call, work)
        return await work(await self._here())

    def blocking(self) -> S:
        """Return the store of sync calls; it lives on the object's own loop."""
        store = self._sync
        if store is None:
            with self._opening:
                if self._sync is None:
                    self._portal.start()
                    self._sync = self._portal.call(self._open())
                store = self._sync
        return store

    def close(self) -> None:
        """End what sync calls have opened; it opens again when used."""
        with self._opening:
            store, self._sync = self._sync, None
            if store is not None:
                self._portal.call(store.close())
                self._portal.stop()

    async def aclose(self) -> None:
        """End what was opened by sync calls and on this loop; it opens again when used."""
        await self.aclose_here()
        await asyncio.to_thread(self.close)

    async def aclose_here(self) -> None:
        """End what was opened on this loop, which is about to end."""
        opening = self._async.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).close()

    async def _here(self) -> S:
        loop = asyncio.get_running_loop()
        opening = self._async.get(loop)
        if opening is None:
            self._async = {known: task for known, task in self._async.items() if not known.is_closed()}
            opening = self._async[loop] = loop.create_task(self._open())
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._async.get(loop) is opening:
                del self._async[loop]  # the next call tries again
            raise


async def _await(work: Callable[[S], Awaitable[T]], store: S) -> T:
    return await work(store)
