"""Firing the slots that are due: the runs are inserted, and the schedule moves on, in one transaction.

Any process may do it at any moment. The rows of due schedules are held with SKIP LOCKED, so that nobody waits for one
that is firing already; and the move is made only from the slot that was read. Whoever comes second finds nothing due. A
commit whose reply was lost needs no question: the next look finds the schedule moved on, or does it again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from holdfast import faults
from holdfast.core.cron import cron
from holdfast.core.moments import milliseconds_of, moment_of
from holdfast.core.slots import plan, written
from holdfast.db.url import DialectName
from holdfast.errors import InvalidSchedule, Retryable, SerializationError
from holdfast.workflows.enqueueing.rows import Entry, waits_in
from holdfast.workflows.facts import STARTED
from holdfast.workflows.schedules.chain import Chain, link, runs_left
from holdfast.workflows.schedules.rows import Rows
from holdfast.workflows.schedules.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World
    from holdfast.workflows.control.cancelling import Cancelling
    from holdfast.workflows.facts import EnqueueRuns
    from holdfast.workflows.payloads import Payloads

logger = logging.getLogger("holdfast.schedules")

_SCHEDULES_AT_ONCE = 100
_RUNS_AT_ONCE = 500
_LEFT_OUT_FOR = 30.0  # seconds until a schedule that cannot be read here is looked at again, unless it is changed


class Fired(NamedTuple):
    """What one transaction came to: the queues that have new runs (None: those are delayed), and how many there are.

    *cancelled* are runs that had to make room. *due_in* is the seconds until the next slot of any schedule, 0 or less
    if more are due.
    """

    queues: frozenset[str | None] = frozenset()
    runs: int = 0
    cancelled: tuple[str, ...] = ()
    due_in: float | None = None


@dataclass(slots=True)
class _Batch:
    """What one transaction is about to write."""

    entries: list[Entry] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    cancel: list[str] = field(default_factory=list)
    moves: list[tuple[str, int, int | None, str | None, str | None]] = field(default_factory=list)


class Firing:
    """Fires slots for the schedules of one database."""

    def __init__(
        self,
        manager: ConnectionManager,
        queries: Queries,
        payloads: Payloads,
        world: World,
        enqueue: EnqueueRuns,
        cancelling: Cancelling,
    ) -> None:
        self._manager = manager
        self._queries = queries
        self._world = world
        self._enqueue = enqueue
        self._cancelling = cancelling
        self._rows = Rows(payloads, world.new_id)
        # Schedules that cannot be read here, with their versions: those that were told of; those left out, until when.
        self._told: set[tuple[str, int]] = set()
        self._left_out: dict[tuple[str, int], float] = {}
        # What is held must be seen as it was committed last, whatever the server's default is.
        self._isolation = "READ COMMITTED" if manager.dialect is DialectName.POSTGRES else None

    async def due_in(self) -> float | None:
        """Return the seconds until the next slot of any schedule; None if there is none."""
        [row] = await self._manager.fetch(self._queries["schedules_next"], left_out=self._known_unread())
        return _seconds(row)

    async def fire(self) -> Fired:
        """Fire what is due, a bounded number, in one transaction."""
        fired = await self._manager.run(self._work, isolation=self._isolation)
        if fired.runs:
            faults.point("schedule.fired")
        return fired

    async def _work(self, transaction: Transaction) -> Fired:
        rows = await transaction.fetch(
            self._queries["schedules_due"], most=_SCHEDULES_AT_ONCE, left_out=self._known_unread()
        )
        batch = _Batch()
        if rows:
            await self._plan(transaction, rows, batch)
            await self._write(transaction, batch)
            faults.point("schedule.before_commit")
        [following] = await transaction.fetch(self._queries["schedules_next"], left_out=self._known_unread())
        queues = frozenset(map(waits_in, batch.entries))
        return Fired(queues, len(batch.entries), tuple(batch.cancel), _seconds(following))

    async def _plan(self, transaction: Transaction, rows: Sequence[Row], batch: _Batch) -> None:
        versions = await versions_of(transaction, self._queries, rows)
        last = [row["last_run_id"] for row in rows if row["overlap"] != "allow" and row["last_run_id"] is not None]
        left = await runs_left(transaction, self._queries, last) if last else set()
        most = max(1, _RUNS_AT_ONCE // len(rows))
        for row in rows:
            try:
                self._plan_one(row, versions.get(row["workflow_name"]), left, most, batch)
            except (SerializationError, InvalidSchedule) as error:
                self._leave_out(row, error)

    def _plan_one(self, row: Row, version: str | None, left: set[str], most: int, batch: _Batch) -> None:
        now_ms, was = row["now_ms"], row["next_due_epoch_ms"]
        made = plan(
            cron(row["schedule"], row["cron_timezone"]),
            moment_of(was),
            moment_of(now_ms),
            backfill=bool(row["automatic_backfill"]),
            most=most,
        )
        if made.missed:
            logger.warning(
                "Slots of the schedule %s from %s on were missed while no process could fire them, and are left out; "
                "automatic_backfill=True fires them, and backfill_schedule() does so by hand.",
                row["schedule_name"],
                written(moment_of(was)),
            )
        entries = {self._rows.slot(row, slot, version, now_ms=now_ms): slot for slot in made.slots}
        slots = {each.row[0]: written(slot) for each, slot in entries.items()}
        fired = _overlapping(row, list(entries), left, batch)
        last: str | None = fired[-1].row[0] if fired else None
        due = None if made.following is None else milliseconds_of(made.following)
        batch.entries += fired
        batch.moves.append((row["schedule_id"], was, due, slots.get(last or ""), last))

    async def _write(self, transaction: Transaction, batch: _Batch) -> None:
        if batch.cancel:
            await self._cancelling.runs(batch.cancel, self._world.new_id(), children=True)(transaction)
        if batch.moves:
            moved = await transaction.execute_batch(self._queries["schedules_advance"], batch.moves)
            if moved != len(batch.moves):
                raise Retryable("A schedule that was held has moved on all the same; nothing was written.")
        if batch.entries:
            outcomes = await self._enqueue.apply(transaction, [each.row for each in batch.entries])
            made = {each.row[0] for each, outcome in zip(batch.entries, outcomes, strict=True) if outcome is STARTED}
            await link(transaction, self._queries, [each for chain in batch.chains for each in chain.links(made)])

    def _known_unread(self) -> str | None:
        """Return the schedules that are left out for now, as the queries take them; None if there is none."""
        now = self._world.monotonic()
        self._left_out = {key: until for key, until in self._left_out.items() if until > now}
        if not self._left_out:
            return None
        return "|".join(["", *(f"{each}@{version}" for each, version in self._left_out), ""])

    def _leave_out(self, row: Row, error: Exception) -> None:
        """Leave a schedule to others, and say so once: it must not be in the way of those that can be read here."""
        key = row["schedule_id"], row["version"]
        self._left_out[key] = self._world.monotonic() + _LEFT_OUT_FOR
        if key not in self._told:
            self._told.add(key)
            logger.error(
                "The schedule %s is due and cannot be read by this process, so it is left to others: %s",
                row["schedule_name"],
                error,
            )


def _overlapping(row: Row, entries: list[Entry], left: set[str], batch: _Batch) -> list[Entry]:
    """Return the runs that are made, by the schedule's policy; note in *batch* what else it asks for."""
    last: str | None = row["last_run_id"] if row["last_run_id"] in left else None
    match row["overlap"]:
        case "skip":
            return [] if last is not None else entries[:1]
        case "cancel_other":
            if entries and last is not None:
                batch.cancel.append(last)
            return entries[-1:]
        case "queue":
            batch.chains.append(Chain(entries, last))
            return batch.chains[-1].entries
        case _:
            return entries


def _seconds(row: Row) -> float | None:
    return None if row["slot_ms"] is None else float(row["slot_ms"] - row["now_ms"]) / 1000


__all__ = ["Fired", "Firing"]
