"""The checkpoint store in a database: the table ``holdfast_checkpoints``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.core.texts import after_prefix
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import UnknownCommit
from holdfast.model.world import RealWorld
from holdfast.stores.checkpoints.facts import LoadCheckpoints, SaveCheckpoints
from holdfast.stores.checkpoints.queries import checkpoint_queries
from holdfast.stores.checkpoints.store import CheckpointStore, Limits, is_gzip
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.near import Near
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from typing import Self

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.session import Transaction
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World


class DBCheckpointStore(CheckpointStore, Near):
    """Checkpoints in PostgreSQL, MariaDB/MySQL or SQLite, shared by every process that uses the database.

    *manager* is the caller's, and stays open. With *max_bytes* or *max_entries* the least recently used go; with
    *max_age* what was not used for so long.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        max_bytes: int | None = None,
        max_entries: int | None = None,
        max_age: Duration | None = None,
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        super().__init__(Limits.of(max_bytes, max_entries, max_age))
        self._manager = manager
        self._schema = schema
        self._commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._world: World = world or RealWorld()
        self._queries = checkpoint_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """Finish what is being written. The connection manager stays open."""
        await self._commits.close()

    def _near(self) -> Self | None:
        return None if self._limits.any else super()._near()  # with limits a save is more than a single write

    @cached_property
    def _saves(self) -> SaveCheckpoints:
        return SaveCheckpoints(self._queries)

    @cached_property
    def _loads(self) -> LoadCheckpoints:
        return LoadCheckpoints(self._queries)

    async def _save(self, key: str, data: bytes) -> None:
        row = (key, data, len(data), is_gzip(data), self._world.new_id())
        await self._commits.write_about(key, self._saves, row)

    async def _load(self, key: str) -> bytes | None:
        found = await self._commits.write(self._loads, (key,))
        return found[0] if found else None

    async def _delete(self, key: str) -> bool:
        query = self._queries["checkpoint_delete"]
        await self._commits.settled(key)  # a save that goes on though its task was cancelled would undo this
        try:
            return bool(await self._manager.execute(query, checkpoint_key=key))
        except UnknownCommit:  # there may be nothing left to delete; then it was there
            await self._manager.execute(query, checkpoint_key=key)
            return True

    async def _keys(self, prefix: str) -> list[str]:
        bounds = {"prefix": prefix or None, "until": after_prefix(prefix)}
        return [row["checkpoint_key"] for row in await self._manager.fetch(self._queries["checkpoint_keys"], **bounds)]

    async def _prune(self, just_saved: str | None) -> int:
        return await self._manager.run(lambda transaction: self._pruned(transaction, just_saved))

    async def _pruned(self, transaction: Transaction, just_saved: str | None) -> int:
        limits, gone = self._limits, 0
        if limits.max_age_ms is not None:
            gone += await transaction.execute(self._queries["checkpoints_old_delete"], later_ms=-limits.max_age_ms)
        if (limits.max_entries, limits.max_bytes) != (None, None):
            bounds = {"max_entries": limits.max_entries, "max_bytes": limits.max_bytes, "just_saved": just_saved}
            for row in await transaction.fetch(self._queries["checkpoints_beyond"], **bounds):
                gone += await transaction.execute(self._queries["checkpoint_unused_delete"], **row)
        return gone


__all__ = ["DBCheckpointStore"]
