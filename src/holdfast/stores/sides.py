"""One object for both colours: sync calls go to a loop of its own, async calls stay on the caller's loop.

Each loop has a store of its own, with its own connections, opened when that loop first asks. What is left of it after
its loop was closed, as ``asyncio.run`` does, is let go of when another loop asks, and by ``close``. What lives in this
process alone, like a database in memory, is one for all, on the object's own loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.db.portal import Portal
from holdfast.stores.cancels import to_the_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.stores.opened import Closable


S = TypeVar("S", bound="Closable")
T = TypeVar("T")


class Sides(Generic[S]):
    """Opens a store with *open_* on each loop that asks for one; with *one* there is a single one for all loops.

    *let_go* ends what a store has that does not end with its loop, like threads; it is called once that is closed.
    """

    def __init__(
        self,
        open_: Callable[[], Coroutine[Any, Any, S]],
        *,
        one: bool = False,
        let_go: Callable[[S], None] | None = None,
    ) -> None:
        self._open = open_
        self._one = one
        self._let_go = let_go
        self._portal = Portal("holdfast-store")
        self._opening = threading.Lock()
        self._sync: S | None = None
        self._async: dict[asyncio.AbstractEventLoop, asyncio.Task[S]] = {}

    def call(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Do *work* from a thread that may wait."""
        return self._run(_await(work, self.blocking()))

    async def acall(self, work: Callable[[S], Awaitable[T]], *, carried: bool = False) -> T:
        """Do *work* for a task, on its loop. Once begun, what is *carried* ends though that task is cancelled."""
        doing = asyncio.to_thread(self.call, work) if self._one else _await(work, await self.here())
        return await (to_the_end(doing) if carried else doing)

    def blocking(self) -> S:
        """Return the store of sync calls, which is opened by the first of them."""
        store = self._sync
        if store is None:
            with self._opening:
                if self._sync is None:
                    self._sync = self._open_sync()
                store = self._sync
        return store

    def _open_sync(self) -> S:
        self._portal.start()
        return self._portal.call(self._open())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* where the store of sync calls lives, and wait for it."""
        return self._portal.call(work)

    def close(self) -> None:
        """End what sync calls have opened, and what closed loops have left open; it opens again when used."""
        self._forget_closed()
        with self._opening:
            store, self._sync = self._sync, None
            if store is not None:
                self._run(store.close())
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

    async def here(self) -> S:
        """Return the store of the running loop."""
        loop = asyncio.get_running_loop()
        opening = self._async.get(loop)
        if opening is None:
            self._forget_closed()
            opening = self._async[loop] = loop.create_task(self._open())
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._async.get(loop) is opening:
                del self._async[loop]  # the next call tries again
            raise

    def _forget_closed(self) -> None:
        for loop in list(self._async):  # those of other threads come and go meanwhile
            opening = self._async.pop(loop, None) if loop.is_closed() else None
            if opening is None or self._let_go is None:
                continue
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                self._let_go(opening.result())


async def _await(work: Callable[[S], Awaitable[T]], store: S) -> T:
    return await work(store)
