"""Redis for code without an event loop: a call is one request and its answer on a socket of the calling thread.

The methods are coroutines, so that the stores are written once, but they never wait for a loop: whoever drives them by
hand has the result at the first step.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import DriverMissing, NotInitialized, Unavailable
from holdfast.stores.redis import SECONDS, RedisLink, lost, plain, refused
from holdfast.stores.redis_packets import packed
from holdfast.stores.redis_url import readable_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_CLOSED = "This Redis store is not open; call initialize() first."


class BlockingRedisLink(RedisLink):
    """A Redis server, reached by URL, for any number of threads. A cluster has no such link.

    Connections are kept when a call has ended, and are never shared with a fork. A call blocks its thread.
    """

    blocks = True

    def __init__(self, url: str, *, clock_offset_key: str | None = None) -> None:
        super().__init__(url, clock_offset_key=clock_offset_key)
        self._make: Callable[[], Any] | None = None
        self._idle: list[Any] = []
        self._pid = 0

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing. Raises ``DriverMissing`` or ``Unavailable``."""
        if self._make is None:
            self._make, self._pid = _maker(self._url), os.getpid()
            try:
                self._ask(("PING",))
            except (*lost(), *refused()) as error:
                self._make = None
                raise Unavailable(f"Redis at {self.address} cannot be reached: {plain(error)}") from error

    async def close(self) -> None:
        """End the connections; a second call changes nothing."""
        self._make = None
        self._drop_idle()

    async def _read(self, script: Path) -> str:
        return script.read_text("utf-8")  # noqa: ASYNC240 -- no loop waits for it

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 -- no loop waits for it: the calling thread is the one that does

    async def _asked(self, *command: Any) -> Any:
        if self._make is None:
            raise NotInitialized(_CLOSED)
        return self._ask(command)

    def _ask(self, command: tuple[Any, ...]) -> Any:
        connection = self._connection()
        try:
            connection.send_packed_command([packed(command)])
            answer = connection.read_response()
        except refused() as error:
            if isinstance(error, lost()):
                connection.disconnect()
                self._drop_idle()
            else:
                self._idle.append(connection)
            raise
        except OSError:
            connection.disconnect()
            self._drop_idle()
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return answer

    def _drop_idle(self) -> None:
        """End the connections that are not in use. Where one was lost, so are others: each would cost a try."""
        with contextlib.suppress(IndexError):
            while True:  # one by one: a thread may take one meanwhile
                self._idle.pop().disconnect()

    def _connection(self) -> Any:
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            if (make := self._make) is None:  # closed meanwhile
                raise NotInitialized(_CLOSED) from None
            connection = make()
            connection.connect()
            return connection


def _maker(url: str) -> Callable[[], Any]:
    """Return what makes a connection. The driver's pool would count those that are gone, until it makes no more."""
    try:
        from redis import ConnectionPool  # noqa: PLC0415 -- an extra
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415
    except ImportError as error:
        raise DriverMissing("Redis needs the extra: pip install 'holdfast[redis]'.") from error
    once = Retry(NoBackoff(), 0)  # the driver would send a script again that may have run
    with readable_url():
        pool = ConnectionPool.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once)
        make = partial(pool.connection_class, **pool.connection_kwargs)
        make()  # connects to nothing, and finds options that there are not
        return make


__all__ = ["BlockingRedisLink"]
