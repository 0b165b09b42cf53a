"""How a store hands its writes to the commit pipeline: one that it is given, or one of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.db.outlast import outlast
from holdfast.db.pipeline.pipeline import Pipeline, left_behind
from holdfast.db.pipeline.pipeline import outlast as settled
from holdfast.stores.cancels import PATIENCE, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.operation import Kind, Operation, Values

R = TypeVar("R")


class Commits:
    """The pipeline of a store: shared if *pipeline* is given, else opened at the first write and closed with the store.

    Concurrent writes of one pipeline become one commit; nothing is acknowledged before it.
    """

    def __init__(self, manager: ConnectionManager, pipeline: Pipeline | None = None) -> None:
        self._manager = manager
        self._pipeline = pipeline
        self._is_ours = pipeline is None
        self._left: dict[str, asyncio.Future[object]] = {}
        self._near: ThreadCommits | None = None

    async def write(self, kind: Kind[R], row: Values, *, to_the_end: bool = False) -> R:
        """Have *row* written, see ``Pipeline.write``."""
        return await (self._pipeline or await self._opened()).write(kind, row, to_the_end=to_the_end)

    async def claim(self, kind: Kind[R], row: Values, undo: Callable[[R], Awaitable[object]]) -> R:
        """Have *row* written, by which the calling task gets something; if it is cancelled meanwhile, *undo* that.

        ``CancelledError`` comes after it, and after ``PATIENCE`` if the database is away: then it is undone later.
        """
        operation = await self._handed_over(kind, row)
        try:
            return await cast("asyncio.Future[R]", operation.waiter)
        except asyncio.CancelledError:
            undoing = asyncio.ensure_future(_undone(operation, undo))
            leave(undoing)
            await outlast(asyncio.wait([undoing], timeout=PATIENCE))
            raise

    async def write_about(self, key: str, kind: Kind[R], row: Values) -> R:
        """Have *row* written, which is about *key*; ``settled`` waits for it, also if this task is cancelled.

        Of several rows about one key all are of one *kind*, and so written in their order.
        """
        operation = await self._handed_over(kind, row)
        try:
            return await cast("asyncio.Future[R]", operation.waiter)
        except asyncio.CancelledError:
            left = left_behind(operation)
            if left is not None:
                self._left[key] = left
                left.add_done_callback(lambda done: self._left.get(key) is done and self._left.pop(key))
            raise

    async def settled(self, key: str) -> None:
        """Wait until nothing about *key* is under way that a cancelled task has left behind."""
        left = self._left.get(key)
        if left is not None:
            await asyncio.wait([left])

    def tell(self, call: Callable[..., object], *args: Any) -> None:
        """Make *call*, by which somebody on the store's loop hears of what was written."""
        call(*args)

    async def for_threads(self) -> ThreadCommits:
        """Return the same pipeline for threads that wait themselves, open until the store is closed."""
        return ThreadCommits(self._pipeline or await self._opened())

    def near(self) -> ThreadCommits | None:
        """Return the same pipeline for threads, if a lone write wakes no other thread; always the same object."""
        pipeline = self._pipeline
        if pipeline is None or not pipeline.is_near:
            return None
        if self._near is None or self._near.pipeline is not pipeline:
            self._near = ThreadCommits(pipeline)
        return self._near

    async def _handed_over(self, kind: Kind[R], row: Values) -> Operation:
        pipeline = self._pipeline or await self._opened()
        while (operation := pipeline.hand_over(kind, row)) is None:
            await pipeline.change()
        return operation

    async def _opened(self) -> Pipeline:
        pipeline = Pipeline(self._manager)
        await pipeline.open()  # waits for nothing, so no second task gets here meanwhile
        self._pipeline = pipeline
        return pipeline

    async def close(self) -> None:
        """Write what is at hand and close the pipeline, unless it is somebody else's."""
        if self._is_ours and self._pipeline is not None:
            pipeline, self._pipeline = self._pipeline, None
            await pipeline.close()


class ThreadCommits:
    """A pipeline for threads that drive coroutines by themselves: ``write`` blocks, and waits for no loop."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    async def write(self, kind: Kind[R], row: Values, *, to_the_end: bool = False) -> R:  # noqa: ARG002 -- it always is
        """Have *row* written, see ``Pipeline.write_blocking``."""
        return self.pipeline.write_blocking(kind, row)

    async def claim(self, kind: Kind[R], row: Values, undo: Callable[[R], Awaitable[object]]) -> R:  # noqa: ARG002 -- a thread is not cancelled
        """Do as ``write``."""
        return self.pipeline.write_blocking(kind, row)

    async def write_about(self, key: str, kind: Kind[R], row: Values) -> R:  # noqa: ARG002 -- likewise: nothing is left behind
        """Do as ``write``."""
        return self.pipeline.write_blocking(kind, row)

    async def settled(self, key: str) -> None:
        """Do nothing, for the same reason."""

    def tell(self, call: Callable[..., object], *args: Any) -> None:
        """Have *call* made on the store's loop, by which somebody there hears of what was written."""
        self.pipeline.call_soon(call, *args)

    async def for_threads(self) -> ThreadCommits:
        """Return this."""
        return self

    def near(self) -> ThreadCommits:
        """Return this."""
        return self

    async def close(self) -> None:
        """Do nothing: the pipeline is closed where it was opened."""


async def _undone(operation: Operation, undo: Callable[[R], Awaitable[object]]) -> None:
    await undo(await settled(operation))


__all__ = ["Commits", "ThreadCommits"]
