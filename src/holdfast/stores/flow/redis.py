"""Flow checkpoints in Redis, or on a Redis Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import CheckpointBackend
from holdfast.stores.flow.redis_shelf import RedisShelf
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from typing import Self

PREFIX = "{holdfast:flow_checkpoint}:"
_WEEK = 86400 * 7


class RedisCheckpointBackend(CheckpointBackend):
    """Flow checkpoints in Redis. A checkpoint of a run that has ended goes after *default_ttl* seconds.

    Redis is as durable as it is set up to be: with ``appendfsync always`` what was saved survives a crash.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        password: str | None = None,
        prefix: str = PREFIX,
        default_ttl: int | None = _WEEK,
        *,
        url: str | None = None,
        clock_offset_key: str | None = None,
        world: World | None = None,
    ) -> None:
        surroundings = world or RealWorld()
        secret = "" if password is None else f":{quote(password, safe='')}@"
        address = url or f"redis://{secret}{host}:{port}/{db}"

        async def opened() -> RedisShelf:
            link = RedisLink(address, clock_offset_key=clock_offset_key)
            shelf = RedisShelf(link, surroundings, prefix=prefix, ttl=default_ttl)
            await shelf.initialize()
            return shelf

        super().__init__(opened, world=surroundings)

    @classmethod
    def from_url(cls, url: str, *, prefix: str = PREFIX, default_ttl: int | None = _WEEK) -> Self:
        """Return a backend for the Redis at *url*, ``redis://`` or ``redis+cluster://``."""
        return cls(prefix=prefix, default_ttl=default_ttl, url=url)
