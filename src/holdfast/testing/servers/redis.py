"""A Redis server of one's own."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import ConfigurationError
from holdfast.testing.servers.server import Server, on_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.testing.servers.keeper import Keeper


class RedisServer(Server):
    """Redis that syncs its append-only file at every write, with a password.

    ``appendfsync always``, since an acknowledged write must survive a kill: with ``everysec`` Redis may put a
    write off for two seconds while a sync is under way. *settings* are added to the command line.
    """

    kind: ClassVar[str] = "redis"
    package: ClassVar[str] = "redis-server"
    _user: ClassVar[str] = "redis"
    _polite: ClassVar[signal.Signals] = signal.SIGTERM
    _abrupt: ClassVar[signal.Signals] = signal.SIGKILL  # it knows no shutdown that is faster than the clean one

    def __init__(self, *, settings: Mapping[str, str] | None = None, base: Path | None = None) -> None:
        super().__init__(settings=settings, base=base)
        daemon = on_path("redis-server")
        if daemon is None:
            raise ConfigurationError(
                "There is no Redis server on this machine. Install the Debian package 'redis-server'."
            )
        self._daemon = daemon

    @classmethod
    def installed(cls) -> bool:
        return on_path("redis-server") is not None

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def _prepare(self, keeper: Keeper) -> None:
        """Nothing: Redis makes its files itself."""

    def _command(self, folder: Path, port: int) -> list[str]:
        settings = {
            "dir": str(folder),
            "bind": "127.0.0.1",
            "port": str(port),
            "requirepass": self._password,
            "databases": "1000",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            **self._settings,
        }
        chosen = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [self._daemon, *chosen]
