"""The schedules of a database: made, declared, looked up, paused, fired by hand and deleted, by any process."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.cron import cron
from holdfast.core.moments import milliseconds_of, moment_of
from holdfast.core.options import OnConflict, check_on_conflict
from holdfast.core.slots import TO_BE_WORKED_OUT
from holdfast.db.in_doubt import made_sure
from holdfast.errors import (
    ConfigurationError,
    InvalidSchedule,
    QueueNotFound,
    Retryable,
    ScheduleConflict,
    ScheduleNotFound,
    UnknownCommit,
)
from holdfast.model.schedule import Schedule, ScheduleStatus
from holdfast.workflows.enqueueing.facts import PutAll
from holdfast.workflows.enqueueing.rows import KEY
from holdfast.workflows.schedules.chain import Chain, link, runs_left
from holdfast.workflows.schedules.rows import Rows
from holdfast.workflows.schedules.settings import BOTH, passes_of
from holdfast.workflows.schedules.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World
    from holdfast.workflows.declaring.registry import Definition
    from holdfast.workflows.enqueueing.rows import Entry
    from holdfast.workflows.facts import EnqueueRuns
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.queues import QueueStore
    from holdfast.workflows.schedules.settings import Wanted

T = TypeVar("T")

_AT_ONCE = 500
_MOST_SLOTS = 100_000
_ONE_AT_A_TIME = ("queue", "skip")  # policies under which slots that are fired by hand are a chain
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # any time zone can tell what moment it is


class Schedules:
    """The table ``workflow_schedules``. A change counts from its commit on: every process goes by the row.

    *functions* are the workflows this process has, by name; a schedule for one of them is held to its signature. *told*
    is awaited after every change.
    """

    def __init__(
        self,
        queues: QueueStore,
        queries: Queries,
        payloads: Payloads,
        world: World,
        enqueue: EnqueueRuns,
        *,
        names: Callable[[int], str] | None = None,
    ) -> None:
        self.functions: Mapping[str, Definition] = {}
        self.told: Callable[[], Awaitable[None]] = _nobody
        self._queues = queues
        self._verbs = queues.verbs
        self._queries = queries
        self._payloads = payloads
        self._world = world
        self._enqueue = enqueue
        self._names = names
        self._rows = Rows(payloads, world.new_id)
        self._put = PutAll(enqueue)

    def within(self, queues: QueueStore, names: Callable[[int], str]) -> Schedules:
        """Return the schedules for one request whose ids are *names*: all of it through the verbs of *queues*."""
        made = Schedules(queues, self._queries, self._payloads, self._world, self._enqueue, names=names)
        made.functions, made.told = self.functions, self.told
        return made

    async def create(self, wanted: Sequence[Wanted], on_conflict: OnConflict = "update") -> list[Schedule]:
        """Make schedules, all or none, and return them by name.

        One that is there is set so, kept, or refused with ``ScheduleConflict``.

        One that is set anew stays paused if it is, and its next slot stays the same unless expression or zone change.
        """
        check_on_conflict(on_conflict)
        ready = self._ready(wanted)

        async def work(transaction: Transaction) -> list[Schedule]:
            return [await self._put_one(transaction, *each, on_conflict) for each in ready]

        return await self._carry_out(work)

    async def apply(self, wanted: Sequence[Wanted]) -> list[Schedule]:
        """Make these the schedules there are, in one transaction: made or set as said, and all others deleted."""
        ready = self._ready(wanted)
        names = {each.schedule_name for each in wanted}

        async def work(transaction: Transaction) -> list[Schedule]:
            for row in await transaction.fetch(self._queries["schedules_hold"]):
                if row["schedule_name"] not in names:
                    await transaction.execute(self._queries["schedule_delete"], schedule_id=row["schedule_id"])
            return [await self._put_one(transaction, *each, "update") for each in ready]

        return await self._carry_out(work)

    async def get(self, name: str) -> Schedule | None:
        """Return a schedule as it is now; None if there is none of this name."""
        row = await self._verbs.fetchone(self._queries["schedule_get"], name=name)
        return None if row is None else self._rows.schedule(row)

    async def find(
        self, status: str | None = None, workflow_name: str | None = None, prefix: str | None = None
    ) -> list[Schedule]:
        """Return schedules by name: all, or those that fit."""
        chosen = {"prefix": prefix or None, "prefix_length": len(prefix) if prefix else None}
        rows = await self._verbs.fetch(
            self._queries["schedules_list"], status=status, workflow_name=workflow_name, **chosen
        )
        return [self._rows.schedule(row) for row in rows]

    async def pause(self, name: str, *, paused: bool) -> None:
        """Have a schedule fire no more, or again from now on; ``ScheduleNotFound`` if there is none."""

        async def work(transaction: Transaction) -> None:
            row = await self._held(transaction, name)
            status = ScheduleStatus.PAUSED if paused else ScheduleStatus.ACTIVE
            if row["status"] != status:
                due: int | None = TO_BE_WORKED_OUT
                if not paused:
                    due = await self._next(transaction, row["schedule"], row["cron_timezone"])
                await transaction.execute(
                    self._queries["schedule_stand"], schedule_id=row["schedule_id"], status=status.value, next_due=due
                )

        await self._carry_out(work)

    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs stay. ``ScheduleNotFound`` if there is none."""
        unsure = False

        async def work(transaction: Transaction) -> None:
            if unsure and not await transaction.fetch(self._queries["schedule_get"], name=name):
                return  # the commit whose reply was lost has deleted it
            row = await self._held(transaction, name)
            await transaction.execute(self._queries["schedule_delete"], schedule_id=row["schedule_id"])

        def again() -> None:
            nonlocal unsure
            unsure = True

        await self._carry_out(work, again)

    async def trigger(self, name: str) -> str:
        """Enqueue a run of a schedule now, whatever its status and overlap policy; return its id."""
        run_id = self._names(0) if self._names is not None else f"sched-{name}-trigger-{self._world.new_id()}"

        async def work(transaction: Transaction) -> str:
            row = await self._held(transaction, name)
            version = await version_of(transaction, self._queries, row)
            [now] = await transaction.fetch(self._queries["schedules_now"])
            [made] = await self._put.put(transaction, [self._rows.run(row, moment_of(now["now_ms"]), version, run_id)])
            return made

        return await self._carry_out(work)

    async def backfill(self, name: str, start: datetime, end: datetime) -> list[str]:
        """Fire the slots from *start* on and before *end*, in order; return the ids of their runs.

        All that are asked for fire: where slots must not overlap they run one after the other.
        A slot that has fired keeps its run, so this may be repeated. So many slots a transaction, each all or none.
        ``ConfigurationError`` if the span ends before it begins or in the future, or has too many slots.
        """
        row = await self._verbs.fetchone(self._queries["schedule_get"], name=name)
        if row is None:
            raise _not_found(name)
        now_ms = (await self._verbs.fetch(self._queries["schedules_now"]))[0]["now_ms"]
        slots = await asyncio.to_thread(_slots_between, row, start, end, now_ms)  # a moment, if there are many
        ids: list[str] = []
        for at in range(0, len(slots), _AT_ONCE):
            ids += await self._carry_out(self._fire(name, slots[at : at + _AT_ONCE]))
        return ids

    def _fire(self, name: str, slots: Sequence[datetime]) -> Callable[[Transaction], Coroutine[Any, Any, list[str]]]:
        async def work(transaction: Transaction) -> list[str]:
            row = await self._held(transaction, name)
            version = await version_of(transaction, self._queries, row)
            entries = [self._rows.slot(row, slot, version) for slot in slots]
            if row["overlap"] in _ONE_AT_A_TIME:
                return await self._put_chain(transaction, row, entries)
            return await self._put.put(transaction, entries)

        return work

    async def _put_chain(self, transaction: Transaction, row: Row, entries: Sequence[Entry]) -> list[str]:
        """Put runs of a schedule that is held behind each other and what is left of it, and later slots behind them."""
        last = row["last_run_id"]
        left = last is not None and await runs_left(transaction, self._queries, [last])
        chain = Chain(entries, last if left else None)
        ids = await self._put.put(transaction, chain.entries)
        keys = [(each.row[0], each.row[KEY]) for each in chain.entries]
        found = await transaction.fetch_batch(self._queries["runs_made"], keys)
        made = {each["workflow_uuid"] for each in found}
        await link(transaction, self._queries, chain.links(made))
        if made:
            end = [each for each in ids if each in made][-1]
            await transaction.execute(self._queries["schedule_last_run"], schedule_id=row["schedule_id"], run_id=end)
        return ids

    async def _put_one(
        self, transaction: Transaction, schedule_id: str, values: Mapping[str, Any], on_conflict: OnConflict
    ) -> Schedule:
        name = values["schedule_name"]
        await self._check_queue(transaction, name, values["queue_name"])
        due = await self._next(transaction, values["schedule"], values["cron_timezone"])
        await transaction.execute(self._queries["schedule_insert"], schedule_id=schedule_id, next_due=due, **values)
        there = await transaction.fetchone(self._queries["schedule_hold"], name=name)
        if there is None:
            raise Retryable(f"The schedule {name!r} was there, and was deleted at this moment; nothing was written.")
        if there["schedule_id"] == schedule_id or on_conflict == "keep":
            return self._rows.schedule(there)
        if on_conflict == "reject":
            raise ScheduleConflict(
                f'There is a schedule {name!r} already. Choose another name, or pass on_conflict="update" or "keep".'
            )
        if all(there[key] == _as_stored(value) for key, value in values.items()):
            return self._rows.schedule(there)
        same = (there["schedule"], there["cron_timezone"]) == (values["schedule"], values["cron_timezone"])
        if same or there["status"] != ScheduleStatus.ACTIVE:
            due = there["next_due_epoch_ms"]
        changed = {key: value for key, value in values.items() if key != "schedule_name"}
        await transaction.execute(
            self._queries["schedule_set"], schedule_id=there["schedule_id"], next_due=due, **changed
        )
        return self._rows.schedule(await self._held(transaction, name))

    async def _check_queue(self, transaction: Transaction, name: str, queue_name: str | None) -> None:
        if queue_name is None:
            return
        queue = await transaction.fetchone(self._queues.queries["queue_get"], name=queue_name)
        if queue is None:
            raise QueueNotFound(
                f"There is no queue {queue_name!r} for the runs of the schedule {name!r}: register it with "
                f"register_queue({queue_name!r}), or leave queue_name away."
            )
        if queue["partition_queue"]:
            raise ConfigurationError(
                f"The queue {queue_name!r} has partitions, and the runs of the schedule {name!r} belong to none: "
                "choose a queue without."
            )

    async def _next(self, transaction: Transaction, schedule: str, zone: str | None) -> int:
        """Return the first slot from now on; ``InvalidSchedule`` if none will ever come."""
        [row] = await transaction.fetch(self._queries["schedules_now"])
        slot = cron(schedule, zone).next(moment_of(row["now_ms"]))
        if slot is None:
            raise InvalidSchedule(f"The schedule {schedule!r} names days that never come, so it would never fire.")
        return milliseconds_of(slot)

    async def _held(self, transaction: Transaction, name: str) -> Row:
        row = await transaction.fetchone(self._queries["schedule_hold"], name=name)
        if row is None:
            raise _not_found(name)
        return row

    def _ready(self, wanted: Sequence[Wanted]) -> list[tuple[str, dict[str, Any]]]:
        """Return ids and columns, by name: rows are held in that order, so that nobody waits for each other."""
        names = [each.schedule_name for each in wanted]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ConfigurationError(f"Schedules have names of their own; there are two called {', '.join(twice)}.")
        ready = [(self._new_id(number), self._values(each)) for number, each in enumerate(wanted)]
        return sorted(ready, key=lambda each: str(each[1]["schedule_name"]))

    def _values(self, wanted: Wanted) -> dict[str, Any]:
        """Return the columns of a schedule; what it was said by name is held to the function, if that is here."""
        values = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
        values["context"], values["context_serialization"] = self._rows.dump(wanted.context)
        if wanted.passes is None:
            known = self.functions.get(wanted.workflow_name)
            values["passes"] = BOTH if known is None else passes_of(wanted.schedule_name, known)
            values["workflow_class_name"] = None if known is None else known.class_name
        return values

    def _new_id(self, number: int) -> str:
        return self._world.new_id() if self._names is None else self._names(number)

    async def _carry_out(
        self, work: Callable[[Transaction], Coroutine[Any, Any, T]], unsure: Callable[[], None] = lambda: None
    ) -> T:
        """Run *work*; after a commit whose reply was lost, again: each of them can be carried out twice."""
        try:
            answer = await self._verbs.run(work)
        except UnknownCommit as error:
            unsure()
            answer = await made_sure(lambda: self._verbs.run(work), error, self._world)
        await self.told()
        return answer


async def _nobody() -> None:
    """Tell nobody: an application looks around after every request by itself."""


def _slots_between(row: Row, start: datetime, end: datetime, now_ms: int) -> Sequence[datetime]:
    for word, moment in (("start", start), ("end", end)):
        if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            raise ConfigurationError(
                f"{word} is a moment of the years {_FIRST_YEAR} to {_LAST_YEAR}, not {moment.isoformat()}."
            )
    if end < start:
        raise ConfigurationError(f"The end {end.isoformat()} lies before the start {start.isoformat()}.")
    if milliseconds_of(end) > now_ms:
        raise ConfigurationError(
            f"The end {end.isoformat()} lies in the future: slots that are still to come fire by themselves."
        )
    slots: list[datetime] = []
    for slot in cron(row["schedule"], row["cron_timezone"]).between(start.astimezone(UTC), end.astimezone(UTC)):
        if len(slots) == _MOST_SLOTS:
            raise ConfigurationError(
                f"The schedule {row['schedule_name']!r} has more than {_MOST_SLOTS} slots between "
                f"{start.isoformat()} and {end.isoformat()}: choose a shorter span."
            )
        slots.append(slot)
    return slots


def _as_stored(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _not_found(name: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"There is no schedule {name!r}: list_schedules() shows those there are.")


__all__ = ["Schedules"]
