"""The threads SQLite works on: one that writes, a few that read, each with a connection of its own.

The writer does one thing after the other, in the order asked for: a single statement, a whole transaction
(``call``), or whatever comes in somebody's turn (``turns.py``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.db.blocking.glances import until
from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.sqlite.sqlite import SqliteConnection

    Job = Callable[[SqliteConnection], None]

T = TypeVar("T")

logger = logging.getLogger("holdfast.db")


class SqliteThreads:
    """*threads* threads that take jobs from one queue; each opens a connection and keeps it to itself.

    If there is one thread, another may use its *connection* while it holds the *turn*, which the thread holds during a
    job. It is taken with ``with`` alone: a caller that is interrupted anywhere else could leave it taken.

    *patience* is for how many seconds jobs may wait for a file that another process has locked once these are to stop,
    all of them together.
    """

    connection: SqliteConnection

    def __init__(
        self, name: str, connect: Callable[[], SqliteConnection], *, threads: int = 1, patience: float = 0.0
    ) -> None:
        self._name = name
        self._connect = connect
        self._wanted = threads
        self._patience = patience
        self._patient_until = 0.0
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._stopped = False
        self.turn = threading.Lock()

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
        self.stop_soon()
        await until(lambda: not any(each.is_alive() for each in self._threads))
        self._threads.clear()

    def stop_soon(self) -> None:
        """Do as ``stop``, from any thread, and wait for nothing."""
        self._patient_until = time.monotonic() + self._patience
        self._stopped = True
        for _ in self._threads:
            self._jobs.put(None)

    def post(self, job: Job) -> None:
        """Have *job* done in its turn; from any thread. What it raises is only logged."""
        self._jobs.put(job)

    async def call(self, work: Callable[[SqliteConnection], T]) -> T:
        """Have *work* done in its turn and return what it returns. Once given it is done, even if nobody waits."""
        self.refuse_if_stopped()
        reply: Reply[T] = Reply()
        self._jobs.put(lambda connection: reply.settle(work, connection))
        return await reply.future

    def _run(self, opened: Reply[None]) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 -- handed to the one who starts the thread
            opened.fail(error)
            return
        self.connection = connection
        opened.give(None)
        turn = self.turn if self._wanted == 1 else threading.Lock()
        try:
            while (job := self._jobs.get()) is not None:
                try:
                    with turn:
                        connection.begin_turn(self._keeps_waiting)
                        job(connection)
                        connection.keep_log_short()
                except Exception:
                    logger.exception("A job on the thread of SQLite failed; the thread goes on.")
        finally:
            with turn:
                connection.close()

    def _keeps_waiting(self) -> bool:
        return not self._stopped or time.monotonic() < self._patient_until

    def refuse_if_stopped(self) -> None:
        """Raise once the threads were told to end."""
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
        self._tell(self.future.set_result, result)

    def fail(self, error: BaseException) -> None:
        self._tell(self.future.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self.future.done():
            settle(outcome)
