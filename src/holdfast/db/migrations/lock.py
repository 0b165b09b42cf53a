"""The lock that lets one process at a time migrate a database. It saves work and noise; nothing needs it.

PostgreSQL and MariaDB/MySQL have locks by number or name, which belong to a session. Ours has a connection of
its own, inside a transaction: a pooler between us and the server then keeps it on one session until the lock
is given back. SQLite needs none, since a transaction that may write has the file to itself.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.db.backend import PooledBackend
from holdfast.db.session import Transaction
from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries

logger = logging.getLogger("holdfast.migrations")

LOOKS = 30
SECONDS_BETWEEN_LOOKS = 1.0


def lock_id(database: str | None, schema: str) -> int:
    """Return the number of the lock: one for each schema of each database, positive and of 63 bits."""
    digest = hashlib.sha256(f"holdfast migrations\0{database}\0{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@asynccontextmanager
async def migration_lock(
    manager: ConnectionManager, queries: Queries, schema: str, still_needed: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Hold the lock during the block; if it is not to be had in 30 seconds, warn and go in without it.

    While another process has it, *still_needed* is asked once a second: what it guards may be done meanwhile.
    """
    backend = manager.backend()
    if not isinstance(backend, PooledBackend):
        yield
        return
    session = await backend.connect()
    try:
        lock = _Lock(Transaction(session, manager.dialect), queries, lock_id(manager.url.database, schema))
        await session.begin()
        await _take(lock, manager, still_needed)
        try:
            yield
        finally:
            with suppress(DatabaseError):  # a lock whose session is gone is gone as well
                await lock.release()
    finally:
        with suppress(DatabaseError):
            await session.rollback()
        await session.close()


class _Lock:
    def __init__(self, transaction: Transaction, queries: Queries, number: int) -> None:
        self._transaction = transaction
        self._try = queries["migration_lock_try"]
        self._release = queries["migration_lock_release"]
        self._number = number
        self._held = False

    async def take(self) -> bool:
        row = await self._transaction.fetchone(self._try, lock=self._number)
        self._held = row is not None and bool(row["held"])
        return self._held

    async def release(self) -> None:
        if self._held:
            await self._transaction.fetch(self._release, lock=self._number)


async def _take(lock: _Lock, manager: ConnectionManager, still_needed: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(LOOKS):
        try:
            if await lock.take():
                return
        except DatabaseError as error:
            logger.warning("The migrations of %s run without a lock: %s", manager.url.safe, error)
            return
        await manager.world.sleep(SECONDS_BETWEEN_LOOKS)
        if not await still_needed():
            return
    logger.warning(
        "Another process has held the lock for migrations of %s for %g s; they run without it. "
        "If that process hangs, end it.",
        manager.url.safe,
        LOOKS * SECONDS_BETWEEN_LOOKS,
    )


__all__ = ["LOOKS", "SECONDS_BETWEEN_LOOKS", "lock_id", "migration_lock"]
