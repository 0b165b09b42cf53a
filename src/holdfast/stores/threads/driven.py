"""A loop that is run by the thread that asks: for short reads, where waking another thread would take the longest."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.stores.sides import Closable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

S = TypeVar("S", bound=Closable)
T = TypeVar("T")


class Driven(Generic[S]):
    """Opens a store with *open_* on a loop of its own, which runs only while a thread waits for an answer.

    So the store must have nothing that goes on in the background. One thread at a time has the turn.
    """

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, S]]) -> None:
        self._open = open_
        self._turn = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._store: S | None = None

    def call(self, work: Callable[[S], Awaitable[T]], otherwise: Callable[[Callable[[S], Awaitable[T]]], T]) -> T:
        """Do *work* on this thread; where another one has the turn, a loop runs here, or after a fork, *otherwise*."""
        if self._was_forked() or _has_loop() or not self._turn.acquire(blocking=False):
            return otherwise(work)
        try:
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
            return _run(self._loop, self._done(work))
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the store and its loop; it opens again when used."""
        with self._turn:
            forked = self._was_forked()
            loop, store, self._loop, self._store = self._loop, self._store, None, None
            if loop is None or forked:
                return
            if store is not None:
                _run(loop, store.close())
            loop.close()

    def _was_forked(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()

    async def _done(self, work: Callable[[S], Awaitable[T]]) -> T:
        if self._store is None:
            self._store = await self._open()
        return await work(self._store)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():  # an interrupt of the waiting thread must not leave the work behind
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
