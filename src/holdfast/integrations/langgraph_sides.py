"""Where a saver's checkpoints go: which backend a URL names, and the short way for puts of sync graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager, DatabaseURL
from holdfast.stores.sides import Sides
from holdfast.stores.threads import SQLThreads

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from holdfast.stores.threads import LargeValue, Place, Saved, Threads, Write


class SaverSides(Sides["Threads"]):
    """The threads at a URL, for sync and async calls."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        async def opened() -> Threads:
            threads = SQLThreads(ConnectionManager(url))
            await threads.initialize()
            return threads

        super().__init__(opened, one=DatabaseURL.parse(url).in_memory)

    def put(self, saved: Saved, values: Sequence[LargeValue]) -> None:
        """Store a checkpoint, from a thread that may wait."""
        threads = self.blocking()
        if isinstance(threads, SQLThreads):
            threads.put_blocking(saved, values)
        else:
            self.call(lambda threads: threads.put(saved, values))

    def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store writes, from a thread that may wait."""
        threads = self.blocking()
        if isinstance(threads, SQLThreads):
            threads.put_writes_blocking(place, writes)
        else:
            self.call(lambda threads: threads.put_writes(place, writes))
