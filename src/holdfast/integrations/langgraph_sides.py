"""Where a saver's checkpoints go: which backend a URL names, and the short way for puts of sync graphs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager, DatabaseURL
from holdfast.errors import InvalidURL
from holdfast.stores.redis import RedisLink
from holdfast.stores.sides import Sides
from holdfast.stores.threads import SQLThreads
from holdfast.stores.threads.redis_threads import RedisThreads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.threads import LargeValue, Place, Saved, Threads, Write

_REDIS = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")


class SaverSides(Sides["Threads"]):
    """The threads at a URL, for sync and async calls."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        address = os.fspath(url)
        if address.startswith("file:"):
            raise InvalidURL(
                "The saver has no files of its own, since a checkpoint and its values must be written together: "
                "write sqlite:///path.db for a file."
            )
        in_redis = address.startswith(_REDIS)

        async def opened() -> Threads:
            threads: Threads = RedisThreads(RedisLink(address)) if in_redis else SQLThreads(ConnectionManager(address))
            try:
                await threads.initialize()
            except BaseException:
                await threads.close()
                raise
            return threads

        super().__init__(opened, one=not in_redis and DatabaseURL.parse(address).in_memory)

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
