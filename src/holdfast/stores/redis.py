"""Redis for the stores that have a form there: one client, and scripts that run whole or not at all.

A script is Lua in a ``.lua`` file beside its store. It may call ``now_ms()``, the server's clock. Every key of one
call shares a hash tag, so that the same scripts run on a cluster.
"""

from __future__ import annotations

import asyncio
import re
from hashlib import sha1
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import (
    ConfigurationError,
    DriverMissing,
    NotInitialized,
    QueryFailed,
    Unavailable,
    UnknownCommit,
    WrongLoop,
)
from holdfast.stores.opened import Opened
from holdfast.stores.redis_packets import Packets, packed
from holdfast.stores.redis_url import address_of, readable_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

_CLUSTER = "+cluster://"
_UNMOVED = "\0unmoved"
PAUSES = (0.05, 0.2, 0.5, 1.0)  # between tries of what may run twice, or was refused for now
SECONDS = 10.0
_AT_ONCE = 64  # calls under way; more wait their turn, where the driver would refuse them
_NOT_NOW = re.compile(r"(?:^|: -)(?:READONLY|OOM|NOREPLICAS|MISCONF|BUSY) ")  # ": -" is how scripts tell before Redis 7
_CLOCK = "local function now_ms() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000){} end\n"


class RedisLink(Opened):
    """A Redis server, or with ``redis+cluster://`` a cluster, reached by URL.

    *clock_offset_key* names a key with milliseconds that are added to the server's clock, for tests. Nothing is ever
    sent twice behind the back of the caller: see ``run``.
    """

    blocks = False

    def __init__(self, url: str, *, clock_offset_key: str | None = None) -> None:
        self._url = url
        self.address = address_of(url)
        moved = "" if clock_offset_key is None else f" + tonumber(redis.call('GET', '{clock_offset_key}') or '0')"
        self._prelude = _CLOCK.format(moved)
        self._client: Any = None
        self._packets: Packets | None = None  # a cluster has none
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._astray = False
        self._texts: dict[Path, tuple[str, str]] = {}

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing. Raises ``DriverMissing`` or ``Unavailable``."""
        if self._client is not None:
            self._opened_here()
            return
        client = _client(self._url)
        try:
            await client.ping()
        except (*lost(), *refused()) as error:
            await client.aclose()
            raise Unavailable(f"Redis at {self.address} cannot be reached: {plain(error)}") from error
        if self._loop is not None:  # another task was faster
            await client.aclose()
            return
        self._client, self._loop = client, asyncio.get_running_loop()
        self._packets = None if _CLUSTER in self._url else Packets(client.connection_pool)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        """End the connections; a second call changes nothing."""
        client, packets = self._client, self._packets
        self._client = self._packets = self._loop = None
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
        second time. Without, ``UnknownCommit`` says that it may have run. One that the server refuses for now, as in a
        failover, has changed nothing: it is run again all the same, and ``Unavailable`` says that this did not help.
        """
        try:
            return await self._tried(lambda: self._evaluated(script, keys, args), again=again)
        except (*lost(), *refused()) as error:
            if not_now(error):
                raise Unavailable(f"Redis takes nothing now, and did nothing: {plain(error)}") from error
            if isinstance(error, lost()):
                raise UnknownCommit(f"Redis did not answer, it may have done it: {plain(error)}") from error
            raise QueryFailed(f"Redis refused the script {script.name}: {error}") from error

    async def look(self, script: Path, keys: Sequence[str], args: Sequence[Any] = ()) -> Any:
        """Run a script that only reads, again after a lost reply; ``Unavailable`` if none comes, not doubt."""
        try:
            return await self.run(script, keys, args, again=True)
        except UnknownCommit as error:
            raise Unavailable(f"Redis did not answer: {plain(error.__cause__ or error)}") from error.__cause__

    async def read(self, command: str, *args: Any) -> Any:
        """Call a method of the client that changes nothing, again after a lost reply; ``Unavailable`` if none comes."""
        try:
            return await self._tried(lambda: self._called(command, args), again=True)
        except (*lost(), *refused()) as error:
            if not_now(error) or isinstance(error, lost()):
                raise Unavailable(f"Redis did not answer: {plain(error)}") from error
            raise QueryFailed(f"Redis refused to answer: {error}") from error

    async def _called(self, command: str, args: tuple[Any, ...]) -> Any:
        client = self._opened_here()
        async with self._turns:
            return await getattr(client, command)(*args)

    async def _tried(self, ask: Callable[[], Awaitable[T]], *, again: bool) -> T:
        """Ask until there is an answer. One that was lost once is in doubt, whatever is said to the next tries."""
        doubt: BaseException | None = None
        for pause in (*PAUSES, None):
            try:
                return await ask()
            except NotInitialized:  # closed meanwhile
                if doubt is None:
                    raise
                raise doubt from None
            except (*lost(), *refused()) as error:
                if not not_now(error):
                    if not isinstance(error, lost()):
                        raise
                    doubt = error
                if pause is None or (doubt is not None and not again):
                    raise (doubt or error) from None
            await self._pause(pause)
        raise AssertionError("unreachable")

    async def _evaluated(self, script: Path, keys: Sequence[str], args: Sequence[Any]) -> Any:
        known = self._texts.get(script)
        if known is None:
            text = self._prelude + await self._read(script)
            known = self._texts[script] = text, sha1(text.encode(), usedforsecurity=False).hexdigest()
        text, digest = known
        try:
            return await self._asked("EVALSHA", digest, len(keys), *keys, *args)
        except _unseen():  # the server has been restarted, or has never seen it
            return await self._asked("EVAL", text, len(keys), *keys, *args)

    async def _read(self, script: Path) -> str:
        return await asyncio.to_thread(script.read_text, "utf-8")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _opened_here(self) -> Any:
        client = self.client
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop("Another event loop opened this link to Redis; make a RedisLink here and initialize it.")
        return client

    async def _asked(self, *command: Any) -> Any:
        client = self._opened_here()
        if self._packets is not None:
            return await self._packets.ask(packed(command))
        async with self._turns:
            if self._astray or not str(command[2 + command[2]]).endswith(_UNMOVED):
                answer = await client.execute_command(*command)
                self._astray = False
                return answer
            return await self._asked_of_owner(client, command)

    async def _asked_of_owner(self, client: Any, command: tuple[Any, ...]) -> Any:
        """Ask the node that has the slot of the keys. While a slot is being moved no node can run a script on it.

        The driver would go on to the node that the keys are moved to, and its ASKING on another connection than the
        script.
        """
        from redis.exceptions import MovedError  # noqa: PLC0415 -- an extra

        await client.initialize()
        try:
            return await client.get_node_from_key(command[3]).execute_command(*command)
        except MovedError:
            return await client.execute_command(*command)
        except lost():
            self._astray = True  # the next time the driver finds out who is there
            raise


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
        client = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # connects to nothing, and finds options that there are not
        return client


def _unseen() -> type[BaseException]:
    """Return what the driver raises for a script that the server does not know. It is asked where one was raised."""
    from redis.exceptions import NoScriptError  # noqa: PLC0415 -- an extra

    return NoScriptError


def lost() -> tuple[type[BaseException], ...]:
    """Return what the driver raises when no answer came, or the one that a cluster is not whole now."""
    from redis import exceptions  # noqa: PLC0415 -- an extra

    of_clusters = (exceptions.RedisClusterException, exceptions.ClusterError, exceptions.TryAgainError)
    return (exceptions.ConnectionError, exceptions.TimeoutError, OSError, *of_clusters)


def refused() -> tuple[type[BaseException], ...]:
    """Return what the driver raises, lost answers among it."""
    from redis import exceptions  # noqa: PLC0415 -- an extra

    return (exceptions.RedisError,)


def not_now(error: BaseException) -> bool:
    """Whether the server has refused for now: one that is a replica, is full, or has too few replicas.

    A script learns it from its first write, so that nothing was changed. So does one whose keys are being moved to
    another node of a cluster: nobody runs it before all are there.
    """
    from redis import exceptions  # noqa: PLC0415 -- an extra

    named = (exceptions.ReadOnlyError, exceptions.OutOfMemoryError, exceptions.TryAgainError, exceptions.AskError)
    if isinstance(error, named) or type(error) is exceptions.ClusterError:  # the driver followed redirections in vain
        return True
    return isinstance(error, exceptions.ResponseError) and _NOT_NOW.search(str(error)) is not None


def tagged(prefix: Any) -> str:
    """Return *prefix* as the hash tag that all keys of a store share; ``ConfigurationError`` if it would be none."""
    if not isinstance(prefix, str) or not prefix or prefix.startswith("}"):
        raise ConfigurationError(
            f"The prefix of a store in Redis is a text that does not begin with '}}', not {prefix!r:.50}."
        )
    return f"{{{prefix}}}"


def unmoved(prefix: str) -> str:
    """Return a name that no key has, for the scripts that touch more keys than they declare.

    While a slot of a cluster is moved, a node that lacks one of several declared keys does not run the script, where it
    would run it on half of the keys.
    """
    return prefix + _UNMOVED


def plain(error: BaseException) -> str:
    """Say what happened without the address, which may hold a password. What a server answers has none."""
    from redis.exceptions import ResponseError  # noqa: PLC0415 -- an extra

    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, ResponseError) else name
