"""``TaskWorker``: takes tasks from queues and has functions work on them, many at a time, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from holdfast.core import numbers
from holdfast.core.backoff import backoff
from holdfast.core.durations import checked_seconds
from holdfast.core.functions import makes_coroutine
from holdfast.db.outlast import first_of, outlast
from holdfast.errors import ConfigurationError, DatabaseError, FailureKind, HoldfastError, Unavailable
from holdfast.stores.blocking import BlockingStore
from holdfast.stores.cancels import PATIENCE, leave
from holdfast.stores.on_thread import on_thread
from holdfast.stores.tasks.handlers import Handler, checked_handler, outcome
from holdfast.stores.tasks.presence import Presence
from holdfast.stores.tasks.store import MOST_AT_ONCE, TaskQueue
from holdfast.stores.tasks.task import Task, checked_name
from holdfast.stores.tasks.threads import HandlerThreads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from holdfast.model.workflow import Duration

logger = logging.getLogger("holdfast.tasks")

_BEATS_PER_LEASE = 3
_LONGEST_PAUSE = 2.0  # seconds
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True, eq=False)
class _Run:
    """A task that is being worked on."""

    task: Task
    in_thread: bool
    work: asyncio.Task[Any] = field(init=False)
    lost: bool = False


class TaskWorker:
    """Works on the tasks of *queue*: *handlers* are functions by the name of the queue whose tasks they take.

    A handler is a coroutine function, or a plain function, which runs in a thread. What it returns completes the task,
    an exception fails it. At most *concurrency* tasks are worked on at once, and never more are taken. While a handler
    runs its lease is extended three times a visibility timeout; if the lease is lost all the same, the handler is
    cancelled (a thread goes on, unheard) and its outcome dropped. What came of a handler while the queue is away is
    written when it is back, if that is within a visibility timeout and nobody has taken the task meanwhile.

    An empty queue is looked at every *poll_interval* seconds, and at once when this process puts a task into it. After
    ``stop`` the handlers have *grace* seconds; then those that can be are cancelled and their tasks given back.
    """

    def __init__(
        self,
        queue: TaskQueue,
        handlers: Mapping[str, Handler],
        *,
        concurrency: int = 10,
        poll_interval: Duration = 1.0,
        grace: Duration = 30.0,
        worker_id: str | None = None,
    ) -> None:
        if not isinstance(queue, TaskQueue):
            raise _no_queue(queue)
        if not handlers:
            raise ValueError("A worker needs at least one handler: {'queue name': function}.")
        self._queue = queue
        self._handlers = {
            checked_name(name, "queue name"): checked_handler(handler, name) for name, handler in handlers.items()
        }
        self._concurrency = numbers.count(concurrency, "concurrency", least=1)
        self._poll_interval = checked_seconds(poll_interval, "poll_interval", least=0.001)
        self._grace = checked_seconds(grace, "grace")
        named = f"{socket.gethostname()}-{os.getpid()}"[:255] if worker_id is None else worker_id
        self.worker_id = checked_name(named, "worker id")
        self._names = list(self._handlers)
        self._runs: dict[asyncio.Task[None], _Run] = {}
        self._threads = HandlerThreads()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._stopping = False
        self._stop = asyncio.Event()
        self._give_up = asyncio.Event()

    async def run(self, *, signals: bool = False) -> None:
        """Work until ``stop`` is called; a worker runs once.

        With *signals* SIGTERM and SIGINT stop it too, and a second one ends the grace. Cancelling stops it without
        grace.
        """
        self._loop = asyncio.get_running_loop()
        presence = asyncio.create_task(
            Presence(self._queue, self.worker_id, self._names).keep(), name="holdfast-task-presence"
        )
        self._queue.listeners.append(self._heard)
        try:
            with self._signalled() if signals else nullcontext():
                try:
                    await self._work()
                finally:
                    await self._wind_up()
        finally:
            self._queue.listeners.remove(self._heard)
            self._threads.shutdown()
            presence.cancel()
            await asyncio.wait([presence])

    def stop(self, *, now: bool = False) -> None:
        """Take no more tasks, and return from ``run`` when those at hand are done; with *now* without grace.

        From any thread, and as often as you like.
        """
        self._stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and the worker with it
                self._loop.call_soon_threadsafe(self._told_to_stop, now)

    def _told_to_stop(self, now: bool) -> None:
        self._news.set()
        self._stop.set()
        if now:
            self._give_up.set()

    @contextmanager
    def _signalled(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, lambda: self.stop(now=self._stopping))
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    def _heard(self, queue_name: str) -> None:
        if queue_name in self._handlers:
            self._news.set()

    async def _work(self) -> None:
        failures = 0
        while not self._stopping:
            self._news.clear()
            try:
                taken = await self._taken()
                failures = 0
            except HoldfastError as error:  # the service loop: a database that is away comes back
                failures += 1
                logger.warning("Worker %s cannot take tasks and tries again: %s", self.worker_id, error)
                taken = 0
            if not taken or len(self._runs) >= self._concurrency:
                await self._rest(self._poll_interval * min(failures, 10) if failures else self._poll_interval)

    async def _taken(self) -> int:
        """Take tasks. A database that is away has them given back when it is there again, if the worker ends before."""
        taking = asyncio.ensure_future(self._take())
        try:
            if await _done(taking, unless=self._stop):
                return taking.result()
        except asyncio.CancelledError:
            taking.cancel()
            await outlast(asyncio.wait([taking], timeout=PATIENCE))
            raise
        finally:
            leave(taking)
        taking.cancel()
        return 0

    async def _take(self) -> int:
        """Take what there is room for, from each queue in turn; return how many."""
        count = 0
        for name in self._names:
            room = self._concurrency - len(self._runs)
            if room <= 0 or self._stopping:
                break
            for task in await self._queue.dequeue_many(min(room, MOST_AT_ONCE), name, self.worker_id):
                self._begin(task)
                count += 1
        self._names.append(self._names.pop(0))
        return count

    async def _rest(self, longest: float) -> None:
        """Wait for news: a task that was put here, a place that is free again, the word to stop; or for some time."""
        await first_of(self._news.wait(), self._queue.world.sleep(longest))

    def _begin(self, task: Task) -> None:
        handler = self._handlers[task.queue_name]
        run = _Run(task, in_thread=not makes_coroutine(handler))
        run.work = asyncio.ensure_future(self._called(handler, run))
        ending = asyncio.create_task(self._see_through(run), name=f"holdfast-task-{task.task_id}")
        self._runs[ending] = run
        ending.add_done_callback(self._over)

    def _over(self, ending: asyncio.Task[None]) -> None:
        del self._runs[ending]
        self._news.set()

    async def _called(self, handler: Handler, run: _Run) -> Any:
        if not run.in_thread:
            return await handler(run.task)
        found = await on_thread(self._threads, handler, run.task)
        run.in_thread = False  # what is left of it, if it is to be awaited, can be cancelled
        return await outcome(found)

    async def _see_through(self, run: _Run) -> None:
        """Wait for a handler's end, with its lease kept, and write what came of it."""
        beat = asyncio.create_task(self._keep(run))
        try:
            await asyncio.wait([run.work])
        finally:
            beat.cancel()
        try:
            await self._write_end(run)
        except HoldfastError as error:  # the service loop: nobody waits for this; the lease says the rest
            logger.warning("What became of task %s could not be written: %s", run.task.task_id, error)

    async def _write_end(self, run: _Run) -> None:
        done = not run.lost and await self._told(run.task, self._ending(run))
        if not done:
            logger.warning("Task %s is somebody else's by now; what came of it is dropped.", run.task.task_id)

    def _ending(self, run: _Run) -> Callable[[], Awaitable[bool]]:
        """Return what tells the queue what came of a handler."""
        task_id, token = run.task.task_id, run.task.token
        if run.work.cancelled() and self._give_up.is_set():
            return partial(self._queue.release, task_id, token=token)
        if run.work.cancelled():
            return partial(self._queue.fail, task_id, "The handler was cancelled.", token=token)
        error = run.work.exception()
        if error is None:
            return partial(self._queue.complete, task_id, token=token)
        logger.warning("Task %s failed.", task_id, exc_info=error)
        return partial(self._queue.fail, task_id, error, token=token)

    async def _told(self, task: Task, tell: Callable[[], Awaitable[bool]]) -> bool:
        """Tell the queue of an end, again for another lease while it is away: under a token that is done only once."""
        world = self._queue.world
        patience = world.monotonic() + task.visibility_timeout
        for failures in count(1):
            try:
                return await self._answered(tell())
            except DatabaseError as error:
                over = self._give_up.is_set() or world.monotonic() > patience
                if over or error.kind is FailureKind.FATAL:
                    raise
                logger.warning("What became of task %s is not written yet: %s", task.task_id, error)
            pause = backoff(failures, base=0.1, cap=_LONGEST_PAUSE, draw=world.random.random())
            await first_of(self._give_up.wait(), world.sleep(pause))
        raise AssertionError("unreachable")

    async def _answered(self, telling: Awaitable[bool]) -> bool:
        """Return the queue's answer; ``Unavailable`` if there is none when the worker ends."""
        task = asyncio.ensure_future(telling)
        leave(task)
        if await _done(task, unless=self._give_up):
            return task.result()
        raise Unavailable(f"The queue has not answered within {PATIENCE:g} s.")

    async def _keep(self, run: _Run) -> None:
        """Extend the lease until cancelled; a handler whose lease is lost is cancelled."""
        task, lease = run.task, run.task.visibility_timeout
        while True:
            await self._queue.world.sleep(lease / _BEATS_PER_LEASE)
            try:
                kept = await self._queue.extend(task.task_id, lease, token=task.token)
            except HoldfastError as error:
                logger.warning("The lease of task %s could not be extended yet: %s", task.task_id, error)
                continue
            if not kept:
                run.lost = True
                run.work.cancel()
                return

    async def _wind_up(self) -> None:
        """Let the handlers finish within their grace; cancel the others, and leave threads behind."""
        if not self._stopping:  # ``run`` was cancelled
            self._give_up.set()
        if self._runs:
            await first_of(asyncio.wait(list(self._runs)), self._give_up.wait(), self._queue.world.sleep(self._grace))
        self._give_up.set()
        for ending, run in list(self._runs.items()):
            (ending if run.in_thread else run.work).cancel()
        if self._runs:
            await asyncio.wait(list(self._runs))


def _no_queue(given: object) -> ConfigurationError:
    hint = ": give it the queue's store, and SyncTaskWorker its portal." if isinstance(given, BlockingStore) else "."
    return ConfigurationError(f"A TaskWorker works on a TaskQueue, not on a {type(given).__name__}{hint}")


async def _done(task: asyncio.Future[Any], *, unless: asyncio.Event) -> bool:
    """Wait until *task* is done, and for a while only once it is to end; return whether it is."""
    hearing = asyncio.ensure_future(unless.wait())
    try:
        await asyncio.wait([task, hearing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        hearing.cancel()
    if not task.done():
        await asyncio.wait([task], timeout=PATIENCE)
    return task.done()


__all__ = ["Handler", "TaskWorker"]
