"""Failed operations in a database: the table ``holdfast_dlq``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast import faults
from holdfast.core.texts import is_kept
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import UnknownCommit
from holdfast.model.world import RealWorld, World
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.dead_letters import rows
from holdfast.stores.dead_letters.facts import AddLetters, ChangeLetters, Writing
from holdfast.stores.dead_letters.making import Making
from holdfast.stores.dead_letters.queries import dead_letter_queries
from holdfast.stores.dead_letters.repository import DEFAULT_LEASE, AsyncFailedOperationRepository
from holdfast.stores.dead_letters.shelf import Gone, Wanted
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.session import Row, Transaction
    from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData
    from holdfast.model.workflow import Duration
    from holdfast.stores.dead_letters.shelf import Decide, Summarise, Tally

_LONGEST_ID = 640


class SqlShelf:
    """Dead letters in PostgreSQL, MariaDB/MySQL or SQLite. Times are the database's."""

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        self.place = f"{manager.url.safe} {schema}"
        self._manager = manager
        self._schema = schema
        self._world = world or RealWorld()
        self.commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._queries = dead_letter_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing."""
        await Migrator(self._manager, schema=self._schema).migrate()

    async def close(self) -> None:
        """Finish what is being written. The connection manager stays open."""
        await self.commits.close()

    @cached_property
    def _additions(self) -> AddLetters:
        return AddLetters(self._queries)

    @cached_property
    def _changes(self) -> ChangeLetters:
        return ChangeLetters(self._queries)

    @cached_property
    def _writing(self) -> Writing:
        return Writing(self._queries)

    async def for_threads(self) -> SqlShelf:
        """Return the same tables for threads that drive coroutines: its ``add``, ``get`` and ``change`` block."""
        return self.on(await self.commits.for_threads())

    def on(self, commits: ThreadCommits) -> SqlShelf:
        """Do as ``for_threads`` with commits that are there already."""
        return _OnThreads(self, commits)

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        made = await self.commits.write(self._additions, rows.fresh_row(fresh, fresh.id))
        return _made(fresh, made)

    async def add_in(self, transaction: Transaction, fresh: FailedOperationData) -> FailedOperationData:
        """Do as ``add`` in a transaction of somebody else's: the record is there if that is committed."""
        [made] = await self._additions.apply(transaction, [rows.fresh_row(fresh, fresh.id)])
        if isinstance(made, Exception):
            raise made
        return _made(fresh, made)

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        if not _may_be_there(id):
            return None
        row = await self._manager.fetchone(self._queries["dlq_get"], id=id)
        return None if row is None else rows.record(row)

    async def change(
        self,
        id: str,  # noqa: A002
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- those of one commit are read together
        on_standing: bool = False,  # noqa: ARG002 -- likewise
    ) -> FailedOperationData | None:
        if not _may_be_there(id):
            return None
        going: FailedOperationData | None = None

        def noted(record: FailedOperationData, now: datetime) -> FailedOperationData | Gone | None:
            nonlocal going
            after = decide(record, now)
            going = record if isinstance(after, Gone) else None
            return after

        outcome = await self.commits.write(self._changes, (id, noted, self._world.new_id()), to_the_end=True)
        # What is not there any more, and was to be deleted when it was: only the reply to that was lost.
        return outcome or going

    async def change_all(self, ids: Sequence[str], decide: Decide, *, whole: bool = True) -> list[FailedOperationData]:
        keys = [(id,) for id in ids if _may_be_there(id)]  # noqa: A001
        read, planned = self._queries["dlq_read" if whole else "dlq_read_brief"], "dlq_planned" in self._queries.sources

        async def found(transaction: Transaction) -> list[Row]:
            if planned:
                await transaction.fetch(self._queries["dlq_planned"])
            return await transaction.fetch_batch(read, keys)

        return await _Step(self, found, decide, None).done()

    async def sweep(
        self, wanted: Wanted, decide: Decide, summarise: Summarise | None = None
    ) -> list[FailedOperationData]:
        query, values = self._queries[_query(wanted)], _values(wanted, lock=True)

        async def found(transaction: Transaction) -> list[Row]:
            return await transaction.fetch(query, **values)

        return await _Step(self, found, decide, summarise).done()

    async def find(self, wanted: Wanted) -> list[FailedOperationData]:
        found = await self._manager.fetch(self._queries[_query(wanted)], **_values(wanted))
        return [rows.record(row) for row in found]

    async def count(self, wanted: Wanted) -> int:
        unwanted = {*_PAGING, _index(wanted)}
        values = {name: value for name, value in _values(wanted).items() if name not in unwanted}
        row = await self._manager.fetchone(self._queries["dlq_number"], **values)
        return 0 if row is None else int(row["number"])

    async def due_in(self, domains: Sequence[str]) -> dict[str, float]:
        """Return in how many seconds the next record of each domain is due, by the database's clock; 0 if it is.

        A domain of which nothing is due by itself is left out.
        """
        found = await self._manager.fetch_batch(self._queries["dlq_next_due"], [(domain,) for domain in domains])
        return {
            row["domain"]: max(0.0, (rows.moment(row["due"]) - rows.moment(row["now_iso"])).total_seconds())
            for row in found
            if row["due"] is not None
        }

    async def tally(self) -> Tally:
        counted = await self._manager.fetch(self._queries["dlq_tally"])
        return {(row["domain"], row["failure_type"], row["status"]): row["number"] for row in counted}

    async def add_summary(self, entry: DLQCompressedEntry) -> bool:
        key = self._world.new_id()
        store, look = self._queries["dlq_summary_store"], self._queries["dlq_summary_look"]
        names = (
            "id", "domain", "failure_type", "error_code", "number", "first_seen", "last_seen",
            "sample_error_message", "sample_context", "compressed_at", "change_key",
        )  # fmt: skip
        values = dict(zip(names, rows.summary_row(entry, key), strict=True))
        values |= {"status": entry.status, "stale_at": rows.iso(entry.stale_at)}

        async def work(transaction: Transaction) -> bool:
            await transaction.execute(store, **values, archived_at=rows.iso(entry.archived_at))
            row = await transaction.fetchone(look, id=entry.id)
            return row is not None and row["change_key"] == key

        try:
            return await self._manager.run(work)
        except UnknownCommit:  # if it is there, it is found under its key; if not, it is stored now
            return await self._manager.run(work)

    async def summaries(self, domain: str | None, status: str | None, limit: int) -> list[DLQCompressedEntry]:
        found = await self._manager.fetch(self._queries["dlq_summaries"], domain=domain, status=status, limit=limit)
        return [rows.summary(row) for row in found]

    async def summary_totals(self) -> Mapping[str, tuple[int, int]]:
        counted = await self._manager.fetch(self._queries["dlq_summary_totals"])
        return {row["status"]: (row["number"], row["items"]) for row in counted}

    async def move_summary(self, id: str, new_status: str) -> bool:  # noqa: A002
        if not _may_be_there(id) or new_status == "active":
            return False
        key = self._world.new_id()
        values = {"id": id, "status": new_status, new_status: True, "change_key": key}
        try:
            return bool(await self._manager.execute(self._queries["dlq_summary_move"], **values))
        except UnknownCommit:
            row = await self._manager.fetchone(self._queries["dlq_summary_look"], id=id)
            landed = row is not None and row["change_key"] == key
            return landed or bool(await self._manager.execute(self._queries["dlq_summary_move"], **values))


def _made(fresh: FailedOperationData, created_at: str) -> FailedOperationData:
    when = rows.moment(created_at)
    due = when if fresh.retry_delay is not None and fresh.status == "pending" else None
    return replace(fresh, created_at=when, updated_at=when, next_retry_at=due)


class _OnThreads(SqlShelf):
    """The same tables for threads. What has its own transaction is not for them: that is the loop's."""

    def __init__(self, shelf: SqlShelf, commits: ThreadCommits) -> None:
        vars(self).update(vars(shelf))
        self.commits = commits

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        found: list[FailedOperationData] = []
        await self.change(id, lambda record, _: found.append(record))
        return found[-1] if found else None


class _Joined:
    """The same tables inside a transaction that is open: only to add to."""

    def __init__(self, shelf: SqlShelf, transaction: Transaction) -> None:
        self._shelf = shelf
        self._transaction = transaction

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        return await self._shelf.add_in(self._transaction, fresh)


class _Step:
    """Records that are found, decided upon and written in one transaction."""

    def __init__(self, shelf: SqlShelf, found: Any, decide: Decide, summarise: Summarise | None) -> None:
        self._shelf = shelf
        self._found = found
        self._decide = decide
        self._summarise = summarise
        self._key = shelf._world.new_id()  # noqa: SLF001 -- one class in two parts
        self._outcomes: list[tuple[FailedOperationData, FailedOperationData | Gone]] = []

    async def done(self) -> list[FailedOperationData]:
        """Do it, and after a lost reply find out whether it was done; return what was written or deleted."""
        manager = self._shelf._manager  # noqa: SLF001
        while True:
            try:
                await manager.run(self._work)
            except UnknownCommit:
                if not await manager.run(self._landed):
                    continue
            faults.point("dead_letters.changed")
            return [before if isinstance(after, Gone) else after for before, after in self._outcomes]

    async def _work(self, transaction: Transaction) -> None:
        changes = rows.Changes()
        self._outcomes = []
        found = await self._found(transaction)
        for row in found:
            before = rows.record(row)
            after = self._decide(before, rows.moment(row["now_iso"]))
            if after is not None:
                changes.note(before, after, self._key)
                self._outcomes.append((before, after))
        await self._shelf._writing.all(transaction, changes)  # noqa: SLF001
        if self._summarise is not None and self._outcomes:
            entries = self._summarise([before for before, _ in self._outcomes], rows.moment(found[0]["now_iso"]))
            add = self._shelf._queries["dlq_summaries_add"]  # noqa: SLF001
            for some in rows.portions([rows.summary_row(entry, self._key) for entry in entries]):
                await transaction.execute_batch(add, some)
        faults.point("dead_letters.before_commit")

    async def _landed(self, transaction: Transaction) -> bool:
        """Whether the transaction of unknown outcome was committed: if one of its changes was, all were."""
        keys = [(before.id,) for before, _ in self._outcomes]
        found = await transaction.fetch_batch(self._shelf._queries["dlq_look"], keys)  # noqa: SLF001
        there = {row["id"]: row["change_key"].split(",") for row in found}
        kept = [before.id for before, after in self._outcomes if not isinstance(after, Gone)]
        if kept:  # of several, somebody may have changed one again since
            return any(self._key in there.get(id, ()) for id in kept)  # noqa: A001 -- the documented word
        return not there


_LISTED, _MERGED = "dlq_listed", "dlq_merged"
_BOTH_WAYS = {_LISTED, _MERGED}
_PAGING = {"whole", "limit", "offset", "newest", "oldest"}
_TIMES = ("created_before", "created_from", "created_to")
_AGES = ("resolved_for", "untouched_for", "unheard_for")
_LIKE_IT_IS = ("status", "domain", "failure_type", "retry_below", "evictable", "whole", "limit", "offset")


def _values(wanted: Wanted, *, lock: bool = False) -> dict[str, Any]:
    """Return the parameters and switches of the query that ``_query`` names; with *lock* of one that is to lock."""
    values: dict[str, Any] = {name: getattr(wanted, name) for name in _LIKE_IT_IS}
    query = _query(wanted)
    if query in _BOTH_WAYS:
        values["newest" if wanted.newest else "oldest"] = True
    if query == _MERGED:
        reach = wanted.offset + wanted.limit
        values |= {"reach": reach, "nearest": None if lock else reach}
    values |= {name: rows.iso(getattr(wanted, name)) for name in _TIMES}
    for name in _AGES:
        age: timedelta | None = getattr(wanted, name)
        if age is not None:
            values |= {name: True, "later_ms": -round(age.total_seconds() * 1000)}
    if wanted.expires_before is not None:
        values["expires_before"] = rows.iso(wanted.expires_before)
    if wanted.beyond is not None:
        values |= {"beyond": rows.iso(wanted.beyond[0]), "beyond_id": wanted.beyond[1]}
    return values | {_index(wanted): True, **({"lock": True} if lock else {})}


def _index(wanted: Wanted) -> str:
    """Return the switch of the index that leads to what is wanted."""
    if wanted.due:
        return "by_next_retry" if wanted.domain is None else "by_domain_next_retry"
    if wanted.expires_before is not None:
        return "by_expires"
    if wanted.resolved_for is not None:
        return "by_resolved"
    if wanted.untouched_for is not None:
        return "by_archived"
    if wanted.domain is None and wanted.failure_type is None:
        return "by_created" if wanted.status is None else "by_status"
    return _WITH_STATUS[wanted.domain is not None, wanted.failure_type is not None]


_WITH_STATUS = {(True, True): "by_all_three", (True, False): "by_domain_status", (False, True): "by_type_status"}


def _query(wanted: Wanted) -> str:
    """Return the name of the query that finds what is wanted, in its order."""
    if wanted.due:
        return "dlq_due"
    if wanted.expires_before is not None:
        return "dlq_expired"
    if any(getattr(wanted, name) is not None for name in _AGES):
        return "dlq_old"
    in_any_status = wanted.status is None and (wanted.domain is not None or wanted.failure_type is not None)
    return _MERGED if in_any_status else _LISTED


def _may_be_there(word: Any) -> bool:
    return isinstance(word, str) and len(word) <= _LONGEST_ID and is_kept(word)


class AsyncSQLFailedOperationRepository(AsyncFailedOperationRepository):
    """Failed operations in PostgreSQL, MariaDB/MySQL or SQLite, shared by every process that uses the database.

    *manager* is the caller's, and stays open. Concurrent writes become one commit: of *pipeline*, if one is given that
    stands on the same manager, else of a pipeline of the repository's own. Times are the database's.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        lease: Duration = DEFAULT_LEASE,
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        self._tables = SqlShelf(manager, schema=schema, pipeline=pipeline, world=world, clock_offset_ms=clock_offset_ms)
        super().__init__(self._tables, lease=lease, world=world)

    async def for_threads(self) -> AsyncFailedOperationRepository:
        """Return what makes and changes single operations here, for threads that drive its coroutines themselves."""
        return AsyncFailedOperationRepository(await self._tables.for_threads(), lease=self._lease, world=self._world)

    def within(self, transaction: Transaction) -> Making:
        """Return what has ``create`` inside *transaction*, which must be of the same database.

        The operation is stored if, and only if, that transaction is committed.
        """
        return Making(_Joined(self._tables, transaction), self._world)


__all__ = ["AsyncSQLFailedOperationRepository", "SqlShelf"]
