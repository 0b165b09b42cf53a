"""Conversation threads in a database."""

from __future__ import annotations

import asyncio
import copy
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.db.blocking.verbs import ThreadVerbs
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.db.pipeline.pipeline import Pipeline
from holdfast.db.url import DialectName
from holdfast.errors import Retryable, UnknownCommit
from holdfast.stores.threads.facts import (
    PutAll,
    PutHeld,
    checkpoint_puts,
    checkpoint_rows,
    held,
    orphaned,
    write_puts,
    write_rows,
)
from holdfast.stores.threads.pruning import Bone, bone, orphans, to_delete
from holdfast.stores.threads.queries import thread_queries
from holdfast.stores.threads.reading import found_in, large_of, page_values, together
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write
from holdfast.stores.threads.sqlite_reader import SqliteReader
from holdfast.stores.threads.sqlite_writer import SqliteWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.session import Row, Transaction


class SQLThreads:
    """Checkpoints, large values and writes of threads in the tables of *manager*'s database.

    Every call is atomic. What was put is durable when the call returns. Puts of many tasks share a commit.
    """

    def __init__(self, manager: ConnectionManager, *, schema: str = SCHEMA) -> None:
        self._manager = manager
        self._verbs: ConnectionManager | ThreadVerbs = manager
        self._schema = schema
        self._queries = thread_queries(manager.dialect, schema)
        self._checkpoints = checkpoint_puts(self._queries)
        self._later = PutHeld(self._checkpoints, self._queries["values_hold"], self._queries["checkpoints_hold"])
        self._writes = write_puts(self._queries)
        self._find = self._queries["thread_find"] if manager.dialect is DialectName.POSTGRES else None
        self.pipeline = Pipeline(manager)
        self.reader: SqliteReader | None = None
        self._writer: SqliteWriter | None = None

    async def initialize(self) -> None:
        """Connect, bring the tables up to date, and begin to take writes; a second call changes nothing."""
        await self._manager.initialize()
        await Migrator(self._manager, schema=self._schema).migrate()
        await self.pipeline.open()
        if self.reader is None and self._manager.settings.url.path is not None:
            self._writer = SqliteWriter(self._manager.settings)
            self.reader = SqliteReader(self._manager.settings, self._queries)

    async def connect(self) -> None:
        """Connect, and no more: for reading what is there."""
        await self._manager.initialize()

    @cached_property
    def on_thread(self) -> SQLThreads:
        """The same for a thread that waits for the server itself: it may find, read pages, and write alone."""
        here = copy.copy(self)
        here._verbs = ThreadVerbs(self._manager)  # noqa: SLF001 -- its own
        return here

    @property
    def serves_threads(self) -> bool:
        """Whether a thread may use ``on_thread`` now."""
        return self._manager.dialect is DialectName.POSTGRES and self._manager.serves_threads

    async def close(self) -> None:
        """Write what is at hand and end the connections."""
        self._close_here()
        await self.pipeline.close()
        await self._manager.close()

    def let_go(self) -> None:
        """End what did not end with the loop, which was closed."""
        self._close_here()
        self._manager.let_go()

    def _close_here(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def put(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Store a checkpoint and large values of it; False, and nothing is stored, if another one it has is gone."""
        return await self.pipeline.write(*self._put(saved, values))

    def put_blocking(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Do as ``put`` from a thread."""
        return self._write_blocking(*self._put(saved, values))

    async def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store what a task has written on top of a checkpoint."""
        await self.pipeline.write(self._writes, write_rows(place, writes))

    def put_writes_blocking(self, place: Place, writes: Sequence[Write]) -> None:
        """Do as ``put_writes`` from a thread."""
        self._write_blocking(self._writes, write_rows(place, writes))

    async def put_alone(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Do as ``put`` past the pipeline, with one statement; False if that is not to be, or in doubt: ``put`` it."""
        return await self._write_alone(*self._put(saved, values))

    async def put_writes_alone(self, place: Place, writes: Sequence[Write]) -> bool:
        """Do as ``put_writes`` past the pipeline, with one statement; False as ``put_alone``."""
        return await self._write_alone(self._writes, write_rows(place, writes))

    async def _write_alone(self, kind: Kind[bool], row: Values) -> bool:
        call = kind.lone(row) if isinstance(kind, PutAll) else None
        if call is None:
            return False
        verbs = self._verbs if isinstance(self._verbs, ThreadVerbs) else self._manager.backend()
        try:
            await verbs.execute(*call)
        except (Retryable, UnknownCommit):
            return False  # what may be there already may be written again
        return True

    def _put(self, saved: Saved, values: Sequence[LargeValue]) -> tuple[Kind[bool], Values]:
        rows = checkpoint_rows(saved, values)
        needs = held(saved, values)
        return (self._later, (rows, *needs, orphaned(saved))) if any(needs) else (self._checkpoints, rows)

    def _write_blocking(self, kind: Kind[bool], row: Values) -> bool:
        if self._writer is not None and not self.pipeline.unsettled:
            for outcome in self._writer.write(kind, row):
                if isinstance(outcome, Exception):
                    raise outcome
                return bool(outcome)
        return self.pipeline.write_blocking(kind, row)

    async def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""
        if self.reader is not None:
            return await asyncio.to_thread(self.reader.find, thread_id, checkpoint_ns, checkpoint_id)
        if self._find is None:
            found = await self.page(Span(thread_id, checkpoint_ns, checkpoint_id), None, 1)
            return found[0] if found else None
        named = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}
        if checkpoint_id is not None:
            named["checkpoint_id"] = checkpoint_id
        row = await self._verbs.fetchone(self._find.variant(named), **named)
        return None if row is None else found_in(thread_id, checkpoint_ns, row)

    async def page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return so many checkpoints of *span*, newest first, that come after *after*."""
        if self.reader is not None:
            return await asyncio.to_thread(self.reader.whole_page, span, after, most)
        return together(await self._verbs.fetch(self._queries["thread_page"], **page_values(span, after, most)))

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

        # All of it at one moment: a checkpoint that is put between two of the statements would come without its values.
        await self._manager.run(work, isolation="REPEATABLE READ" if len(copy.statements) > 1 else None)

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
        bones = await self._bones(transaction, threads)
        gone = choose(bones)
        alone = orphans(bones, gone)
        if not gone:
            return
        # Whoever puts a checkpoint that needs one of these holds it until that checkpoint is there, and is waited for
        # here; whoever comes later waits for this transaction, and finds that it is gone.
        await transaction.fetch_batch(self._queries["values_take"], alone)
        await transaction.fetch_batch(self._queries["checkpoints_take"], gone)
        bones = await self._bones(transaction, threads)
        taken = set(gone)
        gone = [place for place in choose(bones) if place in taken]
        alone = sorted(set(alone).intersection(orphans(bones, gone)))
        await transaction.execute_batch(self._queries["checkpoints_delete"], gone)
        await transaction.execute_batch(self._queries["values_delete"], alone)

    async def _bones(self, transaction: Transaction, threads: Sequence[tuple[str]]) -> list[Bone]:
        return [_bone(row) for row in await transaction.fetch_batch(self._queries["thread_skeleton"], threads)]


def _place(row: Row) -> Place:
    return Place(row["thread_id"], row["checkpoint_ns"], row["checkpoint_id"])


def _bone(row: Row) -> Bone:
    return bone(_place(row), row["parent_id"], row["metadata"], large_of(row["large"]))
