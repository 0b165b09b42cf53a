"""``RedisTaskQueue``: the same tasks, and the same promises, in Redis."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.durations import milliseconds
from holdfast.errors import TaskConflict
from holdfast.stores.cancels import PATIENCE, cancels, to_the_end
from holdfast.stores.redis import tagged, unmoved
from holdfast.stores.tasks.facts import LOST, MOST_DUE
from holdfast.stores.tasks.letters import Letters
from holdfast.stores.tasks.store import VISIBILITY_TIMEOUT, TaskQueue
from holdfast.stores.tasks.task import NewTask, TaskStatus
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.redis import RedisLink
    from holdfast.stores.tasks.letters import DeadLetterSink

    Row = dict[str, Any]

logger = logging.getLogger("holdfast.tasks")

_SCRIPT = Path(__file__).with_name("lua") / "tasks.lua"
_MOST_PURGED = 500
_PAGE = 500
_NUMBERS = ("attempts", "max_attempts", "visibility_timeout", "priority", "sequence")
_LISTS = {
    "ready": TaskStatus.PENDING,
    "delayed": TaskStatus.PENDING,
    "leased": TaskStatus.PROCESSING,
    "completed": TaskStatus.COMPLETED,
    "dead_lettered": TaskStatus.DEAD_LETTERED,
}


class RedisTaskQueue(TaskQueue):
    """A task queue in Redis, shared by every process that uses the server and *prefix*; times are the server's.

    *link* is the caller's, and stays open. *dead_letters* gets a letter, at least once, for each task that had its last
    attempt. What Redis acknowledged it may lose with its last second, unless it was told to sync every write.
    """

    def __init__(
        self,
        link: RedisLink,
        *,
        prefix: str = "holdfast:tasks",
        world: World | None = None,
        dead_letters: DeadLetterSink | None = None,
        visibility_timeout: Duration = VISIBILITY_TIMEOUT,
        retry_interval: Duration = 1.0,
        retry_cap: Duration = 3600.0,
    ) -> None:
        check_link(self, link)
        super().__init__(f"redis {link.address} {prefix}", world=world, visibility_timeout=visibility_timeout)
        self._link = link
        self._base = tagged(prefix)
        self._keys = [self._base, unmoved(self._base)]
        self._letters = Letters(dead_letters, None)
        self._making: dict[str, asyncio.Task[None]] = {}
        self._owed_ms = _text(self._letters.owed_ms)
        self._waits = (
            milliseconds(retry_interval, "retry_interval", least=0.001),
            milliseconds(retry_cap, "retry_cap", least=0.001),
        )

    async def initialize(self) -> None:
        await self._link.initialize()

    async def close(self) -> None:
        if self._making:
            await asyncio.wait(list(self._making.values()), timeout=PATIENCE)

    async def _requeue(self, queue_name: str | None) -> int:
        count = 0
        for name in await self._queues(queue_name):
            looked = MOST_DUE
            while looked == MOST_DUE:
                looked, over, dead = await self._run("stale", name, MOST_DUE, LOST, self._owed_ms)
                await self._make_letters(dead)
                count += over
        return count

    async def _put(self, new: NewTask) -> None:
        await self._put_all([new])

    async def _put_all(self, new: Sequence[NewTask]) -> None:
        taken = await self._run("put", *(_text(value) for each in new for value in each))
        if taken:
            raise TaskConflict(f"There is a task {taken.decode()} already; nothing was put into {new[0].queue_name}.")

    async def _take(self, queue_name: str, worker_id: str, n: int, claim: str) -> Sequence[Row]:
        # Carried to its end: whether a script that nobody waits for any more has run cannot be known.
        before = cancels()
        wanted = (queue_name, worker_id, n, claim, MOST_DUE, LOST, self._owed_ms)
        taken, dead = await to_the_end(self._run("take", *wanted))
        rows = [_row(flat) for flat in taken]
        if cancels() > before:
            await to_the_end(self._give_back(rows))
            raise asyncio.CancelledError
        await self._make_letters(dead)
        return rows

    async def _complete(self, task_id: str, held: str | None, key: str) -> bool:
        return bool(await self._run("complete", task_id, held or "", key))

    async def _fail(self, row: tuple[Any, ...]) -> bool:
        task_id, held, key, said, retry_ms, draw, uncount = row
        told = "-" if said is None else f"+{said}"
        rest = (_text(retry_ms), draw, uncount, *self._waits, self._owed_ms)
        done, dead, *queue_name = await self._run("fail", task_id, held or "", key, told, *rest)
        await self._make_letters(dead)
        if done > 1:
            self._tell(queue_name[0].decode())
        return bool(done)

    async def _extend(self, task_id: str, held: str, for_ms: int) -> bool:
        return bool(await self._run("extend", task_id, held, for_ms))

    async def _make_letters(self, dead: Sequence[Any]) -> None:
        """Make the letters that are owed; one that fails is made by a later look.

        They may be kept elsewhere than the tasks. While that is away, nobody waits for them longer than ``PATIENCE``.
        """
        making = [self._letter_under_way(_row(flat)) for flat in dead]
        if making:
            await asyncio.wait(making, timeout=PATIENCE)

    def _letter_under_way(self, row: Row) -> asyncio.Task[None]:
        """Return the task that makes a letter: the one that is at it already, if there is one."""
        task_id = row["task_id"]
        if task_id not in self._making:
            making = self._making[task_id] = asyncio.create_task(self._make_letter(row))
            making.add_done_callback(lambda _: self._making.pop(task_id))
        return self._making[task_id]

    async def _make_letter(self, row: Row) -> None:
        try:
            if await self._letters.make(row):
                await self._run("letter_made", row["queue_name"], row["task_id"])
        except Exception:  # the sink is somebody else's code, and the task's end is already told
            logger.exception("The dead letter of task %s could not be made and is tried again.", row["task_id"])

    async def _counts(self, queue_name: str | None) -> dict[str, int]:
        counts = dict.fromkeys(TaskStatus, 0)
        for name in await self._queues(queue_name):
            for list_, status in _LISTS.items():
                counts[status] += await self._link.read("zcard", f"{self._base}:q:{name}:{list_}")
        return {status.value: count for status, count in counts.items()}

    async def _purge(self, status: TaskStatus, older_ms: int, queue_name: str | None) -> int:
        count = 0
        for name in await self._queues(queue_name):
            while True:
                found, gone = await self._run("purge", name, status.value, older_ms, _MOST_PURGED)
                count += gone
                if found < _MOST_PURGED or not gone:
                    break
        return count

    async def _get(self, task_id: str) -> Row | None:
        fields = await self._link.read("hgetall", f"{self._base}:task:{task_id}")
        return _row_of(task_id, fields) if fields else None

    async def _list(
        self, queue_name: str | None, status: TaskStatus | None, limit: int, after: str | None
    ) -> Sequence[Row]:
        found: list[Row] = []
        last: Any = _text(after)
        while True:
            wanted = (_text(queue_name), _text(status), limit - len(found), _PAGE)
            last, rows = await self._link.look(_SCRIPT, self._keys, ["list", last, *wanted])
            found += map(_row, rows)
            if not last or len(found) >= limit:
                return found

    async def _queues(self, queue_name: str | None) -> list[str]:
        if queue_name is not None:
            return [queue_name]
        return sorted(name.decode() for name in await self._link.read("smembers", f"{self._base}:queues"))

    async def _run(self, verb: str, *args: Any) -> Any:
        """Run a verb, again after a lost reply: a write is recognised by the key or claim that it carries."""
        return await self._link.run(_SCRIPT, self._keys, [verb, *args], again=True)


def _text(value: Any) -> Any:
    return "" if value is None else value


def _row(flat: Sequence[bytes]) -> Row:
    """Make a row of names and values that a script has returned."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return _row_of(fields[b"task_id"].decode(), fields)


def _row_of(task_id: str, fields: dict[bytes, bytes]) -> Row:
    row: Row = {name.decode(): value.decode() for name, value in fields.items()}
    row.update({name: int(row[name]) for name in _NUMBERS})
    row.update({name: float(row[name]) / 1000 for name in ("created_at", "updated_at")})
    return {**row, "task_id": task_id, "due_at_ms": float(row["due_at_ms"]) if row["due_at_ms"] else None}


__all__ = ["RedisTaskQueue"]
