"""The threads SQLite works on: one that writes, a few that read, each with a connection of its own.

The writer does one thing after the other, in the order asked for: a single statement, a whole transaction
(``call``), or a transaction whose statements come one by one from a task (``exclusive``), during which everybody else
waits, as SQLite's single writer would have them wait anyway.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.db.operation import ThreadWaiter
from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.db.sqlite import SqliteConnection

    Job = Callable[[SqliteConnection], None]

T = TypeVar("T")

logger = logging.getLogger("holdfast.db")


class SqliteThreads:
    """*threads* threads that take jobs from one queue; each opens a connection and keeps it to itself."""

    def __init__(self, name: str, connect: Callable[[], SqliteConnection], *, threads: int = 1) -> None:
        self._name = name
        self._connect = connect
        self._wanted = threads
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._stopped = False
        self._door = threading.Lock()  # held while a thread puts in a job, so that none comes after the last

    async def start(self) -> None:
        """Start the threads; raise what opening a connection raised, with no thread left behind."""
        try:
            for number in range(self._wanted):
                opened = Reply[None]()
                thread = threading.Thread(target=self._run, args=(opened,), name=f"{self._name}-{number}", daemon=True)
                thread.start()
                self._threads.append(thread)
                await opened.future
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish the jobs that were given, close the connections, end the threads."""
        with self._door:
            self._stopped = True
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._threads.clear()

    def post(self, job: Job) -> None:
        """Have *job* done in its turn; from any thread. What it raises is only logged."""
        self._jobs.put(job)

    async def call(self, work: Callable[[SqliteConnection], T]) -> T:
        """Have *work* done in its turn and return what it returns. Once given it is done, even if nobody waits."""
        self._refuse_if_stopped()
        reply = Reply[T]()
        self._jobs.put(lambda connection: reply.settle(work, connection))
        return await reply.future

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[TurnSession]:
        """Lend the thread to one task until the block ends; what is left open then is rolled back.

        The first statement waits until it is its turn.
        """
        self._refuse_if_stopped()
        turn = _Turn()
        self._jobs.put(turn.serve)
        try:
            yield TurnSession(turn)
        finally:
            turn.steps.put(None)

    @asynccontextmanager
    async def exclusive_to_thread(self) -> AsyncIterator[ThreadTurnSession]:
        """Do as ``exclusive`` for a thread, which waits for each statement itself; no loop takes part."""
        turn = _Turn()
        with self._door:
            self._refuse_if_stopped()
            self._jobs.put(turn.serve)
        try:
            yield ThreadTurnSession(turn)
        finally:
            turn.steps.put(None)

    def _run(self, opened: Reply[None]) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 -- handed to the one who starts the thread
            opened.fail(error)
            return
        opened.give(None)
        try:
            while (job := self._jobs.get()) is not None:
                try:
                    job(connection)
                except Exception:
                    logger.exception("A job on the thread of SQLite failed; the thread goes on.")
        finally:
            connection.close()

    def _refuse_if_stopped(self) -> None:
        if self._stopped:  # a job put in now would lie in the queue for ever
            raise NotInitialized("The connection manager is closed; call initialize() to open it again.")


class Reply(Generic[T]):
    """A future of the calling loop that another thread may settle."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def settle(self, work: Callable[[SqliteConnection], T], connection: SqliteConnection) -> None:
        """Do *work* and give back what came of it."""
        try:
            result = work(connection)
        except BaseException as error:  # noqa: BLE001 -- raised again in the task that asked
            self.fail(error)
        else:
            self.give(result)

    def give(self, result: T) -> None:
        self._tell(lambda: self.future.set_result(result))

    def fail(self, error: BaseException) -> None:
        self._tell(lambda: self.future.set_exception(error))

    def _tell(self, news: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
            self._loop.call_soon_threadsafe(lambda: None if self.future.done() else news())


class _Turn:
    """The time during which the writer serves one task alone."""

    def __init__(self) -> None:
        self.steps: SimpleQueue[Job | None] = SimpleQueue()
        self.connection: SqliteConnection | None = None

    def serve(self, connection: SqliteConnection) -> None:
        self.connection = connection
        while (step := self.steps.get()) is not None:
            step(connection)
        connection.rollback()


class TurnSession:
    """The session of a task that has the writer to itself: one hop a statement, BEGIN with the first if wished."""

    usable = True

    def __init__(self, turn: _Turn) -> None:
        self._turn = turn
        self._to_begin = False

    @property
    def in_transaction(self) -> bool:
        connection = self._turn.connection
        return self._to_begin or (connection is not None and connection.in_transaction)

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return await self._within(lambda connection: connection.execute(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        return await self._within(lambda connection: connection.fetch(sql, args))

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:  # noqa: ARG002 -- SQLite is always serializable
        self._to_begin = with_next
        if not with_next:
            await self._ask(lambda connection: connection.begin())

    async def commit(self) -> None:
        if not self._withdrawn():
            await self._ask(lambda connection: connection.commit())

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        self._withdrawn()  # a lone statement needs no BEGIN
        return await self._ask(lambda connection: connection.commit_after(sql, args))

    async def rollback(self) -> None:
        if not self._withdrawn():
            await self._ask(lambda connection: connection.rollback())

    async def close(self) -> None:
        """Nothing: the writer keeps its connection."""

    async def _within(self, work: Callable[[SqliteConnection], T]) -> T:
        if not self._withdrawn():
            return await self._ask(work)

        def first(connection: SqliteConnection) -> T:
            connection.begin()
            return work(connection)

        return await self._ask(first)

    def _withdrawn(self) -> bool:
        """Return whether BEGIN has not been sent yet; it is not waited for any more."""
        pending, self._to_begin = self._to_begin, False
        return pending

    async def _ask(self, work: Callable[[SqliteConnection], T]) -> T:
        reply = Reply[T]()
        self._turn.steps.put(lambda connection: reply.settle(work, connection))
        return await reply.future


class ThreadTurnSession(TurnSession):
    """The session of a thread that has the writer to itself. It never suspends: ``run_sync`` drives what uses it."""

    async def _ask(self, work: Callable[[SqliteConnection], T]) -> T:
        waiter = ThreadWaiter()

        def step(connection: SqliteConnection) -> None:
            try:
                waiter.settle(work(connection))
            except BaseException as error:  # noqa: BLE001 -- raised again in the thread that asked
                waiter.settle(error)

        self._turn.steps.put(step)
        answer: T = waiter.wait(None)
        return answer
