"""A store that is waited for, but not for ever: a request has an answer also while its database is away.

What a database is asked to write it is asked for until it is back, whatever becomes of the caller. So every call of the
store is a task of its own here, which goes on when nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.outlast import outlast
from holdfast.errors import Unavailable
from holdfast.stores.cancels import PATIENCE, cancels, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

logger = logging.getLogger("holdfast.idempotency")


class Patience:
    """Calls of a store, each waited for during ``PATIENCE`` at most."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def asked(self, work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        """Return what *work* returns; ``Unavailable`` if that takes too long.

        Then, and if this task is cancelled, nobody is left to have it: *work* is cancelled, or, if it was faster,
        undone.
        """
        task = self._begun(work)
        try:
            await asyncio.wait([task], timeout=PATIENCE)
        except asyncio.CancelledError:
            if task.done() and not task.cancelled() and task.exception() is None:
                self._begun(undo(task.result()))
            task.cancel()
            raise
        if task.done():
            return task.result()
        task.cancel()
        raise Unavailable(f"The store has not answered within {PATIENCE:g} s.")

    async def written(self, work: Coroutine[Any, Any, None]) -> None:
        """Have *work* carried out; if this task is cancelled meanwhile, that comes after it.

        If it takes too long it goes on by itself, and is written when that can be.
        """
        before = cancels()
        task = self._begun(work)
        await outlast(asyncio.wait([task], timeout=PATIENCE))
        if task.done():
            task.result()
        else:
            logger.error("What became of a request is not stored within %g s; it is when the store is back.", PATIENCE)
        if cancels() > before:
            raise asyncio.CancelledError

    def _begun(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        leave(task)
        return task


__all__ = ["Patience"]
