"""A PostgreSQL server that follows another one, falls behind, and takes its place."""

from __future__ import annotations

import asyncio
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.errors import Unavailable
from holdfast.testing.servers.account import unprivileged
from holdfast.testing.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.testing.servers.keeper import Keeper

_COPY_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_LOOK_AGAIN = 0.02


class PostgresStandby(PostgresServer):
    """A streaming standby of *primary*, which must be running when this is started for the first time.

    It starts as a copy and follows. What the primary acknowledges after ``fall_behind`` never arrives here, and is
    lost by ``promote``. It has the primary's password, and settings of its own; *binaries* are to be the primary's.
    """

    def __init__(
        self, primary: PostgresServer, *, binaries: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(binaries=binaries, settings=settings)
        self._primary = primary
        self._password = urlsplit(primary.url).password or ""

    def catch_up(self) -> None:
        """Return when everything that the primary has committed by now is here, and can be seen."""
        [position] = self._ask(self._primary.url, "SELECT pg_current_wal_lsn()::text AS lsn")
        arrived = f"SELECT coalesce(pg_last_wal_replay_lsn() >= '{position['lsn']}', false) AS yes"
        self._until(arrived, "has what its primary has")

    def fall_behind(self) -> None:
        """Stop following: return when nothing more arrives, not even what the primary has sent already."""
        self._ask(self.url, "ALTER SYSTEM SET primary_conninfo = ''")
        self._ask(self.url, "SELECT pg_reload_conf()")
        self._until("SELECT count(*) = 0 AS yes FROM pg_stat_wal_receiver", "has stopped following")

    def promote(self) -> None:
        """Take the primary's place, with what has arrived; return when writes are accepted. End the primary first."""
        self._ask(self.url, f"SELECT pg_promote(true, {_ANSWER_SECONDS:.0f})")
        self._until("SELECT NOT pg_is_in_recovery() AS yes", "accepts writes")

    def _prepare(self, keeper: Keeper) -> None:
        self._make_reachable(keeper.folder)
        passwords = keeper.folder / "passwords"  # stays: the server reads it whenever it connects to its primary
        passwords.touch(mode=0o600)
        passwords.write_text(f"127.0.0.1:{self._primary.port}:*:holdfast:{self._password}\n")
        if (account := unprivileged(self._user)) is not None:
            shutil.chown(passwords, account.user, account.group)
        options = [
            f"--dbname=host=127.0.0.1 port={self._primary.port} user=holdfast passfile={passwords}",
            f"--pgdata={keeper.folder / 'data'}",
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",  # of the copy only; the server itself syncs
        ]
        keeper.run_to_end([str(self._binaries / "pg_basebackup"), *options], seconds=_COPY_SECONDS)

    def _until(self, question: str, state: str) -> None:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not self._ask(self.url, question)[0]["yes"]:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"It did not come true within {_ANSWER_SECONDS:g} s that the standby {state}."
                    f" The end of its log:\n{self.log_tail()}"
                )
            time.sleep(_LOOK_AGAIN)

    def _ask(self, url: str, statement: str) -> list[Any]:
        """Run one statement, on a loop in a thread of its own: the caller's thread may have a loop running."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _fetch(url, statement)).result()


async def _fetch(url: str, statement: str) -> list[Any]:
    import asyncpg  # noqa: PLC0415 -- only who asks for PostgreSQL needs its driver

    connection = await asyncpg.connect(url, timeout=_ANSWER_SECONDS)
    try:
        found: list[Any] = await connection.fetch(statement, timeout=2 * _ANSWER_SECONDS)
    finally:
        await connection.close(timeout=_ANSWER_SECONDS)
    return found


__all__ = ["PostgresStandby"]
