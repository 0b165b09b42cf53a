"""Reading streams by an application: in a workflow each item is a recorded operation, elsewhere it is just read."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from holdfast.workflows.operations.place import StepPlace, WorkflowPlace, here, task_place, thread_place
from holdfast.workflows.streams.reading import (
    READ_STREAM,
    AsyncStreamReader,
    Cursor,
    Item,
    StreamReader,
    next_item,
    next_item_blocking,
)

if TYPE_CHECKING:
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.streams.feed import Chunk
    from holdfast.workflows.streams.reading import Reading


class StreamReads:
    """The readers of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._item = engine.payloads.typed(Item)

    def reader(self, reading: Reading, type_: Any) -> AsyncStreamReader[Any]:
        """Return a reader for tasks."""
        self._engine.check_launched()
        return AsyncStreamReader(Cursor(reading), self._engine.payloads.typed(type_), self._next)

    def reader_blocking(self, reading: Reading, type_: Any) -> StreamReader[Any]:
        """Return a reader for threads."""
        self._engine.check_launched()
        return StreamReader(Cursor(reading), self._engine.payloads.typed(type_), self._next_blocking)

    async def _next(self, cursor: Cursor) -> Item:
        place = task_place(self._engine)
        if place is None:
            return await next_item(cursor, self._read)

        async def produce(_: Operation) -> Item:
            return await next_item(cursor, self._read)

        item: Item = await self._engine.recorder.do(place, READ_STREAM, self._mark(cursor), self._item, produce)
        return item

    def _next_blocking(self, cursor: Cursor) -> Item:
        place = thread_place(self._engine)
        if place is None:
            return next_item_blocking(cursor, self._read_blocking)

        def produce(_: Operation) -> Item:
            return next_item_blocking(cursor, self._read_blocking)

        item: Item = self._engine.recorder.do_blocking(place, READ_STREAM, self._mark(cursor), self._item, produce)
        return item

    async def _read(self, reading: Reading, offset: int) -> Chunk:
        self._engine.check_launched()
        self._engine.refuse_other_loop()
        return await self._engine.feed.next(
            reading.workflow_id, reading.stream, offset, follow=reading.follow, patience=reading.patience
        )

    def _read_blocking(self, reading: Reading, offset: int) -> Chunk:
        """Wait on a thread, which gives up its place, and stops waiting if its run is to go no further."""
        engine, place = self._engine, self._place_here()
        engine.check_launched()
        if engine.is_loop_thread():
            return engine.ask_blocking(self._read(reading, offset))  # which says that it cannot
        reply = asyncio.run_coroutine_threadsafe(self._read(reading, offset), engine.loop())
        try:
            with nullcontext() if place is None else place.halting(reply.cancel), engine.threads.waiting():
                return reply.result()
        except BaseException:
            if place is not None:
                place.check()
            raise

    def _place_here(self) -> WorkflowPlace | None:
        place = here.get()
        if isinstance(place, StepPlace):
            place = place.within
        return place if place is not None and place.run.engine is self._engine else None

    def _mark(self, cursor: Cursor) -> str:
        reading = cursor.reading
        given = (reading.workflow_id, reading.stream, cursor.offset, reading.follow, reading.resets)
        return self._engine.payloads.mark(READ_STREAM, given, {})
