"""How a store hands its writes to the commit pipeline: one that it is given, or one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.db.pipeline import Pipeline

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.operation import Kind, Values

R = TypeVar("R")


class Commits:
    """The pipeline of a store: shared if *pipeline* is given, else opened at the first write and closed with the store.

    Concurrent writes of one pipeline become one commit; nothing is acknowledged before it.
    """

    def __init__(self, manager: ConnectionManager, pipeline: Pipeline | None = None) -> None:
        self._manager = manager
        self._pipeline = pipeline
        self._is_ours = pipeline is None

    async def write(self, kind: Kind[R], row: Values, *, to_the_end: bool = False) -> R:
        """Have *row* written, see ``Pipeline.write``."""
        if self._pipeline is None:
            pipeline = Pipeline(self._manager)
            await pipeline.open()  # waits for nothing, so no second task gets here meanwhile
            self._pipeline = pipeline
        return await self._pipeline.write(kind, row, to_the_end=to_the_end)

    async def close(self) -> None:
        """Write what is at hand and close the pipeline, unless it is somebody else's."""
        if self._is_ours and self._pipeline is not None:
            pipeline, self._pipeline = self._pipeline, None
            await pipeline.close()


__all__ = ["Commits"]
