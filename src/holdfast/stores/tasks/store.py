"""``TaskQueue``: the calls of a task queue, the same on every backend. A backend carries out what is decided here."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.durations import milliseconds
from holdfast.core.numbers import count
from holdfast.errors import MisuseError
from holdfast.model.world import RealWorld, World
from holdfast.stores import tokens
from holdfast.stores.opened import Opened
from holdfast.stores.tasks.task import (
    NewTask,
    Task,
    TaskStatus,
    checked_id,
    checked_name,
    error_text,
    payload_text,
    task_of,
    whole_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.model.workflow import Duration

    Row = dict[str, Any]

VISIBILITY_TIMEOUT = 300
_ENDED = (TaskStatus.COMPLETED, TaskStatus.DEAD_LETTERED)
MOST_AT_ONCE = 10_000  # tasks that a claim takes, or a list has: all of them are in memory
_FIRST = -(2**31)  # the smallest priority


class TaskQueue(Opened, ABC):
    """Tasks that wait in named queues until a worker takes them; each is one worker's until its lease is over.

    A worker that has taken a task holds its token. ``complete``, ``fail``, ``release`` and ``extend`` take the token
    that is given, else the one the calling task or thread has obtained. If somebody else holds the task, or has held it
    since, they change nothing and return False. A task that nobody holds may be ended by anyone who names no token.
    """

    def __init__(self, place: str, *, world: World | None, visibility_timeout: Duration) -> None:
        self._place = place
        self._world: World = world or RealWorld()
        self._visibility_timeout = whole_seconds(visibility_timeout, "visibility_timeout")
        self._worker_id = f"{socket.gethostname()}-{os.getpid()}"[:255]
        # Called with a queue's name when this object has put a task into it: a hint for whoever waits on this loop.
        self.listeners: list[Callable[[str], None]] = []

    @property
    def world(self) -> World:
        """Time, ids and randomness as this queue sees them."""
        return self._world

    async def enqueue(
        self,
        payload: Any,
        queue_name: str = "default",
        task_id: str | None = None,
        max_attempts: int = 3,
        visibility_timeout: Duration | None = None,
        *,
        priority: int = 0,
        delay: Duration = 0,
    ) -> str:
        """Put a task into a queue; return its id once it is stored.

        *payload* is any JSON value of at most 8 MiB. The smallest *priority* goes first, then the oldest. The task can
        be taken after *delay* seconds, is its worker's for *visibility_timeout* seconds at a time (default 300) and is
        dead_lettered after *max_attempts*. Raises ``TaskConflict`` if there is a task with *task_id*.
        """
        given = [task_id] if task_id is not None else None
        [new] = self._new([payload], queue_name, given, max_attempts, visibility_timeout, priority, delay)
        await self._put(new)
        faults.point("task.put")
        self._tell(new.queue_name)
        return new.task_id

    async def enqueue_many(
        self,
        payloads: Iterable[Any],
        queue_name: str = "default",
        *,
        task_ids: Sequence[str] | None = None,
        max_attempts: int = 3,
        visibility_timeout: Duration | None = None,
        priority: int = 0,
        delay: Duration = 0,
    ) -> list[str]:
        """Put tasks into a queue, all or none, in this order; return their ids once all are stored.

        Raises ``TaskConflict`` if there is a task with one of *task_ids*, which are as many as the payloads.
        """
        new = self._new(payloads, queue_name, task_ids, max_attempts, visibility_timeout, priority, delay)
        if new:
            await self._put_all(new)
            faults.point("task.put")
            self._tell(queue_name)
        return [each.task_id for each in new]

    async def dequeue(self, queue_name: str = "default", worker_id: str | None = None) -> Task | None:
        """Take the next task, or None if there is none; the calling task or thread holds its token from now on.

        A task whose lease is over is taken like any other. *worker_id* is for people; the default names the process.
        """
        taken = await self.dequeue_many(1, queue_name, worker_id)
        return taken[0] if taken else None

    async def dequeue_many(self, n: int, queue_name: str = "default", worker_id: str | None = None) -> list[Task]:
        """Take up to *n* tasks, in their order; *n* is from 1 to 10,000."""
        count(n, "n", least=1, most=MOST_AT_ONCE)
        worker = self._worker_id if worker_id is None else checked_name(worker_id, "worker id")
        rows = await self._take(checked_name(queue_name, "queue name"), worker, n, self._world.new_id())
        faults.point("task.taken")
        taken = [task_of(row, taken=True) for row in rows]
        tokens.hold_all({self._item(task.task_id): task.token for task in taken if task.token is not None})
        return taken

    async def complete(self, task_id: str, *, token: str | None = None) -> bool:
        """End a task well; it stays in the table, completed, until it is purged. See the class about the token."""
        held = tokens.held(self._item(checked_id(task_id)), token)
        done = await self._complete(task_id, held, held or self._world.new_id())
        return self._let_go(task_id, token, done=done)

    async def fail(
        self,
        task_id: str,
        error: str | BaseException,
        *,
        token: str | None = None,
        retry_in: Duration | None = None,
    ) -> bool:
        """Say that an attempt failed: the task is tried again later, or was at its last attempt and is dead_lettered.

        The wait doubles with each attempt, half of it is random; *retry_in* is another wait, in seconds. See the class
        about the token.
        """
        retry_ms = None if retry_in is None else milliseconds(retry_in, "retry_in")
        return await self._failed(task_id, token, error_text(error), retry_ms, uncount=0)

    async def release(self, task_id: str, *, token: str | None = None) -> bool:
        """Give a task back untried: it is ready again at once, and the attempt does not count.

        One that nobody holds and that waits is ready at once; its attempts count as before.
        """
        return await self._failed(task_id, token, None, 0, uncount=1)

    async def extend(self, task_id: str, seconds: Duration | None = None, *, token: str | None = None) -> bool:
        """Have the lease end *seconds* from now, by default the queue's visibility timeout; False if it is lost.

        A lease that is over goes on if nobody has taken the task since.
        """
        held = tokens.held(self._item(checked_id(task_id)), token)
        for_ms = self._visibility_timeout * 1000 if seconds is None else milliseconds(seconds, "seconds", least=0.001)
        return held is not None and await self._extend(task_id, held, for_ms)

    async def requeue_stale(self, queue_name: str | None = None) -> int:
        """Make tasks whose lease is over ready again, or dead_lettered after the last attempt; return how many.

        ``dequeue`` does so for its queue by itself.
        """
        return await self._requeue(_of_queue(queue_name))

    async def get_stats(self, queue_name: str | None = None) -> dict[str, int]:
        """Return how many tasks there are in each status, and the ``total``; of all queues if none is named."""
        counts = await self._counts(_of_queue(queue_name))
        stats = {status.value: counts.get(status, 0) for status in TaskStatus}
        return {**stats, "total": sum(stats.values())}

    async def purge_completed(self, older_than: Duration = 0, queue_name: str | None = None) -> int:
        """Delete tasks that were completed at least *older_than* seconds ago; return how many."""
        return await self._purge(TaskStatus.COMPLETED, milliseconds(older_than, "older_than"), _of_queue(queue_name))

    async def purge(self, older_than: Duration = 0, queue_name: str | None = None) -> int:
        """Delete tasks that ended, well or not, at least *older_than* seconds ago; return how many.

        Never a task whose dead letter is still to be made.
        """
        older_ms, of = milliseconds(older_than, "older_than"), _of_queue(queue_name)
        return sum([await self._purge(status, older_ms, of) for status in _ENDED])

    async def get(self, task_id: str) -> Task | None:
        """Return a task as it is now, without its token; None if there is none."""
        row = await self._get(checked_id(task_id))
        return None if row is None else task_of(row)

    async def list_tasks(
        self, queue_name: str | None = None, *, status: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[Task]:
        """Return tasks in the order of their ids, without their tokens; *after* is the last id of the page before.

        Ids that were made by the queue are in the order of their making.
        """
        wanted = None if status is None else TaskStatus(status)
        count(limit, "limit", least=0, most=MOST_AT_ONCE)
        behind = None if after is None else checked_id(after)
        return [task_of(row) for row in await self._list(_of_queue(queue_name), wanted, limit, behind)]

    def _tell(self, queue_name: str) -> None:
        for heard in self.listeners:
            heard(queue_name)

    def _item(self, task_id: str) -> tokens.Item:
        return "task", self._place, task_id

    async def _failed(
        self, task_id: str, token: str | None, said: str | None, retry_ms: int | None, *, uncount: int
    ) -> bool:
        held = tokens.held(self._item(checked_id(task_id)), token)
        draw = self._world.random.randrange(1000)
        row = (task_id, held, self._world.new_id(), said, retry_ms, draw, uncount)
        return self._let_go(task_id, token, done=await self._fail(row))

    async def _give_back(self, rows: Iterable[Row]) -> None:
        """Release tasks that were taken for a call that was cancelled meanwhile: nobody will ever end them."""
        for row in rows:
            await self._fail((row["task_id"], row["token"], self._world.new_id(), None, 0, 0, 1))

    def _let_go(self, task_id: str, token: str | None, *, done: bool) -> bool:
        """Forget the token of a task that is ended or lost; one that somebody else's token could not end is kept."""
        faults.point("task.ended")
        if done or token is None:
            tokens.let_go(self._item(task_id))
        return done

    def _new(
        self,
        payloads: Iterable[Any],
        queue_name: str,
        task_ids: Sequence[str] | None,
        max_attempts: int,
        visibility_timeout: Duration | None,
        priority: int,
        delay: Duration,
    ) -> list[NewTask]:
        """Make the tasks of one call; refuse what cannot be stored before anything is."""
        if isinstance(payloads, dict | str | bytes):
            raise MisuseError("enqueue_many() takes a list of payloads: pass [payload] for a single one.")
        lease = self._visibility_timeout
        if visibility_timeout is not None:
            lease = whole_seconds(visibility_timeout, "visibility_timeout")
        texts = [payload_text(payload) for payload in payloads]
        if task_ids is not None and len(set(task_ids)) != len(texts):
            raise ValueError(f"There are {len(texts)} payloads and {len(set(task_ids))} different task ids.")
        name = checked_name(queue_name, "queue name")
        most = count(max_attempts, "max_attempts", least=1)
        order = count(priority, "priority", least=_FIRST)
        delay_ms = milliseconds(delay, "delay") or None
        new_id = self._world.new_id
        if task_ids is None:
            return [NewTask(new_id(), name, text, most, lease, order, delay_ms, None) for text in texts]
        ids = [checked_id(each) for each in task_ids]
        return [
            NewTask(id_, name, text, most, lease, order, delay_ms, new_id())
            for id_, text in zip(ids, texts, strict=True)
        ]

    @abstractmethod
    async def _put(self, new: NewTask) -> None:
        """Store a task, or raise ``TaskConflict``; the same creation key twice is the same call."""

    @abstractmethod
    async def _put_all(self, new: Sequence[NewTask]) -> None:
        """Store tasks, all or none."""

    @abstractmethod
    async def _take(self, queue_name: str, worker_id: str, n: int, claim: str) -> Sequence[Row]:
        """Take up to *n* tasks under tokens that are, or begin with, *claim*; make the dead letters that fall due."""

    @abstractmethod
    async def _complete(self, task_id: str, held: str | None, key: str) -> bool:
        """Complete a task that is *held*, or that nobody holds; *key* is what is recognised as this call."""

    @abstractmethod
    async def _fail(self, row: tuple[Any, ...]) -> bool:
        """Fail a task: id, held, key, what is said, wait in ms or None, draw of a thousand, 1 if it does not count."""

    @abstractmethod
    async def _extend(self, task_id: str, held: str, for_ms: int) -> bool:
        """Have a lease end *for_ms* from now, if it is *held*."""

    @abstractmethod
    async def _requeue(self, queue_name: str | None) -> int:
        """Do as ``requeue_stale``."""

    @abstractmethod
    async def _counts(self, queue_name: str | None) -> dict[str, int]:
        """Count tasks by their status."""

    @abstractmethod
    async def _purge(self, status: TaskStatus, older_ms: int, queue_name: str | None) -> int:
        """Delete ended tasks of one status."""

    @abstractmethod
    async def _get(self, task_id: str) -> Row | None:
        """Return the row of a task."""

    @abstractmethod
    async def _list(
        self, queue_name: str | None, status: TaskStatus | None, limit: int, after: str | None
    ) -> Sequence[Row]:
        """Return rows in the order of their ids."""


def _of_queue(queue_name: str | None) -> str | None:
    """Return the name of a queue, or None for all of them."""
    return None if queue_name is None else checked_name(queue_name, "queue name")


__all__ = ["MOST_AT_ONCE", "TaskQueue"]
