"""The two ways a pipeline's batches reach the database.

On the loop with a connection of their own, or on the thread of SQLite's writer. A lane decides where and when
``drain`` runs; what it does is the pipeline's business.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.core.backoff import backoff
from holdfast.db.session import Session, run_sync
from holdfast.db.sqlite.sqlite import SqliteSession
from holdfast.errors import QueryFailed, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager

    from holdfast.db.queries.queries import Query
    from holdfast.db.sqlite.sqlite import SqliteConnection
    from holdfast.db.sqlite.threads import SqliteThreads
    from holdfast.model.world import World

    Drain = Callable[[], Coroutine[Any, Any, bool]]

T = TypeVar("T")

logger = logging.getLogger("holdfast.pipeline")


class Lane(Protocol):
    """Where batches are written. ``drain`` returns whether more is waiting."""

    @property
    def overlaps(self) -> bool:
        """Whether the database writes one batch while this process makes the next, at one round trip a batch."""

    @property
    def can_go_back(self) -> bool:
        """Whether a new connection may lead to a database that has lost what an earlier one acknowledged."""

    def start(self, drain: Drain, give_up: Callable[[], None]) -> None:
        """Be ready to run *drain*; called on the loop. *give_up* is for a lane whose loop ends under it."""

    async def connect(self) -> None:
        """Make the connection now, if it has none yet; ``Unavailable`` if there is none to be had."""

    def wake(self) -> None:
        """Have ``drain`` run soon; from any thread."""

    def hurry(self) -> None:
        """Have ``drain`` run soon even if the loop is blocked, where the loop would run it; from any thread."""

    def turn(self) -> AbstractContextManager[Any] | None:
        """Return what a thread holds that writes by itself, instead of waiting for another one to do so.

        None where it cannot, or not now. It may do so while nothing is being drained and nobody else holds this.
        """

    async def session(self) -> Session:
        """Return a usable session, replacing a broken one; waits for as long as the database is away."""

    async def server(self, session: Session) -> str | None:
        """Return which server *session* leads to, in a transaction in which nothing is asked afterwards.

        None while it takes no writes, since it follows another one; empty if it does not tell.
        """

    def wait_for_disk(self, waits: bool) -> None:
        """Have the next batch on the disk when it is committed, or not: see ``Fleeting``."""

    async def pause(self, failures: int) -> None:
        """Wait a little after the given number of failures in a row."""

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out *work*, a kind's own code; ``MisuseError`` if it waits where nothing may."""

    def on_loop(self, call: Callable[[], None], *, later: bool) -> None:
        """Run *call* on the loop; called from inside ``drain``. *later* if another batch is to be sent before."""

    async def stop(self) -> None:
        """Stop, at once if a drain is stuck. Nothing is drained afterwards."""


class LoopLane:
    """A task on the loop that owns a connection of its own (PostgreSQL, MariaDB/MySQL)."""

    can_go_back = True

    def __init__(
        self, connect: Callable[[], Awaitable[Session]], world: World, which_server: Query, *, overlaps: bool
    ) -> None:
        self.overlaps = overlaps
        self._connect = connect
        [(self._which_server, _)] = which_server.bind({})
        self._world = world
        self._work = asyncio.Event()
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, drain: Drain, give_up: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._task = self._loop.create_task(self._run(drain, give_up), name="holdfast-pipeline")

    async def connect(self) -> None:
        if self._session is None:
            self._session = await self._connect()

    def wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._work.set()
        else:
            with suppress(RuntimeError):  # the loop was closed under a thread that still writes: its wait will end
                self._loop.call_soon_threadsafe(self._work.set)

    def hurry(self) -> None:
        """Do nothing: the connection is the loop's."""

    def turn(self) -> None:
        """Return nothing, for the same reason."""

    async def session(self) -> Session:
        failures = 0
        while self._session is None or not self._session.usable:
            if self._session is not None:
                broken, self._session = self._session, None
                await broken.close()
            try:
                self._session = await self._connect()
            except Unavailable as error:
                failures += 1
                if failures == 1 or failures % 20 == 0:
                    logger.warning("Durable writes wait for the database (attempt %s): %s", failures, error)
                await self.pause(failures)
        return self._session

    async def server(self, session: Session) -> str | None:
        try:
            [row] = await session.fetch(self._which_server, ())
        except QueryFailed:  # not every server that speaks as PostgreSQL does has what is asked for, or lets us ask
            return ""
        server: str | None = row["server"]
        return server

    def wait_for_disk(self, waits: bool) -> None:
        """Do nothing: when its commits are on the disk is for the server to say."""

    async def pause(self, failures: int) -> None:
        await self._world.sleep(backoff(failures, base=0.01, cap=1.0, draw=self._world.random.random()))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def on_loop(self, call: Callable[[], None], *, later: bool) -> None:
        if later:
            self._loop.call_soon(call)
        else:
            call()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._session is not None:
            await self._session.close()

    async def _run(self, drain: Drain, give_up: Callable[[], None]) -> None:
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while await drain():
                    pass
        finally:  # stopped, or cancelled by a loop that ends: nobody may wait here for ever
            give_up()


class ThreadLane:
    """Jobs on the thread of SQLite's writer: one hop in, one hop out for a whole batch, none for a waiting thread.

    A thread that waits anyway, and writes alone, borrows the writer's connection: no other thread is woken for it.
    """

    can_go_back = False
    overlaps = True  # a statement runs, and commits, without the interpreter's lock

    def __init__(self, writer: SqliteThreads) -> None:
        self._writer = writer
        self._turn = threading.Lock()
        self._stopped = False
        self._draining = False
        self._put_off = False  # whether the writer is to be woken at the end of the loop's round

    def start(self, drain: Drain, give_up: Callable[[], None]) -> None:  # noqa: ARG002 -- the writer outlives the loop
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._drain = drain
        self._connection = self._writer.connection
        self._session = SqliteSession(self._connection)

    async def connect(self) -> None:
        """Do nothing: the writer has its connection."""

    def wake(self) -> None:
        if threading.get_ident() == self._thread:  # when all tasks of this round have handed over what they have
            self._put_off = True
            self._loop.call_soon(self.hurry)
        else:
            self._writer.post(self._job)

    def hurry(self) -> None:
        if self._put_off:
            self._put_off = False
            self._writer.post(self._job)

    def turn(self) -> AbstractContextManager[Any] | None:
        return None if self._writer.turn.locked() else self._writer.turn

    async def session(self) -> Session:
        self._connection.begin_turn(self._keeps_waiting)  # a thread may write alone that is not the writer's
        return self._session

    async def server(self, session: Session) -> str | None:  # noqa: ARG002 -- there is none
        return ""

    def wait_for_disk(self, waits: bool) -> None:
        self._connection.waits_for_disk = waits

    async def pause(self, failures: int) -> None:
        time.sleep(min(0.1, 0.001 * failures))  # noqa: ASYNC251 -- on the writer's thread, where nothing else can run

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work)

    def on_loop(self, call: Callable[[], None], *, later: bool) -> None:  # noqa: ARG002 -- this is another thread
        with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
            self._loop.call_soon_threadsafe(call)

    async def stop(self) -> None:
        with self._turn:
            self._stopped = True
            draining = self._draining
        if draining:  # what only stands in the writer's queue, behind somebody's transaction, finds that it is over
            await self._writer.call(lambda _: None)

    def _keeps_waiting(self) -> bool:
        return not self._stopped

    def _job(self, connection: SqliteConnection) -> None:
        with self._turn:
            if self._stopped:
                return
            self._draining = True
        try:
            more = run_sync(self._drain())
        finally:
            self._draining = False
            connection.waits_for_disk = True
        if more:
            self.wake()  # at the end of the writer's queue, so that others get their turn between batches
