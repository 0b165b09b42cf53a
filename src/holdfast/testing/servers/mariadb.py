"""A MariaDB server of one's own."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import ConfigurationError
from holdfast.testing.servers.account import unprivileged
from holdfast.testing.servers.server import Server, on_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.testing.servers.keeper import Keeper

_INSTALL_SECONDS = 60.0


class MariaDBServer(Server):
    """MariaDB that flushes its log at every commit, with one account that has a password.

    No option file of the machine is read. *settings* are added to the command line.
    """

    kind: ClassVar[str] = "mariadb"
    package: ClassVar[str] = "mariadb-server"
    _user: ClassVar[str] = "mysql"
    _polite: ClassVar[signal.Signals] = signal.SIGTERM
    _abrupt: ClassVar[signal.Signals] = signal.SIGKILL  # it knows no shutdown that is faster than the clean one

    def __init__(self, *, settings: Mapping[str, str] | None = None, base: Path | None = None) -> None:
        super().__init__(settings=settings, base=base)
        installer, daemon = on_path("mariadb-install-db"), on_path("mariadbd")
        if installer is None or daemon is None:
            raise ConfigurationError(
                "There is no MariaDB server on this machine. Install the Debian package 'mariadb-server'."
            )
        self._installer, self._daemon = installer, daemon

    @classmethod
    def installed(cls) -> bool:
        return on_path("mariadb-install-db") is not None and on_path("mariadbd") is not None

    @property
    def url(self) -> str:
        return f"mysql://holdfast:{self._password}@127.0.0.1:{self.port}/holdfast"

    def _prepare(self, keeper: Keeper) -> None:
        first_words = keeper.folder / "first.sql"
        first_words.touch(mode=0o600)
        first_words.write_text(
            "CREATE DATABASE IF NOT EXISTS holdfast CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS holdfast@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON *.* TO holdfast@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        if (account := unprivileged(self._user)) is not None:
            shutil.chown(first_words, account.user, account.group)
        # In a folder for temporary files that others use too, a server that starts removes what it takes for leftovers.
        options = [f"--datadir={keeper.folder / 'data'}", f"--tmpdir={keeper.folder}", "--skip-test-db"]
        options.append("--skip-name-resolve")
        keeper.run_to_end([self._installer, "--no-defaults", *options], seconds=_INSTALL_SECONDS)

    def _command(self, folder: Path, port: int) -> list[str]:
        settings = {
            "datadir": str(folder / "data"),
            "socket": str(folder / "socket"),
            "pid-file": str(folder / "pid"),
            "init-file": str(folder / "first.sql"),
            "tmpdir": str(folder),
            "bind-address": "127.0.0.1",
            "port": str(port),
            "max-connections": "600",
            "character-set-server": "utf8mb4",
            "innodb-flush-log-at-trx-commit": "1",
            "innodb-buffer-pool-size": "64M",
            **self._settings,
        }
        chosen = [f"--{name}={value}" for name, value in settings.items()]
        return [self._daemon, "--no-defaults", "--skip-name-resolve", *chosen]
