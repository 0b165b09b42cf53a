"""The task queue for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores.blocking import BlockingStore
from holdfast.stores.tasks.store import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.model.workflow import Duration
    from holdfast.stores.tasks.task import Task


class SyncTaskQueue(BlockingStore[TaskQueue]):
    """Any task queue, called from threads; its loop is *portal*'s."""

    def enqueue(
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
        return self._write(
            lambda store: store.enqueue(
                payload, queue_name, task_id, max_attempts, visibility_timeout, priority=priority, delay=delay
            )
        )

    def enqueue_many(
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
        return self._call(
            self._store.enqueue_many(
                payloads,
                queue_name,
                task_ids=task_ids,
                max_attempts=max_attempts,
                visibility_timeout=visibility_timeout,
                priority=priority,
                delay=delay,
            )
        )

    def dequeue(self, queue_name: str = "default", worker_id: str | None = None) -> Task | None:
        """Take the next task, or None if there is none; the calling task or thread holds its token from now on.

        A task whose lease is over is taken like any other. *worker_id* is for people; the default names the process.
        """
        return self._call(self._store.dequeue(queue_name, worker_id))

    def dequeue_many(self, n: int, queue_name: str = "default", worker_id: str | None = None) -> list[Task]:
        """Take up to *n* tasks, in their order; *n* is from 1 to 10,000."""
        return self._call(self._store.dequeue_many(n, queue_name, worker_id))

    def complete(self, task_id: str, *, token: str | None = None) -> bool:
        """End a task well; it stays in the table, completed, until it is purged. See the class about the token."""
        return self._write(lambda store: store.complete(task_id, token=token))

    def fail(
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
        return self._call(self._store.fail(task_id, error, token=token, retry_in=retry_in))

    def release(self, task_id: str, *, token: str | None = None) -> bool:
        """Give a task back untried: it is ready again at once, and the attempt does not count.

        One that nobody holds and that waits is ready at once; its attempts count as before.
        """
        return self._call(self._store.release(task_id, token=token))

    def extend(self, task_id: str, seconds: Duration | None = None, *, token: str | None = None) -> bool:
        """Have the lease end *seconds* from now, by default the queue's visibility timeout; False if it is lost.

        A lease that is over goes on if nobody has taken the task since.
        """
        return self._write(lambda store: store.extend(task_id, seconds, token=token))

    def requeue_stale(self, queue_name: str | None = None) -> int:
        """Make tasks whose lease is over ready again, or dead_lettered after the last attempt; return how many.

        ``dequeue`` does so for its queue by itself.
        """
        return self._call(self._store.requeue_stale(queue_name))

    def get_stats(self, queue_name: str | None = None) -> dict[str, int]:
        """Return how many tasks there are in each status, and the ``total``; of all queues if none is named."""
        return self._call(self._store.get_stats(queue_name))

    def purge_completed(self, older_than: Duration = 0, queue_name: str | None = None) -> int:
        """Delete tasks that were completed at least *older_than* seconds ago; return how many."""
        return self._call(self._store.purge_completed(older_than, queue_name))

    def purge(self, older_than: Duration = 0, queue_name: str | None = None) -> int:
        """Delete tasks that ended, well or not, at least *older_than* seconds ago; return how many.

        Never a task whose dead letter is still to be made.
        """
        return self._call(self._store.purge(older_than, queue_name))

    def get(self, task_id: str) -> Task | None:
        """Return a task as it is now, without its token; None if there is none."""
        return self._call(self._store.get(task_id))

    def list_tasks(
        self, queue_name: str | None = None, *, status: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[Task]:
        """Return tasks in the order of their ids, without their tokens; *after* is the last id of the page before.

        Ids that were made by the queue are in the order of their making.
        """
        return self._call(self._store.list_tasks(queue_name, status=status, limit=limit, after=after))


__all__ = ["SyncTaskQueue"]
