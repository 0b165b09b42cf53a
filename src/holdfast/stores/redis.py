"""Redis for the stores that have a form there: one client, and scripts that run whole or not at all.

A script is Lua in a ``.lua`` file beside its store. It may call ``now_ms()``, the server's clock. Every key of one
call shares a hash tag, so that the same scripts run on a cluster.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import DriverMissing, InvalidURL, NotInitialized, QueryFailed, Unavailable, UnknownCommit
from holdfast.stores.opened import Opened
from holdfast.stores.redis_packets import Packets, packed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")

_CLUSTER = "+cluster://"
PAUSES = (0.05, 0.2, 0.5, 1.0)  # between tries of what may run twice
SECONDS = 10.0
_AT_ONCE = 64  # calls under way; more wait their turn, where the driver would refuse them
_CLOCK = "local function now_ms() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000){} end\n"


class RedisLink(Opened):
    """A Redis server, or with ``redis+cluster://`` a cluster, reached by URL.

    *clock_offset_key* names a key with milliseconds that are added to the server's clock, for tests. Nothing is ever
    sent twice behind the back of the caller: see ``run``.
    """

    blocks = False

    def __init__(self, url: str, *, clock_offset_key: str | None = None) -> None:
        self._url = url
        self.address = url.rpartition("@")[2]  # which server and which database, whoever logs in
        moved = "" if clock_offset_key is None else f" + tonumber(redis.call('GET', '{clock_offset_key}') or '0')"
        self._prelude = _CLOCK.format(moved)
        self._client: Any = None
        self._packets: Packets | None = None  # a cluster has none
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._texts: dict[Path, tuple[str, str]] = {}

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing. Raises ``DriverMissing`` or ``Unavailable``."""
        if self._client is None:
            client = _client(self._url)
            try:
                await client.ping()
            except (*lost(), *refused()) as error:
                await client.aclose()
                raise Unavailable(f"Redis cannot be reached: {plain(error)}") from error
            self._client = client
            self._packets = None if _CLUSTER in self._url else Packets(client.connection_pool)

    async def close(self) -> None:
        """End the connections; a second call changes nothing."""
        client, packets, self._client, self._packets = self._client, self._packets, None, None
        if packets is not None:
            await packets.close()
        if client is not None:
            await client.aclose()

    @property
    def client(self) -> Any:
        """The client of the ``redis`` package, which raises errors of its own: ``read`` with it, change by a script."""
        if self._client is None:
            raise NotInitialized("This Redis store is not open; call initialize() first.")
        return self._client

    async def run(self, script: Path, keys: Sequence[str], args: Sequence[Any] = (), *, again: bool = False) -> Any:
        """Run a script; replies are bytes and numbers.

        With *again* it is run once more after a lost reply, which only a script may ask for that changes nothing the
        second time. Without, ``UnknownCommit`` says that it may have run.
        """
        try:
            return await self._tried(lambda: self._evaluated(script, keys, args), PAUSES if again else ())
        except lost() as error:
            raise UnknownCommit(f"Redis did not answer, it may have done it: {plain(error)}") from error
        except refused() as error:
            raise QueryFailed(f"Redis refused the script {script.name}: {error}") from error

    async def read(self, command: str, *args: Any) -> Any:
        """Call a method of the client that changes nothing, again after a lost reply; ``Unavailable`` if none comes."""
        try:
            return await self._tried(lambda: getattr(self.client, command)(*args), PAUSES)
        except lost() as error:
            raise Unavailable(f"Redis did not answer: {plain(error)}") from error
        except refused() as error:
            raise QueryFailed(f"Redis refused to answer: {error}") from error

    async def _tried(self, ask: Callable[[], Awaitable[T]], pauses: Sequence[float]) -> T:
        for pause in pauses:
            try:
                return await ask()
            except lost():
                await self._pause(pause)
        return await ask()

    async def _evaluated(self, script: Path, keys: Sequence[str], args: Sequence[Any]) -> Any:
        from redis.exceptions import NoScriptError  # noqa: PLC0415 -- an extra

        if script not in self._texts:
            text = self._prelude + await self._read(script)
            self._texts[script] = text, sha1(text.encode(), usedforsecurity=False).hexdigest()
        text, digest = self._texts[script]
        try:
            return await self._asked("EVALSHA", digest, len(keys), *keys, *args)
        except NoScriptError:  # the server has been restarted, or has never seen it
            return await self._asked("EVAL", text, len(keys), *keys, *args)

    async def _read(self, script: Path) -> str:
        return await asyncio.to_thread(script.read_text, "utf-8")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _asked(self, *command: Any) -> Any:
        client = self.client
        if self._packets is not None:
            return await self._packets.ask(packed(command))
        async with self._turns:
            return await client.execute_command(*command)


def _client(url: str) -> Any:
    try:
        from redis.asyncio import Redis  # noqa: PLC0415 -- an extra
        from redis.asyncio.cluster import RedisCluster  # noqa: PLC0415
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
    except ImportError as error:
        raise DriverMissing("Redis needs the extra: pip install 'holdfast[redis]'.") from error
    once = Retry(NoBackoff(), 0)  # the driver would send a script again that may have run
    with readable_url():
        if _CLUSTER in url:
            return RedisCluster.from_url(url.replace(_CLUSTER, "://"), socket_timeout=SECONDS, retry=once)
        return Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once)


@contextmanager
def readable_url() -> Iterator[None]:
    """Turn what the driver says of a URL into ``InvalidURL``, without its text: it may quote the password."""
    try:
        yield
    except ValueError:
        raise InvalidURL("The URL of Redis cannot be read: write redis://[user:password@]host:port/number.") from None


def lost() -> tuple[type[BaseException], ...]:
    """Return what the driver raises when no answer came, or the one that a cluster is not whole now."""
    from redis import exceptions  # noqa: PLC0415 -- an extra

    of_clusters = (exceptions.RedisClusterException, exceptions.ClusterError, exceptions.TryAgainError)
    return (exceptions.ConnectionError, exceptions.TimeoutError, OSError, *of_clusters)


def refused() -> tuple[type[BaseException], ...]:
    """Return what the driver raises, lost answers among it."""
    from redis import exceptions  # noqa: PLC0415 -- an extra

    return (exceptions.RedisError,)


def plain(error: BaseException) -> str:
    """Say what happened without the address, which may hold a password."""
    return type(error).__name__
