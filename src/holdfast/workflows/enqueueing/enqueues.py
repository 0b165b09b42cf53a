"""Putting runs in queues: from outside of workflows, or as recorded operations of one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast import faults
from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError, WentBack, WorkflowConflict
from holdfast.model.workflow import seconds
from holdfast.workflows.enqueueing.claims import EnqueueAndClaim, Entered
from holdfast.workflows.enqueueing.debounce import PutOff, debounced
from holdfast.workflows.enqueueing.facts import PutAll, PutByWorkflow, put_durably
from holdfast.workflows.enqueueing.options import check_queue_options
from holdfast.workflows.enqueueing.rows import Entry, entry, named_work, run_meant, waits_in
from holdfast.workflows.enqueueing.unregistered import Unregistered
from holdfast.workflows.facts import EnqueueRuns, RecordSteps
from holdfast.workflows.operations.place import refuse_closed_attempt
from holdfast.workflows.outbox.outbox import OutboxRuns
from holdfast.workflows.running.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.db.session import Row
    from holdfast.model.workflow import Duration, Recorded
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.enqueueing.claims import Ride
    from holdfast.workflows.enqueueing.facts import Put
    from holdfast.workflows.enqueueing.rows import Work
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.remote.remote import QueueOptions

DEBOUNCE = "holdfast.debounce"
ENQUEUE_MANY = "holdfast.enqueue_many"


class _Child(NamedTuple):
    """An operation of a workflow that puts *wanted* in queues; *together* if its record names them in its output."""

    operation: Operation
    wanted: list[Entry]
    put: Put
    together: bool


class Enqueues:
    """Puts the runs of one engine in queues, from its loop or, with ``_blocking``, from threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._hints: set[str | None] = set()
        self._tasks: set[asyncio.Task[Entered]] = set()
        self._unregistered = Unregistered(engine)

    @cached_property
    def kind(self) -> EnqueueRuns:
        """What writes runs of single calls, many of them in one commit."""
        return EnqueueRuns(self._engine.queries, application_id=self._engine.settings.name)

    @cached_property
    def _with_claim(self) -> EnqueueAndClaim:
        return EnqueueAndClaim(self.kind)

    @cached_property
    def outbox(self) -> OutboxRuns:
        """What writes runs of transactions that are not the library's own, of whose end nobody here is told."""
        engine, settings = self._engine, self._engine.settings
        told = settings.notify and engine.manager.dialect is DialectName.POSTGRES
        return OutboxRuns(engine.queries, application_id=settings.name, channel=settings.schema if told else None)

    @cached_property
    def _all(self) -> PutAll:
        return PutAll(self.kind)

    @cached_property
    def _records(self) -> tuple[RecordSteps, RecordSteps]:
        """The records of workflows, and of those whose attempts are set back by one."""
        queries = self._engine.queries
        return RecordSteps(queries), RecordSteps(queries, progress=True)

    @cached_property
    def _children(self) -> tuple[PutByWorkflow, PutByWorkflow]:
        return self._kinds(self._all)

    def _kinds(self, put: Put) -> tuple[PutByWorkflow, PutByWorkflow]:
        usual, progress = self._records
        queries, payloads = self._engine.queries, self._engine.payloads
        return PutByWorkflow(usual, put, queries, payloads), PutByWorkflow(progress, put, queries, payloads)

    def named(
        self,
        name: str,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] | None,
        options: QueueOptions,
        queue_name: str,
    ) -> Work:
        """Return a call by name that goes into a queue; refuse what was said wrongly."""
        work = named_work(self._engine.payloads, name, arguments, keywords, options, queue_name)
        check_queue_options(work.options, "enqueue()")
        return work

    async def enqueue(self, place: WorkflowPlace | None, work: Work) -> Ticket:
        """Put a run in its queue; in a workflow as a child, whose start is recorded in the same commit."""
        if place is not None:
            child = self._begin(place, work)
            return Ticket((await self._carried(child))[0], work.codec, None)
        wanted = self.entry(work)
        return self._ticket(work, wanted, await self._enter(wanted))

    def enqueue_blocking(self, place: WorkflowPlace | None, work: Work) -> Ticket:
        """Do as ``enqueue`` from a thread."""
        if place is not None:
            child = self._begin(place, work)
            return Ticket(self._carried_blocking(child)[0], work.codec, None)
        wanted = self.entry(work)
        return self._ticket(work, wanted, self._enter_blocking(wanted))

    async def enqueue_many(self, place: WorkflowPlace | None, works: Sequence[Work]) -> list[Ticket]:
        """Put runs in their queues, all or none, in one commit; in a workflow one recorded operation."""
        if place is not None:
            ids = await self._carried(self._begin_many(place, works))
        else:
            ids = await self._put(self._all, [self.entry(work) for work in works])
        return _tickets(ids, works)

    def enqueue_many_blocking(self, place: WorkflowPlace | None, works: Sequence[Work]) -> list[Ticket]:
        """Do as ``enqueue_many`` from a thread."""
        if place is not None:
            ids = self._carried_blocking(self._begin_many(place, works))
        else:
            ids = self._engine.ask_blocking(self._put(self._all, [self.entry(work) for work in works]))
        return _tickets(ids, works)

    async def debounce(self, place: WorkflowPlace | None, work: Work, key: str, period: Duration) -> Ticket:
        """Put off the run that waits under *key*, with these arguments, or put one in its queue that waits."""
        wanted, put = self._debounced(work, key, period)
        if place is not None:
            ids = await self._carried(self._begin_debounce(place, wanted, put, (key, seconds(period))))
        else:
            ids = await self._put(put, [self.entry(wanted)])
        return Ticket(ids[0], work.codec, None)

    def debounce_blocking(self, place: WorkflowPlace | None, work: Work, key: str, period: Duration) -> Ticket:
        """Do as ``debounce`` from a thread."""
        wanted, put = self._debounced(work, key, period)
        if place is not None:
            ids = self._carried_blocking(self._begin_debounce(place, wanted, put, (key, seconds(period))))
        else:
            ids = self._engine.ask_blocking(self._put(put, [self.entry(wanted)]))
        return Ticket(ids[0], work.codec, None)

    def _debounced(self, work: Work, key: str, period: Duration) -> tuple[Work, PutOff]:
        wanted = debounced(work, key, period)
        return wanted, PutOff(self.kind, self._engine.queries, period, work.options.debounce_timeout)

    def entry(self, work: Work) -> Entry:
        """Make the row of a run that no workflow asks for; refuse what cannot be stored."""
        self._engine.check_launched()
        refuse_closed_attempt()
        self._check_queue(work)
        return entry(self._engine.payloads, self._engine.settings.world.new_id, work)

    def _check_queue(self, work: Work) -> None:
        queue_name, key = work.options.queue_name, work.options.queue_partition_key
        if queue_name is None:
            return
        self._unregistered.put_in(queue_name)
        if key is None and self._engine.wants_partition_key(queue_name):
            raise ConfigurationError(
                f"The queue {queue_name!r} has partitions: say which one a run of {work.name!r} belongs to, with "
                "options(queue_partition_key=...)."
            )

    async def _enter(self, wanted: Entry) -> Entered:
        """Write an entry, with the claim of it where this process is at rest."""
        self._engine.refuse_other_loop()
        ride = self._engine.dispatch.ride(waits_in(wanted))
        if ride is None:
            return Entered(await self._engine.starts.written(self.kind, wanted.row), [])
        # What is claimed must be begun: the claim is seen to its end though the caller may be cancelled.
        task = asyncio.get_running_loop().create_task(self._enter_and_claim(wanted, ride))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _enter_and_claim(self, wanted: Entry, ride: Ride) -> Entered:
        try:
            with self._ridden(ride) as rows:
                entered: Entered = await self._engine.pipeline.write(self._with_claim, (wanted.row, ride.claim))
                rows.extend(entered.rows)
        except WentBack:  # that claim was for an incarnation that has ended
            entered = Entered(await self._engine.starts.written(self.kind, wanted.row), [])
        return entered

    def _enter_blocking(self, wanted: Entry) -> Entered:
        starts = self._engine.starts
        ride = self._engine.dispatch.ride(waits_in(wanted))
        if ride is None:
            return Entered(starts.written_blocking(self.kind, wanted.row), [])
        try:
            with self._ridden(ride) as rows:
                entered: Entered = self._engine.pipeline.write_blocking(self._with_claim, (wanted.row, ride.claim))
                rows.extend(entered.rows)
        except WentBack:
            entered = Entered(starts.written_blocking(self.kind, wanted.row), [])
        return entered

    @contextmanager
    def _ridden(self, ride: Ride) -> Iterator[list[Row]]:
        """End *ride*, however it goes, with the rows that are in the list by then."""
        rows: list[Row] = []
        try:
            yield rows
        finally:
            self._engine.on_loop(partial(ride.end, ride, rows))

    def _ticket(self, work: Work, wanted: Entry, entered: Entered) -> Ticket:
        run_id = run_meant(wanted, entered.outcome)
        if any(row["workflow_uuid"] == run_id for row in entered.rows):
            faults.point("run.enqueued")
        else:
            self.released([wanted])
        return Ticket(run_id, work.codec, None)

    async def _put(self, put: Put, wanted: Sequence[Entry]) -> list[str]:
        self._engine.refuse_other_loop()
        ids = await put_durably(self._engine.manager, self._engine.settings.world, put, wanted)
        self.released(wanted)
        return ids

    def released(self, wanted: Sequence[Entry]) -> None:
        """Have the dispatcher look, once for whatever is enqueued before it does; from any thread."""
        faults.point("run.enqueued")
        with self._lock:
            told = bool(self._hints)
            self._hints.update(map(waits_in, wanted))
        if not told:
            self._engine.on_loop(self._tell)

    def _tell(self) -> None:
        with self._lock:
            hints, self._hints = self._hints, set()
        for queue_name in hints:
            self._engine.work_released(queue_name)

    def _begin(self, place: WorkflowPlace, work: Work) -> _Child | list[str]:
        """Begin the operation of a single child; the ids that are recorded, if it is in the record."""
        mark = self._engine.payloads.mark(work.name, work.arguments, work.keywords)
        operation, recorded = self._engine.recorder.begin(place, work.name, mark)
        if recorded is not None:
            return self._replayed(operation, recorded)
        return self._child(place, operation, [work], self._all, together=False)

    def _begin_many(self, place: WorkflowPlace, works: Sequence[Work]) -> _Child | list[str]:
        given = tuple([work.name, work.arguments, work.keywords] for work in works)
        mark = self._engine.payloads.mark(ENQUEUE_MANY, given, {})
        operation, recorded = self._engine.recorder.begin(place, ENQUEUE_MANY, mark)
        if recorded is not None:
            return self._replayed(operation, recorded)
        return self._child(place, operation, works, self._all, together=True)

    def _begin_debounce(
        self, place: WorkflowPlace, work: Work, put: PutOff, said: tuple[Any, ...]
    ) -> _Child | list[str]:
        mark = self._engine.payloads.mark(DEBOUNCE, (work.name, *said, *work.arguments), work.keywords)
        operation, recorded = self._engine.recorder.begin(place, DEBOUNCE, mark)
        if recorded is not None:
            return self._replayed(operation, recorded)
        return self._child(place, operation, [work], put, together=False)

    def _child(
        self, place: WorkflowPlace, operation: Operation, works: Sequence[Work], put: Put, *, together: bool
    ) -> _Child:
        """Make the rows of children; their ids are the same whenever the operation is tried anew."""
        for work in works:
            self._check_queue(work)
        payloads, new_id, run = self._engine.payloads, self._engine.settings.world.new_id, place.run
        identity = operation.identity
        identities = [f"{identity}#{index}" for index in range(len(works))] if together else [identity]
        wanted = [
            entry(payloads, new_id, work, run_id=run.child_id(each), parent=run)
            for work, each in zip(works, identities, strict=True)
        ]
        return _Child(operation, wanted, put, together)

    def _replayed(self, operation: Operation, recorded: Recorded) -> list[str]:
        """Return the ids in the record, or raise what is recorded instead."""
        ids: list[str] | None = self._engine.recorder.deliver(
            operation, recorded, self._engine.payloads.typed(list[str])
        )
        found = ids if recorded.child_id is None else [recorded.child_id]
        return self._noted(operation, found or [])

    async def _carried(self, child: _Child | list[str]) -> list[str]:
        """Write record and runs; a refusal is recorded too, and raised as a replay will raise it."""
        if isinstance(child, list):
            return child
        recorder = self._engine.recorder
        try:
            ids: list[str] = await recorder.record_with(
                child.operation, self._kinds_of(child), child.wanted, **self._said(child)
            )
        except WorkflowConflict as error:
            raise await recorder.record_error(child.operation, error) from None
        self.released(child.wanted)
        return self._noted(child.operation, ids)

    def _carried_blocking(self, child: _Child | list[str]) -> list[str]:
        if isinstance(child, list):
            return child
        recorder = self._engine.recorder
        try:
            ids: list[str] = recorder.record_with_blocking(
                child.operation, self._kinds_of(child), child.wanted, **self._said(child)
            )
        except WorkflowConflict as error:
            raise recorder.record_error_blocking(child.operation, error) from None
        self.released(child.wanted)
        return self._noted(child.operation, ids)

    def _kinds_of(self, child: _Child) -> tuple[PutByWorkflow, PutByWorkflow]:
        return self._children if child.put is self._all else self._kinds(child.put)

    def _said(self, child: _Child) -> dict[str, str]:
        """Return what the record says of the runs, if none of them is to be another."""
        ids = [each.row[0] for each in child.wanted]
        if not child.together:
            return {"child_id": ids[0]}
        output, format_ = self._engine.payloads.dump(ids)
        return {"output": output, "format_": format_}

    def _noted(self, operation: Operation, ids: list[str]) -> list[str]:
        """Have a run that may be tried again as a whole know where its children were enqueued."""
        cut_at = operation.run.cut_at
        if cut_at is not None:
            for child_id in ids:
                cut_at.child(child_id, operation.position)
        return ids


def _tickets(ids: Sequence[str], works: Sequence[Work]) -> list[Ticket]:
    return [Ticket(run_id, work.codec, None) for run_id, work in zip(ids, works, strict=True)]
