"""``SQLTaskQueue``: tasks in a table, taken and ended through the commit pipeline."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.durations import milliseconds
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import Conflict, QueryFailed, UnknownCommit
from holdfast.stores.commits import Commits, ThreadCommits
from holdfast.stores.near import Near
from holdfast.stores.tasks.facts import MOST_DUE, CompleteTasks, ExtendTasks, FailTasks, PutTasks, TakeTasks, give_up
from holdfast.stores.tasks.letters import Letters
from holdfast.stores.tasks.queries import TABLE, tasks_queries
from holdfast.stores.tasks.store import VISIBILITY_TIMEOUT, TaskQueue
from holdfast.stores.tasks.task import NewTask, TaskStatus
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.session import Row, Transaction
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.tasks.letters import DeadLetterSink

T = TypeVar("T")

logger = logging.getLogger("holdfast.tasks")

_TRIES = 10
_MOST_PURGED = 1000  # in one statement


class SQLTaskQueue(TaskQueue, Near):
    """A task queue in a database.

    *table_name* is a table of the queue's own, which ``initialize`` makes. *dead_letters* gets a letter for each task
    that had its last attempt: exactly one if it is on the same manager, else at least one. After the n-th
    failure a task waits ``retry_interval * 2**(n - 1)`` seconds, at most *retry_cap*, half of it random.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        table_name: str = TABLE,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
        pipeline: Pipeline | None = None,
        dead_letters: DeadLetterSink | None = None,
        visibility_timeout: Duration = VISIBILITY_TIMEOUT,
        retry_interval: Duration = 1.0,
        retry_cap: Duration = 3600.0,
    ) -> None:
        check_manager(self, manager)
        place = f"{manager.url.safe} {schema}.{table_name}"
        super().__init__(place, world=world, visibility_timeout=visibility_timeout)
        self.manager = manager
        self._schema = schema
        self._is_custom = table_name != TABLE
        self.queries = tasks_queries(manager.dialect, schema, table_name=table_name, clock_offset_ms=clock_offset_ms)
        self._commits: Commits | ThreadCommits = Commits(manager, pipeline)
        self._letters = Letters(dead_letters, manager)
        self._puts = PutTasks(self.queries)
        self._takes: dict[str, TakeTasks] = {}
        self._completes = CompleteTasks(self.queries)
        self._extends = ExtendTasks(self.queries)
        self._fails = FailTasks(
            self.queries,
            self._letters,
            base_ms=milliseconds(retry_interval, "retry_interval", least=0.001),
            cap_ms=milliseconds(retry_cap, "retry_cap", least=0.001),
        )

    async def initialize(self) -> None:
        await Migrator(self.manager, schema=self._schema).migrate()
        if self._is_custom:
            try:
                await self.manager.run(self._create)
            except (Conflict, QueryFailed):
                # On PostgreSQL two who create a table at once may both find it missing; the second one fails.
                await self.manager.run(self._create)

    async def close(self) -> None:
        await self._commits.close()

    async def _requeue(self, queue_name: str | None) -> int:
        count = 0
        while True:
            due = await self._idempotently(lambda transaction: self._give_up(transaction, queue_name))
            count += len([row for row in due if row["status"] == TaskStatus.PROCESSING])
            if not self._letters.joined:
                await self._make_letters([row for row in due if row["spent"]])
            if len(due) < MOST_DUE:
                return count

    async def _create(self, transaction: Transaction) -> None:
        await transaction.execute(self.queries["task_table_create"])

    async def _give_up(self, transaction: Transaction, queue_name: str | None) -> list[Row]:
        due = await transaction.fetch(self.queries["tasks_due"], most_due=MOST_DUE, queue_name=queue_name)
        await give_up(transaction, self.queries, due, self._letters.owed_ms)
        await self._letters.make_in(transaction, [row for row in due if row["spent"]])
        return due

    async def _idempotently(self, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
        """Run *work*, which does no harm a second time, again after a commit of unknown outcome."""
        for _ in range(_TRIES):
            try:
                return await self.manager.run(work)
            except UnknownCommit:
                continue
        return await self.manager.run(work)

    def _tell(self, queue_name: str) -> None:
        if self.listeners:
            self._commits.tell(super()._tell, queue_name)

    async def _put(self, new: NewTask) -> None:
        await self._commits.write(self._puts, new)

    async def _put_all(self, new: Sequence[NewTask]) -> None:
        # A row of this very call that is there already counts as put, so the whole may be run again.
        await self._idempotently(lambda transaction: self._puts.apply_all(transaction, new))

    async def _take(self, queue_name: str, worker_id: str, n: int, claim: str) -> Sequence[Row]:
        kind = self._takes.get(queue_name)
        if kind is None:
            kind = self._takes[queue_name] = TakeTasks(self.queries, queue_name, self._letters)
        taken = await self._commits.claim(kind, (worker_id, n, claim), lambda taken: self._give_back(taken.rows))
        await self._make_letters(taken.dead)
        return taken.rows

    async def _complete(self, task_id: str, held: str | None, key: str) -> bool:
        return await self._commits.write(self._completes, (task_id, held, key))

    async def _fail(self, row: tuple[Any, ...]) -> bool:
        failed: Row | bool = await self._commits.write(self._fails, row)
        if isinstance(failed, bool):
            return failed
        if failed["status"] == TaskStatus.DEAD_LETTERED:
            await self._make_letters([failed] if not self._letters.joined else [])
        elif failed["due_at_ms"] is None:
            self._tell(failed["queue_name"])
        return True

    async def _extend(self, task_id: str, held: str, for_ms: int) -> bool:
        return await self._commits.write(self._extends, (task_id, held, for_ms))

    async def _make_letters(self, dead: Sequence[Row]) -> None:
        """Make the letters that could not be made in the transaction; one that fails is made by a later look."""
        for row in dead:
            try:
                if self._letters.joined:
                    await self._idempotently(partial(self._make_letter, row))
                elif await self._letters.make(row):
                    await self.manager.execute(self.queries["tasks_letter_made"], task_id=row["task_id"])
            except Exception:  # the sink is somebody else's code, and the task's end is already told
                logger.exception("The dead letter of task %s could not be made and is tried again.", row["task_id"])

    async def _make_letter(self, row: Row, transaction: Transaction) -> None:
        """Make the letter that is owed, and note that: both or neither."""
        if await transaction.execute(self.queries["tasks_letter_made"], task_id=row["task_id"]):
            await self._letters.make_in(transaction, [row])

    async def _counts(self, queue_name: str | None) -> dict[str, int]:
        rows = await self.manager.fetch(self.queries["tasks_count"], queue_name=queue_name)
        return {row["status"]: row["tasks"] for row in rows}

    async def _purge(self, status: TaskStatus, older_ms: int, queue_name: str | None) -> int:
        query, count = self.queries["tasks_purge"], 0
        wanted = {"status": status.value, "older_ms": older_ms, "queue_name": queue_name, "most": _MOST_PURGED}
        while True:
            gone = await self._idempotently(lambda transaction: transaction.execute(query, **wanted))
            count += gone
            if gone < _MOST_PURGED:
                return count

    async def _get(self, task_id: str) -> Row | None:
        return await self.manager.fetchone(self.queries["task_get"], task_id=task_id)

    async def _list(
        self, queue_name: str | None, status: TaskStatus | None, limit: int, after: str | None
    ) -> Sequence[Row]:
        wanted = {"queue_name": queue_name, "status": status and status.value, "after": after, "most": limit}
        return await self.manager.fetch(self.queries["tasks_list"], **wanted)


__all__ = ["SQLTaskQueue"]
