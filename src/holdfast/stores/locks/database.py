"""``SQLLockStore``: locks in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.stores.commits import Commits
from holdfast.stores.keys import checked_key
from holdfast.stores.locks.facts import AcquireLocks, ExtendLocks, ReleaseLocks
from holdfast.stores.locks.lease import Held, Lease, lease_of
from holdfast.stores.locks.queries import lock_queries
from holdfast.stores.locks.store import DistributedLock
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.model.world import World


class SQLLockStore(DistributedLock):
    """Locks in the table ``holdfast_locks``, one row a key, which stays when the lock is released."""

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
        pipeline: Pipeline | None = None,
    ) -> None:
        check_manager(self, manager)
        super().__init__(world=world)
        self._manager = manager
        self._schema = schema
        self._commits = Commits(manager, pipeline)
        queries = lock_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)
        self._look = queries["locks_look"]
        self._acquires = AcquireLocks(queries)
        self._releases = ReleaseLocks(queries)
        self._extends = ExtendLocks(queries)

    async def initialize(self) -> None:
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        await self._commits.close()

    async def get(self, key: str) -> Lease | None:
        key = checked_key(key, "key of a lock")
        for row in await self._manager.fetch_batch(self._look, [(key,)]):
            if row["owner"] is not None and row["expires_at_ms"] > row["now_ms"]:
                return lease_of(key, row["owner"], row["token"], row["expires_at_ms"])
        return None

    async def _acquire(self, key: str, owner: str, claim_key: str, ttl_ms: int) -> Lease | Held:
        return await self._commits.claim(self._acquires, (key, owner, claim_key, ttl_ms), self._undo)

    async def _undo(self, found: Lease | Held) -> None:
        if isinstance(found, Lease):
            await self.release(found)

    async def _release(self, lease: Lease, key: str) -> bool:
        return await self._commits.write(self._releases, (lease.key, lease.token, lease.owner, key))

    async def _extend(self, lease: Lease, ttl_ms: int) -> bool:
        return await self._commits.write(self._extends, (lease.key, lease.token, lease.owner, ttl_ms))


__all__ = ["SQLLockStore"]
