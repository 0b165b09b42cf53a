"""Conversation threads in a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.migrations import SCHEMA, Migrator
from holdfast.db.pipeline import Pipeline
from holdfast.stores.threads.facts import PutAll, checkpoint_rows, single_checkpoints, single_writes, write_rows
from holdfast.stores.threads.pruning import Bone, bone, orphans, to_delete
from holdfast.stores.threads.queries import thread_queries
from holdfast.stores.threads.reading import SqliteReader, large_of, page_values, together
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.session import Row, Transaction


class SQLThreads:
    """Checkpoints, large values and writes of threads in the tables of *manager*'s database.

    Every call is atomic. What was put is durable when the call returns. Puts of many tasks share a commit.
    """

    def __init__(self, manager: ConnectionManager, *, schema: str = SCHEMA) -> None:
        self._manager = manager
        self._schema = schema
        self._queries = thread_queries(manager.dialect, schema)
        self._checkpoints = PutAll("checkpoint", self._queries["thread_put"], single_checkpoints)
        self._writes = PutAll("write of a task", self._queries["thread_put_writes"], single_writes)
        self.pipeline = Pipeline(manager)
        self.reader: SqliteReader | None = None

    async def initialize(self) -> None:
        """Connect, bring the tables up to date, and begin to take writes; a second call changes nothing."""
        await self._manager.initialize()
        await Migrator(self._manager, schema=self._schema).migrate()
        await self.pipeline.open()
        if self.reader is None and self._manager.settings.url.path is not None:
            self.reader = SqliteReader(self._manager.settings, self._queries)

    async def connect(self) -> None:
        """Connect, and no more: for reading what is there."""
        await self._manager.initialize()

    async def close(self) -> None:
        """Write what is at hand and end the connections."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        await self.pipeline.close()
        await self._manager.close()

    async def put(self, saved: Saved, values: Sequence[LargeValue]) -> None:
        """Store a checkpoint and the large values that are new in it."""
        await self.pipeline.write(self._checkpoints, checkpoint_rows(saved, values))

    def put_blocking(self, saved: Saved, values: Sequence[LargeValue]) -> None:
        """Do as ``put`` from a thread."""
        self.pipeline.write_blocking(self._checkpoints, checkpoint_rows(saved, values))

    async def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store what a task has written on top of a checkpoint."""
        await self.pipeline.write(self._writes, write_rows(place, writes))

    def put_writes_blocking(self, place: Place, writes: Sequence[Write]) -> None:
        """Do as ``put_writes`` from a thread."""
        self.pipeline.write_blocking(self._writes, write_rows(place, writes))

    async def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""
        found = await self.page(Span(thread_id, checkpoint_ns, checkpoint_id), None, 1)
        return found[0] if found else None

    async def page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return so many checkpoints of *span*, newest first, that come after *after*."""
        return together(await self._manager.fetch(self._queries["thread_page"], **page_values(span, after, most)))

    async def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        delete = self._queries["thread_delete"]

        async def work(transaction: Transaction) -> None:
            await transaction.execute(delete, thread_id=thread_id)

        await self._manager.run(work)

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy everything of a thread; what the target has already stays as it is."""
        copy = self._queries["thread_copy"]

        async def work(transaction: Transaction) -> None:
            await transaction.execute(copy, source=source, target=target)

        await self._manager.run(work)

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that belong to runs, with their writes, and the values nobody has any more."""
        ofs = [(run_id,) for run_id in run_ids]

        async def work(transaction: Transaction) -> None:
            gone = [_place(row) for row in await transaction.fetch_batch(self._queries["run_checkpoints"], ofs)]
            await self._delete(transaction, sorted({place.thread_id for place in gone}), lambda _: gone)

        if ofs:
            await self._manager.run(work)

    async def prune(self, thread_ids: Sequence[str]) -> None:
        """Delete all but the newest checkpoint of each namespace, and what that one cannot be read without."""
        if thread_ids:
            await self._manager.run(lambda transaction: self._delete(transaction, sorted(set(thread_ids)), to_delete))

    async def _delete(
        self, transaction: Transaction, thread_ids: Sequence[str], choose: Callable[[list[Bone]], list[Place]]
    ) -> None:
        threads = [(thread_id,) for thread_id in thread_ids]
        if not threads:
            return
        bones = [_bone(row) for row in await transaction.fetch_batch(self._queries["thread_skeleton"], threads)]
        gone = choose(bones)
        if gone:
            await transaction.execute_batch(self._queries["checkpoints_delete"], gone)
        if alone := orphans(bones, gone):
            await transaction.execute_batch(self._queries["values_delete"], alone)


def _place(row: Row) -> Place:
    return Place(row["thread_id"], row["checkpoint_ns"], row["checkpoint_id"])


def _bone(row: Row) -> Bone:
    return bone(_place(row), row["parent_id"], row["metadata"], large_of(row))
