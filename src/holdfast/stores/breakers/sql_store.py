"""Breakers in a database: SQLite, PostgreSQL or MariaDB/MySQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.numbers import count
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.model.world import RealWorld
from holdfast.stores.breakers import door
from holdfast.stores.breakers.deciding import Deciding
from holdfast.stores.breakers.documents import Applied, read, read_change
from holdfast.stores.breakers.facts import ChangeBreakers
from holdfast.stores.breakers.queries import breakers_queries
from holdfast.stores.breakers.watching import POLL_EVERY, Hints, Sighting, Watching, sighted
from holdfast.stores.commits import Commits
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.breaker import Event
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData
    from holdfast.model.world import World
    from holdfast.stores.breakers.interface import Watcher

_EVERY = 1 << 62
_GONE = "-"  # the stamp of a breaker that is not there


class AsyncSQLCircuitBreakerStateRepository(Deciding):
    """The repository in the tables of *manager*'s database.

    Changes that come together are committed together, through *pipeline* or one of its own. Other processes are seen
    by a poll every *poll_interval* seconds; *hints* make it sooner.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
        pipeline: Pipeline | None = None,
        hints: Hints | None = None,
        poll_interval: float = POLL_EVERY,
    ) -> None:
        check_manager(self, manager)
        super().__init__(world or RealWorld(), f"{manager.url.safe} {schema}")
        self._manager = manager
        self._schema = schema
        self._queries = breakers_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)
        self._kind = ChangeBreakers(self._queries)
        self._commits = Commits(manager, pipeline)
        self._watching = Watching(self._look, poll_interval)
        self._watching.hints = hints

    async def initialize(self) -> None:
        """Bring the tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """End what watches and what writes; the manager stays open."""
        await self._watching.stop()
        await self._commits.close()

    async def apply(self, service_name: str, event: Event) -> Applied:
        """Do what the core decides about *event*, in one transaction with whatever comes at the same time."""
        key = self._world.new_id()
        record, answer, now = await self._commits.write(self._kind, (key, service_name, event))
        if record is None or record.updated_at == now:
            self._watching.changed(Sighting(service_name, _GONE if record is None else key, record, now))
        return Applied(record, answer, now)

    async def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        row = await self._manager.fetchone(self._queries["breaker_get"], service_name=door.name(service_name))
        return None if row is None else read(row["record"])

    async def get_all_states(self) -> list[CircuitBreakerStateData]:
        return [read(row["record"]) for row in await self._manager.fetch(self._queries["breakers_all"])]

    async def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        most = _EVERY if limit is None else count(limit, "limit")
        return [read(row["record"]) for row in await self._manager.fetch(self._queries["breakers_open"], most=most)]

    async def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        query = self._queries["history_of"]
        rows = await self._manager.fetch(query, service_name=door.name(service_name), most=count(limit, "limit"))
        return [read_change(row["entry"]) for row in rows]

    def watch(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        """Tell *watcher* soon how the breaker is, and after every change; on the loop. Return what ends that."""
        return self._watching.add(door.name(service_name), watcher)

    def use_hints(self, hints: Hints) -> None:
        """Tell other processes of every change through *hints*; ``wake`` is for what they tell."""
        self._watching.hints = hints

    def wake(self) -> None:
        """Look at once what other processes have changed; on the loop."""
        self._watching.wake()

    async def _look(self, stamps: Mapping[str, str]) -> list[Sighting]:
        """Look at what has changed; not in a transaction, which on SQLite would hold up whoever writes."""
        backend = self._manager.backend()
        calls = self._queries["breakers_changed"].batch(list(stamps.items()))
        rows = [row for text, values in calls for row in await backend.fetch(text, values)]
        return [
            sighted(
                row["service_name"],
                row["stamp"] or _GONE,
                row["record"],
                datetime.fromisoformat(row["now"]).astimezone(UTC),
            )
            for row in rows
        ]


__all__ = ["AsyncSQLCircuitBreakerStateRepository"]
