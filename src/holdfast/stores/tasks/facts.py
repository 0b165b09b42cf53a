"""What becomes of tasks, as kinds of the commit pipeline: put, taken, completed, failed, extended.

Many tasks, threads and workers hand these over at once; each kind writes all of them with one statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.db.url import DialectName
from holdfast.errors import Conflict, Retryable, TaskConflict
from holdfast.stores.guarded import GuardedUpdate, Looks
from holdfast.stores.tasks.task import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction
    from holdfast.stores.tasks.letters import Letters

LOST = "Its worker was lost: the lease ran out before the task was ended."
MOST_DUE = 100  # of what is due in a queue, with each claim
_CREATION_KEY = 7


@dataclass(frozen=True, slots=True)
class Taken:
    """What a claim got, and the tasks that died meanwhile and whose letters are still to be made."""

    rows: Sequence[Row]
    dead: Sequence[Row] = ()


def _look(queries: Queries) -> tuple[Query, str]:
    return queries["tasks_look"], "task_id"


class PutTasks(Looks):
    """none -> pending. Rows as in the query ``tasks_put``; the result is the id."""

    name = "task put"

    def __init__(self, queries: Queries) -> None:
        super().__init__(*_look(queries))
        self._put = queries["tasks_put"]
        self._put_new = queries["tasks_put_new"]
        self.one_statement = len(self._put.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        if all(row[_CREATION_KEY] is None for row in rows):
            # The ids were made for them: one that is there was put by an earlier try, for which the pipeline asks.
            await transaction.execute_batch(self._put_new, rows)
            return [row[0] for row in rows]
        return await self._put_with_care(transaction, rows)

    async def _put_with_care(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        try:
            if await transaction.execute_batch(self._put, rows) == len(rows):
                return [row[0] for row in rows]
        except Conflict as error:
            if len(rows) > 1:
                raise
            # MariaDB/MySQL: the id came in between the look and the insert. The next look sees whose it is.
            raise Retryable(str(error)) from error
        return [
            id_ if id_ is not None else _taken_id(row)
            for id_, row in zip(await self.recall(transaction, rows), rows, strict=True)
        ]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[str | None]:
        found = await self._found(transaction, rows)
        return [
            row[0] if (there := found.get(row[0])) and there["creation_key"] == row[_CREATION_KEY] else None
            for row in rows
        ]

    async def apply_all(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Put all of them or none; ``TaskConflict`` if one is there already."""
        for at in range(0, len(rows), _TOGETHER):
            for outcome in await self._put_with_care(transaction, rows[at : at + _TOGETHER]):
                if isinstance(outcome, Exception):
                    raise outcome


_TOGETHER = 500


def _taken_id(row: Values) -> TaskConflict:
    return TaskConflict(f"There is a task {row[0]} already; nothing was put into the queue {row[1]}.")


class TakeTasks:
    """pending -> processing, from one queue. Rows are (worker id, how many, claim); the result is ``Taken``.

    A token is the claim, which the caller has made, or begins with it.
    """

    name = "task taken"

    def __init__(self, queries: Queries, queue_name: str, letters: Letters) -> None:
        self._queries = queries
        self._queue = {"queue_name": queue_name}
        self._owed_ms = letters.owed_by_claim_ms
        self._picks = queries.dialect is DialectName.MYSQL
        # SQLite takes more rows than one statement holds in several.
        self.one_statement = queries.dialect is DialectName.POSTGRES

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Taken]:
        slots = [slot for row in rows for slot in slots_of(row)]
        found = await (self._pick_and_take if self._picks else self._take)(transaction, slots)
        dead = [row for row in found if row["status"] == TaskStatus.DEAD_LETTERED]
        taken = self._shared_out(found, rows)
        return [Taken(taken[0].rows, dead), *taken[1:]] if dead else taken

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Taken | None]:
        slots = [slot for row in rows for slot in slots_of(row)]
        found = await transaction.fetch_batch(self._queries["tasks_claimed"], slots, **self._queue)
        return [taken if taken.rows else None for taken in self._shared_out(found, rows)]

    async def _take(self, transaction: Transaction, slots: Sequence[Values]) -> list[Row]:
        return await transaction.fetch_batch(
            self._queries["tasks_claim"],
            slots,
            most=len(slots),
            most_due=MOST_DUE,
            lost=LOST,
            owed_ms=self._owed_ms,
            **self._queue,
        )

    async def _pick_and_take(self, transaction: Transaction, slots: Sequence[Values]) -> list[Row]:
        picked = await transaction.fetch(self._queries["tasks_pick"], most=len(slots), most_due=MOST_DUE, **self._queue)
        free = sorted((row for row in picked if not row["spent"]), key=_order)
        takes = [(row["task_id"], *slot, _lost(row)) for row, slot in zip(free, slots, strict=False)]
        if takes:
            await transaction.execute_batch(self._queries["tasks_take"], takes)
        taken = {take[0] for take in takes}
        await give_up(
            transaction,
            self._queries,
            [row for row in picked if not row["ready"] and row["task_id"] not in taken],
            self._owed_ms,
        )
        by_id = {row["task_id"]: row for row in picked}
        return [
            *(_as_taken(by_id[id_], token, worker_id) for id_, token, worker_id, _ in takes),
            *(_as_dead(row) for row in picked if row["spent"]),
        ]

    def _shared_out(self, found: Sequence[Row], rows: Sequence[Values]) -> list[Taken]:
        by_token = {row["token"]: row for row in found if row["status"] == TaskStatus.PROCESSING}
        return [Taken([by_token[token] for token, _ in slots_of(row) if token in by_token]) for row in rows]


async def give_up(transaction: Transaction, queries: Queries, due: Sequence[Row], owed_ms: int | None) -> None:
    """Make ready what is due and nobody takes; what has had its last attempt is dead_lettered."""
    rows = [(row["task_id"], int(row["spent"]), _lost(row)) for row in due]
    if rows:
        await transaction.execute_batch(queries["tasks_give_up"], rows, owed_ms=owed_ms)


def slots_of(row: Values) -> list[tuple[str, str]]:
    """Return the tokens of a claim, each with the worker's id."""
    worker_id, count, claim = row
    return [(claim, worker_id)] if count == 1 else [(f"{claim}.{n}", worker_id) for n in range(count)]


def _as_taken(row: Row, token: str, worker_id: str) -> Row:
    """Return what ``tasks_take`` has made of a row; its lease ends no earlier than said here."""
    return {
        **row,
        "status": TaskStatus.PROCESSING,
        "attempts": row["attempts"] + 1,
        "token": token,
        "worker_id": worker_id,
        "error": _lost(row) or row["error"],
        "due_at_ms": row["now_ms"] + row["visibility_timeout"] * 1000,
        "updated_at": row["now_ms"] / 1000,
    }


def _as_dead(row: Row) -> Row:
    """Return what ``tasks_give_up`` has made of a row."""
    return {**row, "status": TaskStatus.DEAD_LETTERED, "error": _lost(row) or row["error"], "worker_id": ""}


def _lost(row: Row) -> str | None:
    """Return what is said of a task whose lease is over, None of any other."""
    return LOST if row["status"] == TaskStatus.PROCESSING else None


def _order(row: Row) -> tuple[int, int]:
    return row["priority"], row["sequence"]


class CompleteTasks(GuardedUpdate):
    """-> completed. Rows as in the query ``tasks_complete``; False for a task that is somebody else's, or not there."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("task completed", queries["tasks_complete"], *_look(queries))

    def _is_mine(self, found: Row, row: Values) -> bool:
        return bool(found["status"] == TaskStatus.COMPLETED and found["token"] == row[2])


class ExtendTasks(GuardedUpdate):
    """A longer lease. Rows as in the query ``tasks_extend``."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("lease extended", queries["tasks_extend"], *_look(queries))

    def _is_mine(self, found: Row, row: Values) -> bool:
        return bool(found["status"] == TaskStatus.PROCESSING and found["token"] == row[1])

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:  # noqa: ARG002
        return [None] * len(rows)  # to extend again does no harm


class FailTasks(Looks):
    """processing -> pending or dead_lettered. Rows as in the query ``tasks_fail``.

    The result is the task's row, or False for one that is somebody else's, or not there.
    """

    name = "task failed"

    def __init__(self, queries: Queries, letters: Letters, *, base_ms: int, cap_ms: int) -> None:
        super().__init__(*_look(queries))
        self._fail = queries["tasks_fail"]
        self._letters = letters
        self._constants = {"base_ms": base_ms, "cap_ms": cap_ms, "owed_ms": letters.owed_ms}
        self.one_statement = len(self._fail.statements) == 1 and not letters.joined

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Row | bool]:
        failed = await transaction.fetch_batch(self._fail, rows, **self._constants)
        written = {row["token"]: row for row in failed}
        await self._letters.make_in(
            transaction, [row for row in written.values() if row["status"] == TaskStatus.DEAD_LETTERED]
        )
        if len(written) == len(rows):
            return [written[row[2]] for row in rows]
        earlier = await self.recall(transaction, rows)
        return [written.get(row[2]) or there or False for row, there in zip(rows, earlier, strict=True)]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Row | None]:
        found = await self._found(transaction, rows)
        return [
            there
            if (there := found.get(row[0])) and there["token"] == row[2] and there["status"] != TaskStatus.PROCESSING
            else None
            for row in rows
        ]


__all__ = ["CompleteTasks", "ExtendTasks", "FailTasks", "PutTasks", "TakeTasks", "Taken", "give_up"]
