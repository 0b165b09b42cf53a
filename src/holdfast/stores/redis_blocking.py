"""Redis for code without an event loop: a call is one request and its answer on a socket of the calling thread.

The methods are coroutines, so that the stores are written once, but they never wait for a loop: whoever drives them by
hand has the result at the first step.
"""

from __future__ import annotations

import os
import time
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from holdfast.errors import DriverMissing, NotInitialized, QueryFailed, Unavailable, UnknownCommit
from holdfast.stores.redis import PAUSES, SECONDS, RedisLink, lost, plain, readable_url, refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class BlockingRedisLink(RedisLink):
    """A Redis server, reached by URL, for any number of threads. A cluster has no such link.

    Connections are kept when a call has ended, and are never shared with a fork. A call blocks its thread.
    """

    blocks = True

    def __init__(self, url: str, *, clock_offset_key: str | None = None) -> None:
        super().__init__(url, clock_offset_key=clock_offset_key)
        self._pool: Any = None
        self._idle: list[Any] = []
        self._pid = 0
        self._texts: dict[Path, tuple[str, str]] = {}

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing. Raises ``DriverMissing`` or ``Unavailable``."""
        if self._pool is None:
            self._pool, self._pid = _pool(self._url), os.getpid()
            try:
                self._ask(("PING",))
            except lost() as error:
                self._pool = None
                raise Unavailable(f"Redis cannot be reached: {plain(error)}") from error

    async def close(self) -> None:
        """End the connections; a second call changes nothing."""
        idle, self._idle, self._pool = self._idle, [], None
        for connection in idle:
            connection.disconnect()

    async def run(self, script: Path, keys: Sequence[str], args: Sequence[Any] = (), *, again: bool = False) -> Any:
        if self._pool is None:
            raise NotInitialized("This Redis store is not open; call initialize() first.")
        for pause in (*PAUSES, None):
            try:
                return self._evaluated(script, keys, args)
            except lost() as error:
                if not again or pause is None:
                    raise UnknownCommit(f"Redis did not answer, it may have done it: {plain(error)}") from error
                time.sleep(pause)  # noqa: ASYNC251 -- no loop waits for it: the calling thread is the one that does
            except refused() as error:
                raise QueryFailed(f"Redis refused the script {script.name}: {error}") from error
        raise AssertionError("unreachable")

    def _evaluated(self, script: Path, keys: Sequence[str], args: Sequence[Any]) -> Any:
        from redis.exceptions import NoScriptError  # noqa: PLC0415 -- an extra

        known = self._texts.get(script)
        if known is None:
            text = self._prelude + script.read_text("utf-8")
            known = self._texts[script] = text, sha1(text.encode(), usedforsecurity=False).hexdigest()
        text, digest = known
        try:
            return self._ask(("EVALSHA", digest, len(keys), *keys, *args))
        except NoScriptError:  # the server has been restarted, or has never seen it
            return self._ask(("EVAL", text, len(keys), *keys, *args))

    def _ask(self, command: tuple[Any, ...]) -> Any:
        connection = self._connection()
        try:
            connection.send_packed_command([packed(command)])
            answer = connection.read_response()
        except refused() as error:
            if isinstance(error, lost()):
                connection.disconnect()
            else:
                self._idle.append(connection)
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return answer

    def _connection(self) -> Any:
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._pool.make_connection()
            connection.connect()
            return connection


def packed(command: Sequence[Any]) -> bytes:
    """Return a command as it goes over the wire. The driver's own way looks at each part much longer."""
    parts = [b"*%d\r\n" % len(command)]
    for each in command:
        value = each if type(each) is bytes else str(each).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(value), value))
    return b"".join(parts)


def _pool(url: str) -> Any:
    try:
        from redis import ConnectionPool  # noqa: PLC0415 -- an extra
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415
    except ImportError as error:
        raise DriverMissing("Redis needs the extra: pip install 'holdfast[redis]'.") from error
    once = Retry(NoBackoff(), 0)  # the driver would send a script again that may have run
    with readable_url():
        return ConnectionPool.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once)


__all__ = ["BlockingRedisLink", "packed"]
