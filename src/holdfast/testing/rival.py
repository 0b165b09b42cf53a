"""A second program on the engine's tables that locks rows in an unlucky order, or for too long.

It stands for an operator's session, a backup, a query tool that somebody left open. The errors are the server's own.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager
from holdfast.errors import Retryable
from holdfast.testing.contract.venue import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db import Transaction

_LOOKS = 6
_LOOK_AGAIN = 0.15  # MariaDB shows what it saw before to whoever looks again within a tenth of a second
_TURN = 0.2  # between rounds, so that the others get on

_WAITED_FOR_ON_POSTGRES = """
    SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""
_WAITED_FOR_ON_MARIADB = """
    SELECT count(*) AS waiting FROM information_schema.innodb_lock_waits AS w
    JOIN information_schema.innodb_trx AS t ON t.trx_id = w.blocking_trx_id
    WHERE t.trx_mysql_thread_id = CONNECTION_ID()
"""


class _Over(Exception):
    """A round ends without a commit."""


class Rival:
    """Locks runs in the database at *url*, from the thread that calls it. One instance, one thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._postgres = url.startswith("postgresql")
        self._draw = random.Random(0)  # noqa: S311 -- to be repeatable is the point
        self._runs = f"{'holdfast.' if self._postgres else ''}workflow_status"

    def lock_in_opposite_order(self, enough: Callable[[], bool]) -> None:
        """Take a run that another session needs next, then those it holds: again and again, until *enough* says so.

        The server cuts such a knot, as far as that can be had at the other's end. It also ends when no run is left.
        *enough* is asked on an event loop, and must not wait.
        """
        asyncio.run(self._again(enough, self._tie_a_knot))

    def change_what_others_wait_for(self, enough: Callable[[], bool]) -> None:
        """Change a run's row while another session waits for it, again and again; nothing is changed but its version.

        Where the database's transactions are REPEATABLE READ or stricter, the other's cannot go on after that.
        """
        asyncio.run(self._again(enough, self._change_one))

    def hold_all(self, enough: Callable[[], bool]) -> None:
        """Lock every run that has not ended, and let go when *enough* says so."""
        asyncio.run(self._hold(enough))

    async def _again(
        self, enough: Callable[[], bool], play: Callable[[Transaction, list[str]], Awaitable[None]]
    ) -> None:
        async with ConnectionManager(self._url) as manager:
            if not self._postgres:
                await manager.execute("CREATE TABLE IF NOT EXISTS ballast (number int PRIMARY KEY)")
            while not enough():
                ids = await manager.fetch(f"SELECT workflow_uuid AS id FROM {self._runs} WHERE status = 'PENDING'")
                if not ids:
                    return
                try:
                    async with manager.transaction(isolation="READ COMMITTED") as transaction:
                        await play(transaction, self._draw.sample([row["id"] for row in ids], len(ids)))
                except (_Over, Retryable):  # the latter: the server cut the knot at our end
                    pass
                await asyncio.sleep(_TURN)

    async def _tie_a_knot(self, transaction: Transaction, ids: list[str]) -> None:
        if len(ids) < 2:
            raise _Over
        if self._postgres:  # who has waited for so long looks for a knot: the other session is to be the first
            await transaction.execute("SET LOCAL deadlock_timeout = '60s'")
        else:  # who has written less is rolled back: the other session has
            await transaction.execute("INSERT INTO ballast SELECT seq FROM seq_1_to_3000")
        await self._lock(transaction, ids.pop())
        await self._waited_for(transaction)
        for each in ids:
            await self._lock(transaction, each)
        raise _Over

    async def _change_one(self, transaction: Transaction, ids: list[str]) -> None:
        await transaction.execute(f"UPDATE {self._runs} SET updated_at = updated_at WHERE workflow_uuid = ?", ids[-1])
        await self._waited_for(transaction)

    async def _lock(self, transaction: Transaction, run_id: str) -> None:
        await transaction.fetch(f"SELECT 1 AS one FROM {self._runs} WHERE workflow_uuid = ? FOR UPDATE", run_id)

    async def _waited_for(self, transaction: Transaction) -> None:
        """Return when another session waits for this one; ``_Over`` if none does for long."""
        question = _WAITED_FOR_ON_POSTGRES if self._postgres else _WAITED_FOR_ON_MARIADB
        for _ in range(_LOOKS):
            [row] = await transaction.fetch(question)
            if row["waiting"]:
                return
            await asyncio.sleep(_LOOK_AGAIN)
        raise _Over

    async def _hold(self, enough: Callable[[], bool]) -> None:
        async with ConnectionManager(self._url) as manager, manager.transaction() as transaction:
            await transaction.fetch(f"SELECT 1 AS one FROM {self._runs} WHERE status = 'PENDING' FOR UPDATE")
            await until(enough)
