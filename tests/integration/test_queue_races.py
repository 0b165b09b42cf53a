"""Queues and enqueueing where another process comes between two statements, or is told of a commit: PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.model.workflow import StartOptions
from holdfast.model.world import RealWorld
from holdfast.serialize import Serialization
from holdfast.workflows.enqueueing.rows import Work, entry
from holdfast.workflows.outbox.outbox import OutboxRuns
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.queues import QueueStore, queue_queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.session import Transaction

    FreshDatabase = Callable[[str], str]

PATIENCE = 60


class Meddled:
    """A transaction, behind whose first statement somebody else does something."""

    def __init__(self, transaction: Transaction, meddle: Any) -> None:
        self._transaction = transaction
        self._meddle = meddle

    async def execute(self, query: Any, **named: Any) -> int:
        count = await self._transaction.execute(query, **named)
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            await meddle()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)


class Meddlesome(ConnectionManager):
    """Has *meddle* done behind the first statement of its next transaction."""

    meddle: Any = None

    async def run(self, work: Any, *, isolation: str | None = None) -> Any:
        meddle, self.meddle = self.meddle, None
        return await super().run(lambda transaction: work(Meddled(transaction, meddle)), isolation=isolation)


def test_queue_that_is_deleted_while_it_is_registered_is_there_in_the_end(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        url = fresh_database("postgres")
        async with ConnectionManager(url) as other, Meddlesome(url) as manager:
            await Migrator(other).migrate()
            queries = queue_queries(other.dialect, "holdfast")
            theirs, ours = (QueueStore(each, queries, RealWorld()) for each in (other, manager))
            before = await theirs.register("q", {})
            manager.meddle = lambda: theirs.delete("q")
            made = await ours.register("q", {"concurrency": 3}, "keep")
            assert (made.queue_id != before.queue_id, made.concurrency) == (True, 3)
            assert await theirs.get("q") == made

    asyncio.run(scene())


def test_outbox_tells_with_its_commit_and_not_without_it(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        url = fresh_database("postgres")
        heard: asyncio.Queue[str] = asyncio.Queue()
        listener = await asyncpg.connect(url)
        await listener.add_listener("ours", lambda *said: heard.put_nowait(said[3]))
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            kind = OutboxRuns(workflow_queries(manager.dialect, "holdfast"), application_id="a", channel="ours")
            for keep in (False, True):
                try:
                    async with manager.transaction() as transaction:
                        await kind.apply(transaction, [_row()])
                        if not keep:
                            raise LookupError
                except LookupError:
                    await manager.execute("NOTIFY ours, 'none so far'")
        async with asyncio.timeout(PATIENCE):
            assert [await heard.get(), await heard.get()] == ["none so far", ""]
        await listener.close()

    asyncio.run(scene())


def _row() -> tuple[Any, ...]:
    payloads = Payloads(Serialization())
    work = Work("nobody", None, None, (), {}, StartOptions(queue_name="q"), payloads.plain)
    return entry(payloads, RealWorld().new_id, work).row
