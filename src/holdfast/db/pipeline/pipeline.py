"""The commit pipeline: durable writes of many tasks and threads, one commit for many, told only after it.

While one commit is in flight the next batch gathers, so nothing is delayed by a timer and nothing commits alone that
could commit together. A batch is one transaction. What becomes of it:

- committed: every waiter is told its own result, or the error of a row that failed alone;
- refused as a whole: it is split in two and each half is tried again, until the operation to blame stands alone;
- refused because something of it is stored already: the database is asked for each operation's key, as below;
- to be tried again (deadlock, lost connection before the commit): the whole batch again, for as long as it takes;
- of unknown outcome (connection lost during the commit): the database is asked for each operation's key; what is there
  is acknowledged, what is not there is written.

Operations handed over one after the other, each awaited, keep their order. Of those handed over together, one kind's
keep their order; between kinds there is none.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.db.backend import SqliteBackend
from holdfast.db.pipeline.committer import Committer
from holdfast.db.pipeline.lane import Lane, LoopLane, ThreadLane
from holdfast.db.pipeline.mailbox import Mailbox
from holdfast.db.pipeline.operation import Kind, Operation, ThreadWaiter, Values, weight
from holdfast.db.process import this_process
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName
from holdfast.errors import MisuseError, PipelineClosed, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from holdfast.db.manager import ConnectionManager

R = TypeVar("R")

logger = logging.getLogger("holdfast.pipeline")


class Pipeline:
    """The one way durable facts are written. Open it on a loop with ``async with``, after its manager.

    At most *max_pending* operations and *max_pending_bytes* are held; callers beyond that wait. A pipeline that was
    closed stays closed.

    *went_back* is called, on the loop, when a new connection shows that the database has lost what it had acknowledged:
    see ``look_back``. From then on every operation fails with ``WentBack``, until ``readmit`` is called. Without it
    nobody looks.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        max_pending: int = 10_000,
        max_pending_bytes: int = 64 * 1024 * 1024,
        went_back: Callable[[], None] | None = None,
    ) -> None:
        self._manager = manager
        self._went_back = went_back
        self._mailbox = Mailbox(most_operations=max_pending, most_bytes=max_pending_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._pid = 0
        self._committer: Committer | None = None
        self._closed = False
        self._is_near = False

    @property
    def commits(self) -> int:
        """How many transactions have been committed."""
        return self._committer.commits if self._committer else 0

    @property
    def is_near(self) -> bool:
        """Whether a thread that writes alone does so itself, and wakes no other: on SQLite, while this is open."""
        return self._is_near and not self._closed and this_process.pid == self._pid

    @property
    def unsettled(self) -> int:
        """How many operations have been handed over and have no outcome yet."""
        return self._mailbox.unsettled

    def oldest_age(self) -> float:
        """Return for how many seconds the batch in flight has been under way; 0 if there is none. From any thread."""
        return self._committer.busy_for() if self._committer else 0.0

    async def open(self, *, connected: bool = False) -> None:
        """Begin to take operations; the connection is made for the first of them, or now, to see that there is one."""
        if self._committer is not None:
            return
        backend = self._manager.backend()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        lane: Lane
        if isinstance(backend, SqliteBackend):
            lane = ThreadLane(backend.writer)
        else:
            # MariaDB/MySQL needs several round trips a batch: there fewer batches win.
            overlaps = self._manager.dialect is DialectName.POSTGRES
            which_server = Queries.load(self._manager.dialect)["server_here"]
            lane = LoopLane(backend.connect_for_lookups, self._manager.world, which_server, overlaps=overlaps)
        if connected:
            await lane.connect()
        committer = Committer(self._mailbox, lane, self._manager.dialect, self._manager.world, self._went_back)
        lane.start(committer.drain, committer.give_up)
        self._pid = this_process.pid
        self._committer = committer
        self._is_near = isinstance(lane, ThreadLane)
        self._stays_open = self._manager.close_first(self.close)

    def readmit(self) -> None:
        """Write again after ``went_back``: what stood on the writes that were lost has been dropped. On the loop."""
        if self._committer is not None:
            self._committer.readmit()

    async def close(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 -- the time to flush before giving up
        """Refuse new operations and write those at hand; what is not written in time fails with ``PipelineClosed``."""
        self._mailbox.close()
        if self._committer is None or self._closed:
            return
        self._closed = True
        self._stays_open()
        try:
            async with asyncio.timeout(timeout):
                while self._mailbox.unsettled:
                    await self.change()
        except TimeoutError:
            logger.warning("The pipeline is closed with %s operations not confirmed.", self._mailbox.unsettled)
        await self._committer.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def write(self, kind: Kind[R], row: Values, *, to_the_end: bool = False) -> R:
        """Have *row* written; return its result after the commit.

        Once handed over it is carried out even if this task is cancelled. With *to_the_end* the result comes back all
        the same; that there was a cancellation meanwhile is seen by ``Task.cancelling()``.
        """
        while (operation := self.hand_over(kind, row)) is None:
            await self.change()
        future = cast("asyncio.Future[R]", operation.waiter)
        try:
            return await future
        except asyncio.CancelledError:
            if not to_the_end:
                raise
            return cast("R", await outlast(operation))

    def hand_over(self, kind: Kind[Any], row: Values, size: int | None = None) -> Operation | None:
        """Have *row* written; return the operation, whose waiter is a future of this loop. None if there is no room.

        For whoever writes so often that the frame of ``write`` counts, and to weigh a row whose *size* in bytes they
        know about. A cancelled task goes on with ``outlast``.
        """
        loop = self._loop
        # asyncio.get_running_loop() asks the system for the process, which takes longer than these two together.
        if loop is None or threading.get_ident() != self._thread or not loop.is_running():
            loop = self._own_loop()
        operation = Operation(kind, row, loop.create_future(), weight(row) if size is None else size)
        return operation if self._put(operation) else None

    def write_blocking(self, kind: Kind[R], row: Values, *, size: int | None = None, timeout: float | None = None) -> R:
        """Do as ``write`` from a thread that may wait; ``TimeoutError`` leaves the operation under way.

        Of *size* see ``hand_over``.
        """
        if threading.get_ident() == self._thread:
            raise MisuseError("write_blocking() on the event loop's own thread would wait for itself; await write().")
        waiter, committer = ThreadWaiter(), self._ready()
        operation = Operation(kind, row, waiter, weight(row) if size is None else size)
        if timeout is None and committer.write_here(operation):
            return cast("R", waiter.wait(None))
        now = self._manager.world.monotonic
        deadline = None if timeout is None else now() + timeout
        while not self._put(operation):
            room = threading.Event()
            left = None if deadline is None else max(0.0, deadline - now())
            if self._mailbox.watch(room.set) and not room.wait(left):
                self._mailbox.unwatch(room.set)
                raise TimeoutError(f"The pipeline was full for {timeout:g} s; this operation was not handed over.")
        committer.hurry()
        return cast("R", waiter.wait(None if deadline is None else max(0.0, deadline - now())))

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        """Have *call* made on the loop; from any thread. If the loop has ended nobody is left to be told."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call, *args)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; raise if it is not the pipeline's."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop and self._loop is not None:
            raise WrongLoop("The pipeline belongs to another event loop; use write_blocking() from a thread.")
        return loop

    def _put(self, operation: Operation) -> bool:
        """Put *operation* into the mailbox; False when there is no room."""
        committer = self._ready()
        was_empty = self._mailbox.put(operation)
        if was_empty:
            committer.wake()
        return was_empty is not None

    def _ready(self) -> Committer:
        """Return what writes; raise where it cannot be used."""
        if self._committer is None:
            raise PipelineClosed("The pipeline is not open; this operation was not written.")
        if this_process.pid != self._pid:
            raise MisuseError("The pipeline was opened before a fork; open one of its own in the child.")
        self._manager.refuse_inside_transaction("write")
        return self._committer

    async def change(self) -> None:
        """Wait until something has been settled, and there may be room."""
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                loop.call_soon_threadsafe(lambda: None if changed.done() else changed.set_result(None))

        if self._mailbox.watch(tell):
            try:
                await changed
            finally:
                self._mailbox.unwatch(tell)


def left_behind(operation: Operation) -> asyncio.Future[Any] | None:
    """Return a future that ends when *operation* does, whose task was cancelled; None if it has its outcome.

    Nobody need wait for it, any number may, and nobody may cancel it.
    """
    waiter = cast("asyncio.Future[Any]", operation.waiter)
    if operation.missed is not None or not waiter.cancelled():
        return None
    operation.waiter = fresh = asyncio.get_running_loop().create_future()
    fresh.add_done_callback(lambda done: done.cancelled() or done.exception())
    return fresh


async def outlast(operation: Operation) -> Any:
    """Go on waiting for an operation, however often this task is cancelled; return or raise its outcome."""
    loop = asyncio.get_running_loop()
    while True:
        future = cast("asyncio.Future[Any]", operation.waiter)
        if future.done() and not future.cancelled():
            return future.result()
        if operation.missed is not None:
            [outcome] = operation.missed
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome
        operation.waiter = fresh = loop.create_future()
        with suppress(asyncio.CancelledError):
            return await fresh
