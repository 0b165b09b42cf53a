"""A Redis Cluster of one's own: three nodes that share the slots, without replicas."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from typing import Any, Self

from holdfast.errors import DriverMissing, Unavailable
from holdfast.testing.servers.ports import free_port
from holdfast.testing.servers.redis import RedisServer

_SLOTS = 16384
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.05


class _Node(RedisServer):
    """A server with the password of its cluster, and a port for the other nodes."""

    def __init__(self, password: str, bus: int) -> None:
        super().__init__(settings={"cluster-enabled": "yes", "cluster-port": str(bus), "databases": "1"})
        self._password = password


class RedisCluster:
    """Three nodes, each a server of its own, with one password.

    It ends with the ``with`` block, and with the process that started it.
    """

    def __init__(self, *, nodes: int = 3) -> None:
        self._count = nodes
        self._running = ExitStack()
        self._nodes: list[RedisServer] = []

    @property
    def url(self) -> str:
        """Where a client begins: the first node, as a cluster."""
        return self._nodes[0].url.replace("redis://", "redis+cluster://")

    @property
    def node_urls(self) -> list[str]:
        """Return where each node is, as a server by itself."""
        return [node.url for node in self._nodes]

    def start(self) -> Self:
        """Start the nodes, have them meet, and share out the slots; return when every one says that all is well."""
        buses = [free_port() for _ in range(self._count)]
        password = secrets.token_hex(16)
        for bus in buses:
            self._nodes.append(self._running.enter_context(_Node(password, bus)))
        clients = self._clients()
        for number, (client, node, bus) in enumerate(zip(clients, self._nodes, buses, strict=True)):
            first, last = (_SLOTS * place // self._count for place in (number, number + 1))
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        self._wait(clients)
        return self

    def kill(self) -> None:
        """SIGKILL all nodes; the data stays for ``restart``."""
        for node in self._nodes:
            node.kill()

    def restart(self) -> None:
        """Start the nodes that were killed, on the same data; return when every one says that all is well."""
        for node in self._nodes:
            node.start()
        self._wait(self._clients())

    def close(self) -> None:
        """End the nodes and remove their data."""
        self._running.close()

    def _clients(self) -> list[Any]:
        return [self._running.enter_context(_client(node.url)) for node in self._nodes]

    def _wait(self, clients: list[Any]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not all(_is_well(client, self._count) for client in clients):
            if time.monotonic() > deadline:
                raise Unavailable(f"The Redis Cluster did not come together: {self._nodes[0].log_tail()}")
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_well(client: Any, count: int) -> bool:
    told = client.execute_command("CLUSTER INFO")
    return (told["cluster_state"], told["cluster_known_nodes"], told["cluster_slots_ok"]) == (
        "ok",
        str(count),
        str(_SLOTS),
    )


def _client(url: str) -> Any:
    try:
        from redis import Redis  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise DriverMissing("Redis needs the extra: pip install 'holdfast[redis]'.") from error
    return Redis.from_url(url, decode_responses=True)


__all__ = ["RedisCluster"]
