"""A loop that is run by the thread that asks: for short calls, where waking another thread would take the longest."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.db.blocking.driving import DrivenLoop, drive_task, hear
from holdfast.stores.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.stores.opened import Closable

S = TypeVar("S", bound="Closable")
T = TypeVar("T")


class Driven(Generic[S]):
    """Opens a store with *open_* on a loop of its own, which runs only while a thread waits for an answer.

    So the store must have nothing that goes on in the background. One thread at a time has the turn. After more than
    *silence* seconds without a call the loop first hears what was said to it meanwhile: a connection that its server
    has ended is then known to be of no use before anything is sent, and a write is not left in doubt.
    """

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, S]], *, silence: float = 0.1) -> None:
        self._open = open_
        self._silence = silence
        self._last = 0.0
        self._turn = threading.Lock()
        self._pid = 0
        self._loop: DrivenLoop | None = None
        self._store: S | None = None

    def call(self, work: Callable[[S], Awaitable[T]], otherwise: Callable[[Callable[[S], Awaitable[T]]], T]) -> T:
        """Do *work* on this thread; where another one has the turn, a loop runs here, or after a fork, *otherwise*."""
        if self._was_forked() or _has_loop() or not self._turn.acquire(blocking=False):
            return otherwise(work)
        try:
            if self._loop is None:
                self._loop, self._pid = DrivenLoop(), os.getpid()
            if self._store is not None and time.monotonic() - self._last > self._silence:
                hear(self._loop)
            return drive_task(self._loop, self._done(work))
        finally:
            if self._loop is not None and self._loop.is_torn:
                self._cut()
            elif self._store is None:  # it could not be opened, so nobody would think of closing it
                self._end()
            self._turn.release()

    def close(self) -> None:
        """End the store and its loop; it opens again when used."""
        if _has_loop():  # which would not let another one run on this thread
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(self._close).result()
        else:
            self._close()

    def _close(self) -> None:
        with self._turn:
            self._end()

    def _end(self) -> None:
        forked = self._was_forked()
        loop, store, self._loop, self._store = self._loop, self._store, None, None
        if loop is None or forked:
            return
        if store is not None:
            drive_task(loop, store.close())
        loop.close()

    def _cut(self) -> None:
        """Let go of everything at once: an interrupt has left it in nobody knows which state."""
        loop, self._loop, self._store = self._loop, None, None
        if loop is not None:
            loop.cut()

    def _was_forked(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()

    async def _done(self, work: Callable[[S], Awaitable[T]]) -> T:
        if self._store is None:
            self._store = await self._open()
        try:
            return await work(self._store)
        finally:
            self._last = time.monotonic()


class DrivenSides(Sides[S]):
    """Sides whose sync calls are made on the calling thread, with a store that *open_driven* opens.

    A thread that finds another one at it, or has a loop, takes the common way.
    """

    def __init__(
        self, open_: Callable[[], Coroutine[Any, Any, S]], open_driven: Callable[[], Coroutine[Any, Any, S]]
    ) -> None:
        super().__init__(open_)
        self._driven = Driven(open_driven)

    def call(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Do *work* from a thread that may wait."""
        return self._driven.call(work, super().call)

    def close(self) -> None:
        """End what sync calls have opened, and what closed loops have left open; it opens again when used."""
        self._driven.close()
        super().close()


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
