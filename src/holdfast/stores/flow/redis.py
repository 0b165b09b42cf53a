"""Flow checkpoints in Redis, or on a Redis Cluster."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from holdfast.core.durations import checked_seconds
from holdfast.errors import ConfigurationError
from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import MAX_BYTES, ShelfBackend
from holdfast.stores.flow.redis_shelf import RedisShelf
from holdfast.stores.flow.straight import Straight
from holdfast.stores.flow.verbs import as_storage_error
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_blocking import BlockingRedisLink
from holdfast.stores.redis_url import address_of
from holdfast.stores.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, Self

    from holdfast.model.workflow import Duration

PREFIX = "{holdfast:flow_checkpoint}:"
WEEK = 86400 * 7


class RedisCheckpointBackend(ShelfBackend):
    """Flow checkpoints in Redis. Those of a run that has ended go after *default_ttl* seconds; None keeps them.

    Where it is, is said by *host*, *port*, *db* and *password*, by ``unix_socket_path=``, or by *url* instead. Further
    arguments go to the client as options of its URL (``socket_timeout=5``, ``username="app"``, ``ssl=True``).
    Redis is as durable as it is set up to be: with ``appendfsync always`` what was saved survives a crash.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        password: str | None = None,
        prefix: str = PREFIX,
        default_ttl: Duration | None = WEEK,
        *,
        url: str | None = None,
        max_bytes: int = MAX_BYTES,
        max_checkpoints: int | None = None,
        clock_offset_key: str | None = None,
        world: World | None = None,
        **kwargs: Any,
    ) -> None:
        surroundings = world or RealWorld()
        if url is None:
            address = _address(host, port, db, password, kwargs)
        elif (host, port, db, password) == ("localhost", 6379, 0, None):
            address_of(url)
            address = _with(url, kwargs)
        else:
            raise ConfigurationError("Say where Redis is once: by url=, or by host, port, db and password.")
        address_of(address)  # refuses what it cannot read
        _refuse_unless_it_fits(address, prefix)
        ttl = None if default_ttl is None else ceil(checked_seconds(default_ttl, "default_ttl", least=1))
        way = _way(address, clock_offset_key, lambda link: RedisShelf(link, surroundings, prefix=prefix, ttl=ttl))
        super().__init__(way, max_bytes=max_bytes, max_checkpoints=max_checkpoints, world=surroundings)

    @classmethod
    def from_url(cls, url: str, *, prefix: str = PREFIX, default_ttl: Duration | None = WEEK) -> Self:
        """Return a backend for the Redis at *url*, ``redis://`` or ``redis+cluster://``."""
        address_of(url)  # None, which would be no URL, among what it refuses
        return cls(prefix=prefix, default_ttl=default_ttl, url=url)


def _way(address: str, clock_offset_key: str | None, shelf_on: Callable[[RedisLink], RedisShelf]) -> Sides[RedisShelf]:
    """Return how calls reach the shelf: on a cluster always by a loop, elsewhere also by threads that have none."""

    async def opened(link: RedisLink) -> RedisShelf:
        shelf = shelf_on(link)
        with as_storage_error("The checkpoints could not be opened"):
            await shelf.initialize()
        return shelf

    def on_a_loop() -> Coroutine[Any, Any, RedisShelf]:
        return opened(RedisLink(address, clock_offset_key=clock_offset_key))

    def here() -> Coroutine[Any, Any, RedisShelf]:
        return opened(BlockingRedisLink(address, clock_offset_key=clock_offset_key))

    return Sides(on_a_loop) if "+cluster://" in address else Straight(on_a_loop, here)


def _address(host: str, port: int, db: int, password: str | None, options: dict[str, Any]) -> str:
    if not isinstance(host, str):
        raise ConfigurationError(f"The host of Redis is its name, not {type(host).__name__}.")
    if "://" in host:
        raise ConfigurationError("The host of Redis is its name, not a URL: give a URL as url=, or to from_url().")
    scheme = "rediss" if options.pop("ssl", False) else "redis"
    secret = "" if password is None else f":{quote(password, safe='')}@"
    socket = options.pop("unix_socket_path", None)
    if socket is not None:
        return _with(f"unix://{secret}{quote(socket)}", {"db": db, **options})
    place = f"[{host}]" if ":" in host else host  # an address of IPv6
    return _with(f"{scheme}://{secret}{place}:{port}/{db}", options)


def _with(url: str, options: dict[str, Any]) -> str:
    """Return *url* with *options* behind those it has."""
    # Nobody sees the answers that would be decoded; and None is how the client says that nothing was said.
    given = {name: value for name, value in options.items() if name != "decode_responses" and value is not None}
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            raise ConfigurationError(f"The option {name} of Redis is text or a number; a URL cannot say anything else.")
    if not given:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(given)}"


def _refuse_unless_it_fits(address: str, prefix: str) -> None:
    if not isinstance(prefix, str):
        raise ConfigurationError(f"The prefix of the keys is text, not {type(prefix).__name__}.")
    begin = prefix.find("{")
    if "+cluster://" in address and not 0 <= begin < prefix.find("}", begin) - 1:
        raise ConfigurationError(
            f"On a Redis Cluster the prefix has a hash tag, so that all keys lie on one node: '{{{prefix}}}:', for one."
        )
