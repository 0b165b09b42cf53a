"""What the three private servers have in common: their life."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from holdfast.errors import MisuseError, Unavailable
from holdfast.testing.servers.account import base_folder, unprivileged
from holdfast.testing.servers.databases import databases_of
from holdfast.testing.servers.keeper import Keeper
from holdfast.testing.servers.ports import free_port

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from pathlib import Path

_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02
_PORT_TRIES = 10
_PORT_TAKEN = "Address already in use"


class Server(ABC):
    """A server of one's own: a fresh data folder, a free port of 127.0.0.1, a random password.

    It ends and its folder is removed by ``close``, by leaving the ``with`` block, and when the process that
    started it is gone in whatever way. All methods block; a coroutine calls them through
    ``asyncio.to_thread``. One server is used by one thread at a time. Its folder is made in *base*, which must let
    every user pass; by default where temporary files are.
    """

    kind: ClassVar[str]
    package: ClassVar[str]
    _user: ClassVar[str]
    _polite: ClassVar[signal.Signals]
    _abrupt: ClassVar[signal.Signals]

    def __init__(self, *, settings: Mapping[str, str] | None = None, base: Path | None = None) -> None:
        self._settings = dict(settings or {})
        self._base = base
        self._password = secrets.token_hex(16)
        self._keeper: Keeper | None = None
        self._port: int | None = None

    @classmethod
    @abstractmethod
    def installed(cls) -> bool:
        """Say whether the server's programs are on this machine."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the server's first database, with name and password."""

    @abstractmethod
    def _prepare(self, keeper: Keeper) -> None:
        """Make the data folder."""

    @abstractmethod
    def _command(self, folder: Path, port: int) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 it listens on; the same through stops and restarts."""
        if self._port is None:
            raise MisuseError(f"The {self.kind} server has not been started; call start().")
        return self._port

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._keeper is not None and self._port is not None and self._keeper.exit_code() is None

    def start(self) -> Self:
        """Start it, or start it again on the same port and data; return when it lets us log in."""
        if self.running:
            raise MisuseError(f"The {self.kind} server is running; stop() or kill() it before start().")
        if self._keeper is None:
            self._keeper = Keeper(self._base or base_folder(), unprivileged(self._user), self._abrupt)
            self._prepare(self._keeper)
        for _ in range(_PORT_TRIES):
            port = self._port or free_port()
            self._keeper.run(self._command(self._keeper.folder, port))
            if self._listens(self._keeper, port):
                return self
        raise Unavailable(f"The {self.kind} server found its port taken {_PORT_TRIES} times; see what listens there.")

    def stop(self, *, immediate: bool = False) -> None:
        """Shut it down, by default cleanly; with *immediate* as fast as it can without help from its clients.

        The data stays for ``start``. A server that does not end in half a minute is killed.
        """
        keeper = self._started()
        keeper.signal(self._abrupt if immediate else self._polite)
        if keeper.wait(_STOP_SECONDS) is None:
            keeper.kill()

    def kill(self) -> None:
        """SIGKILL its processes, all of them; return when they are gone. The data stays for ``start``."""
        self._started().kill()

    def restart(self, *, immediate: bool = False) -> None:
        """Stop it and start it on the same port and data."""
        self.stop(immediate=immediate)
        self.start()

    def close(self) -> None:
        """End it and remove its data. Closing again does nothing."""
        if self._keeper is not None:
            self._keeper.close()

    def log_tail(self) -> str:
        """Return the end of the server's log."""
        return "(not started)" if self._keeper is None else self._keeper.log_tail()

    def create_database(self) -> str:
        """Make an empty database of the caller's own and return its URL."""
        return databases_of(self.url).create(self.url)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Keeper:
        if self._keeper is None or not self.running:
            raise MisuseError(f"The {self.kind} server is not running; call start().")
        return self._keeper

    def _listens(self, keeper: Keeper, port: int) -> bool:
        """Wait until we can log in; return False if somebody else has the port.

        Only our server knows our password, so an answer to the login is an answer from it.
        """
        before, self._port = self._port, port
        deadline = time.monotonic() + _READY_SECONDS
        refusal: Unavailable | None = None
        while keeper.exit_code() is None and time.monotonic() < deadline:
            try:
                databases_of(self.url).ping(self.url)
            except Unavailable as error:
                refusal = error
                time.sleep(_POLL_SECONDS)
            else:
                return True
        self._port = before
        keeper.kill()
        log = keeper.log_tail()
        if _PORT_TAKEN in log:
            return False
        why = refusal or "it ended before it could be asked."
        raise Unavailable(f"The {self.kind} server did not start: {why}\nThe end of its log:\n{log}") from refusal


def on_path(program: str) -> str | None:
    """Return where *program* is; daemons live in sbin folders that users do not have in their PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))
