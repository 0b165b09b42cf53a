"""A proxy for worker processes: it runs on a loop of its own, and can be turned from one server to another.

It stands for the address that clients know of a database with a standby: a virtual IP, a name, a load balancer.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit, urlunsplit

from holdfast.testing.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

T = TypeVar("T")

_SECONDS = 30.0


class _Turning(Proxy):
    """A proxy whose server can be another from the next conversation on."""

    def turn(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self.refusing = False


class Relay:
    """Passes conversations on to the server at *port* of 127.0.0.1. Used as a ``with`` block, from any one thread."""

    def __init__(self, port: int) -> None:
        self._proxy = _Turning("127.0.0.1", port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    @property
    def port(self) -> int:
        """The port to connect to."""
        return self._proxy.port

    def url(self, url: str) -> str:
        """Return *url* with this relay in the place of its server."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{self.port}"))

    def cut(self) -> None:
        """End all conversations and let nobody in until ``turn``."""

        def close_the_door() -> None:
            self._proxy.refusing = True
            self._proxy.cut_all()

        self._do(close_the_door)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pass nothing on within the block, as a server does not answer that was stopped: no end is put to anything."""
        is_over = threading.Event()
        self._loop.call_soon_threadsafe(is_over.wait)
        try:
            yield
        finally:
            is_over.set()

    def turn(self, port: int) -> None:
        """Let clients in again, to the server at *port*."""
        self._do(lambda: self._proxy.turn(port))

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(None, None, None), self._loop).result(_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def _do(self, call: Callable[[], T]) -> T:
        async def on_the_loop() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(on_the_loop(), self._loop).result(_SECONDS)
