"""The servers of one test run: one of each kind, started side by side, or the running ones that are named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from holdfast.testing.servers.given import GivenServer
from holdfast.testing.servers.mariadb import MariaDBServer
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.redis import RedisServer

if TYPE_CHECKING:
    from holdfast.testing.servers.server import Server

KINDS: dict[str, type[PostgresServer | MariaDBServer | RedisServer]] = {
    kind.kind: kind for kind in (PostgresServer, MariaDBServer, RedisServer)
}


class Fleet:
    """One server of each kind that is named or installed; the others are simply not in ``urls``.

    Whoever starts a fleet closes it; should that not happen, the servers end with the process.
    """

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self._servers: list[Server | GivenServer] = []

    def start(self) -> Self:
        """Start all at once. If one fails, none is left running and its error is raised."""
        self._servers = [server for kind in KINDS if (server := _choose(kind)) is not None]
        try:
            with ThreadPoolExecutor(len(self._servers) or 1) as threads:
                for started in [threads.submit(server.start) for server in self._servers]:
                    started.result()
        except BaseException:
            self.close()
            raise
        self.urls = {server.kind: server.url for server in self._servers}
        return self

    def close(self) -> None:
        """End those that we started. Closing again does nothing."""
        with ThreadPoolExecutor(len(self._servers) or 1) as threads:
            list(threads.map(lambda server: server.close(), self._servers))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _choose(kind: str) -> Server | GivenServer | None:
    given = GivenServer.from_environment(kind)
    if given is not None:
        return given
    return KINDS[kind]() if KINDS[kind].installed() else None
