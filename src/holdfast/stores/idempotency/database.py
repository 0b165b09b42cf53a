"""The idempotency store in a database: the table ``holdfast_idempotency``."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import UnknownCommit
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.idempotency.facts import (
    ClaimKeys,
    ExtendKeys,
    FinishKeys,
    FleetingClaimKeys,
    PutKeys,
    ReleaseKeys,
    kept,
)
from holdfast.stores.idempotency.queries import idempotency_queries
from holdfast.stores.idempotency.store import (
    ABANDONED_MS,
    AT_ONCE,
    DEFAULT_LEASE,
    DEFAULT_TTL,
    IdempotencyStore,
)
from holdfast.stores.idempotency.sweeping import Sweeping
from holdfast.stores.near import Near
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.idempotency.entry import Kept, Result


class DBIdempotencyStore(IdempotencyStore, Near):
    """Idempotency keys in PostgreSQL, MariaDB/MySQL or SQLite, shared by every process that uses the database.

    *manager* is the caller's, and stays open. Concurrent writes become one commit: of *pipeline*, if one is given that
    stands on the same manager, else of a pipeline of the store's own. Times are the database's. What has expired is
    removed now and then by stores that get new keys.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        ttl_seconds: Duration = DEFAULT_TTL,
        lease_seconds: Duration = DEFAULT_LEASE,
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        place = f"{manager.url.safe} {schema}"
        super().__init__(place, ttl_seconds=ttl_seconds, lease_seconds=lease_seconds, world=world)
        self._manager = manager
        self._schema = schema
        self._commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._queries = idempotency_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)
        self._sweeping = Sweeping(partial(self._removed, None, AT_ONCE))

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """Finish what is being written. The connection manager stays open."""
        await self._sweeping.settle()
        await self._commits.close()

    @cached_property
    def _claims(self) -> ClaimKeys:
        return ClaimKeys(self._queries)

    @cached_property
    def _fleeting_claims(self) -> FleetingClaimKeys:
        return FleetingClaimKeys(self._queries)

    @cached_property
    def _finishes(self) -> FinishKeys:
        return FinishKeys(self._queries)

    @cached_property
    def _releases(self) -> ReleaseKeys:
        return ReleaseKeys(self._queries)

    @cached_property
    def _extensions(self) -> ExtendKeys:
        return ExtendKeys(self._queries)

    @cached_property
    def _puts(self) -> PutKeys:
        return PutKeys(self._queries)

    async def _read(self, key: str) -> Kept | None:
        row = await self._manager.fetchone(self._queries["key_get"], idempotency_key=key)
        return kept(row) if row is not None and row["is_live"] else None

    async def _claim(self, key: str, fingerprint: str, token: str, lease_ms: int, note: str, *, fleeting: bool) -> Kept:
        row = (key, fingerprint, token, lease_ms, note)
        kind = self._fleeting_claims if fleeting else self._claims
        self._sweeping.count()
        # Where somebody else has the key, the token releases nothing.
        return await self._commits.claim(kind, row, lambda _: self._release(key, token))

    async def _finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        data, status_code, headers, ttl_ms = result
        row = (key, token, mark, data, status_code, headers, ttl_ms)
        return await self._commits.write(self._finishes, row)

    async def _release(self, key: str, token: str | None) -> bool:
        return await self._commits.write(self._releases, (key, token))

    async def _extend(self, key: str, token: str, lease_ms: int) -> bool:
        return await self._commits.write(self._extensions, (key, token, lease_ms))

    async def _put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        data, status_code, headers, ttl_ms = result
        self._sweeping.count()
        return await self._commits.write(self._puts, (key, fingerprint, mark, data, status_code, headers, ttl_ms))

    async def _sweep(self, before: str | None, most: int) -> int:
        await self._sweeping.settle()
        return await self._removed(before, most)

    async def _removed(self, before: str | None, most: int) -> int:
        query = self._queries["keys_expired_delete"]
        bounds = {"before": before, "most": most, "later_ms": -ABANDONED_MS}
        try:
            return await self._manager.execute(query, **bounds)
        except UnknownCommit:  # what was removed stays removed; the rest is found again
            return await self._manager.execute(query, **bounds)


__all__ = ["DBIdempotencyStore"]
