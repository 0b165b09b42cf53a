"""A database of ours reached from outside: the runs in it can be looked at, changed, started and waited for.

It runs no workflow and never migrates. It lives on one event loop, like the engine that runs workflows.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar
from urllib.parse import quote

from holdfast.core.durations import patience
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName
from holdfast.errors import (
    ConfigurationError,
    NotInitialized,
    NotOurDatabase,
    SerializationError,
)
from holdfast.model.workflow import INTERNAL_QUEUE, Duration, WorkflowState
from holdfast.workflows.application.versions import Versions
from holdfast.workflows.facts import EnqueueRuns
from holdfast.workflows.management.opening import open_desk
from holdfast.workflows.messaging import messaging_queries
from holdfast.workflows.messaging.outside import Outside
from holdfast.workflows.parking import parking_queries
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.remote.enqueues import RemoteEnqueues
from holdfast.workflows.running.results import Results, outcome_of
from holdfast.workflows.running.run import Outcome
from holdfast.workflows.streams import stream_queries
from holdfast.workflows.streams.feed import Feed
from holdfast.workflows.wakeups.wakeups import wakeups_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from holdfast.db.session import Row
    from holdfast.db.url import DatabaseURL
    from holdfast.model.world import World
    from holdfast.serialize import Serialization
    from holdfast.workflows.management.desk import Desk, Request
    from holdfast.workflows.messaging import Message
    from holdfast.workflows.streams.feed import Chunk
    from holdfast.workflows.streams.reading import Reading

T = TypeVar("T")


class RunOptions(TypedDict, total=False):
    """What may be said about a run that is started from outside, by the name of its function."""

    workflow_id: str | None
    timeout: Duration | None
    attributes: Mapping[str, Any] | None
    authenticated_user: str | None
    assumed_role: str | None
    authenticated_roles: Sequence[str] | None
    application_version: str | None
    class_name: str | None
    config_name: str | None
    on_conflict: str


class QueueOptions(RunOptions, total=False):
    """What may be said, besides, about a run that is put in a queue."""

    deduplication_id: str | None
    priority: int
    queue_partition_key: str | None
    delay: Duration | None
    delay_until: datetime | None
    on_duplicate: str


class DebounceOptions(TypedDict, total=False):
    """What may be said about a run that further calls may put off; its ids and its delay come from the call."""

    timeout: Duration | None
    attributes: Mapping[str, Any] | None
    authenticated_user: str | None
    assumed_role: str | None
    authenticated_roles: Sequence[str] | None
    application_version: str | None
    class_name: str | None
    config_name: str | None
    priority: int
    queue_partition_key: str | None
    debounce_timeout: Duration | None


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """What is said once about a database that is reached from outside."""

    url: str
    name: str
    schema: str
    serialization: Serialization
    connection: Mapping[str, Any]
    world: World
    clock_offset_ms: str | None = None


class Remote:
    """The way to one database. ``open`` refuses what is not ours, and what another release has made."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self.payloads = Payloads(settings.serialization)
        self._desk: Desk | None = None

    @property
    def desk(self) -> Desk:
        """What requests are carried out with."""
        if self._desk is None:
            raise NotInitialized("The client is not open; call open(), or use it in a with block.")
        return self._desk

    async def open(self) -> None:
        """Connect, and check that the tables are ours and of this release; a second call changes nothing.

        Raises ``NotOurDatabase``, ``SchemaTooOld`` or ``SchemaTooNew``. Nothing is created or changed.
        """
        if self._desk is not None:
            return
        manager = ConnectionManager(self._settings.url, world=self._settings.world, **self._settings.connection)
        await asyncio.to_thread(refuse_foreign_file, manager.url)
        try:
            await manager.initialize()
            await self._check(manager)
        except BaseException:
            await manager.close()
            raise
        self._wire(manager)

    async def _check(self, manager: ConnectionManager) -> None:
        migrator = Migrator(manager, schema=self._settings.schema, create_database=False)
        if not await migrator.current_version():
            raise _not_ours(manager.url, self._settings.schema)
        await migrator.check()

    def _wire(self, manager: ConnectionManager) -> None:
        dialect, schema, world = manager.dialect, self._settings.schema, self._settings.world
        offset = self._settings.clock_offset_ms
        queries = workflow_queries(dialect, schema, clock_offset_ms=offset)
        self._manager = manager
        enqueue = EnqueueRuns(queries, application_id=self._settings.name)
        self._enqueues = RemoteEnqueues(manager, queries, self.payloads, world, enqueue, self._tell)
        self._results = Results(manager, queries, world)
        self._listens = self._tells = False
        self._hints = wakeups_for(manager, schema, world, self._hinted, enabled=True)
        self._voice = wakeups_for(manager, schema, world, self._hinted, enabled=True, listens=False)
        streams = stream_queries(dialect, schema, clock_offset_ms=offset)
        self._feed = Feed(manager, streams, world, lambda: self._hints.alive)
        self._outside = Outside(
            manager,
            messaging_queries(dialect, schema, clock_offset_ms=offset),
            parking_queries(dialect, schema, clock_offset_ms=offset),
            self.payloads,
            world,
            lambda: self._hints.alive,
        )
        versions = Versions(manager, queries, world)
        self._desk = open_desk(manager, schema, self.payloads, versions, world, offset, enqueue)
        self._desk.schedules.told = self._tell

    async def close(self) -> None:
        """Tell whoever waits that nobody looks any more, and end the connections; a second call changes nothing."""
        if self._desk is not None:
            self._desk = None
            await self._results.stop()
            await self._feed.stop()
            await self._outside.bells.stop()
            await self._voice.stop()
            await self._hints.stop()
            await self._manager.close()

    async def ask(self, request: Request[T]) -> T:
        """Carry out a request."""
        return await request.call(self.desk)

    async def read(self, reading: Reading, offset: int) -> Chunk:
        """Return what a stream has from *offset* on, waiting as *reading* says; see ``Feed.next``."""
        self.desk  # noqa: B018 -- refuses to wait where nobody looks
        if reading.follow:
            await self._listen()
        return await self._feed.next(
            reading.workflow_id, reading.stream, offset, follow=reading.follow, patience=reading.patience
        )

    async def _listen(self) -> None:
        """Hear hints from now on; a client that waits for nothing has no connection for them."""
        if not self._listens:
            self._listens = True
            await self._hints.start()

    async def _tell(self) -> None:
        """Tell the processes that run workflows; on a connection of the pool, so nothing is held for it."""
        if not self._tells:
            self._tells = True
            await self._voice.start()
        self._voice.tell()

    def _hinted(self) -> None:
        self._feed.hint()
        self._outside.bells.look_soon()

    async def send(self, messages: Sequence[Message]) -> None:
        """Send messages in one commit, and tell the processes that may wait for them."""
        self.desk  # noqa: B018 -- refuses before anything is written
        if messages:
            await self._outside.send(messages)
            await self._tell()

    async def get_event(self, workflow_id: str, key: str, limit: float | None, type_: Any) -> Any:
        """Return an event of a run once it is set, as *type_*, or None if it is not within *limit* seconds."""
        self.desk  # noqa: B018 -- refuses to wait where nobody looks
        await self._listen()
        codec = self.payloads.plain if type_ is None else self.payloads.typed(type_)
        return await self._outside.get_event(workflow_id, key, limit, codec)

    @property
    def enqueues(self) -> RemoteEnqueues:
        """What puts runs in queues; refuses before anything is written."""
        self.desk  # noqa: B018 -- refuses
        return self._enqueues

    async def start(
        self, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any] | None, options: RunOptions
    ) -> str:
        """Have a run begun by any executor that has its function, and return its id; see ``RemoteEnqueues.enqueue``."""
        return await self.enqueues.enqueue(name, arguments, keywords, options, INTERNAL_QUEUE)

    async def state(self, workflow_id: str) -> WorkflowState:
        """Return where a run stands, without its payloads."""
        return await self.desk.looking.get(workflow_id, load_input=False, load_output=False)

    async def outcome(self, workflow_id: str, timeout: Duration | None = None) -> Outcome:  # noqa: ASYNC109 -- of users
        """Wait until a run has ended, wherever it runs; ``TimeoutError`` when *timeout* is over."""
        self.desk  # noqa: B018 -- refuses to wait where nobody looks
        limit = patience(timeout)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def tell(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        def told(row: Row | None) -> None:
            tell(self._of_row(row, workflow_id))

        def closed() -> None:
            tell(Outcome(error=NotInitialized(f"The client was closed before run {workflow_id} had ended.")))

        self._results.watch(workflow_id, told, closed)
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError:
            return self._of_row(await self._results.at_last(workflow_id, limit or 0.0), workflow_id)
        finally:
            self._results.unwatch(workflow_id, told)

    def _of_row(self, row: Row | None, workflow_id: str) -> Outcome:
        try:
            return outcome_of(row, workflow_id, self.payloads.plain.load, self.payloads.load_error)
        except SerializationError as error:
            return Outcome(error=error)


def refuse_foreign_file(url: DatabaseURL) -> None:
    """Refuse a SQLite file that is missing or not ours before it is opened: opening creates it, or puts it into WAL."""
    if url.dialect is not DialectName.SQLITE:
        return
    if url.path is None:
        raise ConfigurationError(
            "A SQLite database in memory has no runs: it belongs to one connection. Name a file: sqlite:///app.sqlite."
        )
    path = Path(url.path)
    try:
        there = S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    except OSError:  # it cannot be looked at: opening it will say why
        return
    if not there:
        raise NotOurDatabase(
            f"There is no file {path}, so there are no runs in it: check the URL. An application creates it at launch."
        )
    if _has_no_tables_of_ours(path):
        raise _not_ours(url, None)


def _has_no_tables_of_ours(path: Path) -> bool:
    """Look without writing; False where that cannot tell: the file is in WAL already, or opening it will say why."""
    [(text, _)] = Queries.load(DialectName.SQLITE)["migration_table_present"].bind({})
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            return not connection.execute(text).fetchall()
    except sqlite3.Error:
        return False


def _not_ours(url: DatabaseURL, schema: str | None) -> NotOurDatabase:
    place = f" in the schema {schema!r}" if schema and url.dialect is DialectName.POSTGRES else ""
    return NotOurDatabase(
        f"There are no tables of Holdfast in {url.safe}{place}: check the URL{' and the schema' if place else ''}, or "
        "create them with `holdfast migrate`."
    )
