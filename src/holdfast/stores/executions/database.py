"""The execution store in a database: the table ``holdfast_executions``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.model.world import RealWorld, World
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.executions.facts import EndExecutions, StartExecutions
from holdfast.stores.executions.queries import execution_queries
from holdfast.stores.executions.store import ExecutionStore
from holdfast.stores.near import Near
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.stores.executions.store import Ended, ExecutionStatus, Started


class DBExecutionStore(ExecutionStore, Near):
    """Executions in PostgreSQL, MariaDB/MySQL or SQLite, shared by every process that uses the database.

    *manager* is the caller's, and stays open. Concurrent writes become one commit: of *pipeline*, if one is given that
    stands on the same manager, else of a pipeline of the store's own. Times are the database's.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        super().__init__()
        self._manager = manager
        self._schema = schema
        self._world = world or RealWorld()
        self._commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._queries = execution_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """Finish what is being written. The connection manager stays open."""
        await self._commits.close()

    @cached_property
    def _starts(self) -> StartExecutions:
        return StartExecutions(self._queries)

    @cached_property
    def _ends(self) -> EndExecutions:
        return EndExecutions(self._queries)

    async def _start(self, started: Started) -> None:
        await self._commits.write(self._starts, (*started, self._world.new_id()))

    async def _end(self, ended: Ended) -> None:
        await self._commits.write(self._ends, (*ended, self._world.new_id()))

    async def _find(self, run_id: str) -> Mapping[str, Any] | None:
        return await self._manager.fetchone(self._queries["execution_get"], run_id=run_id)

    async def _list(
        self, status: ExecutionStatus | None, workflow_id: str | None, limit: int, after: str | None
    ) -> list[Mapping[str, Any]]:
        if status is None and workflow_id is None:
            return list(await self._manager.fetch(self._queries["executions_list_all"], most=limit, after=after))
        rows = await self._manager.fetch(
            self._queries["executions_list"], status=status, workflow_id=workflow_id, most=limit, after=after
        )
        return list(rows)


__all__ = ["DBExecutionStore"]
