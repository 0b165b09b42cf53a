"""A change that a workflow asks for, of runs, queues or schedules, and its record: both or neither (I1).

The run is found under its token and kept so to the commit: an execution that was superseded changes nothing. A change
of runs locks this one among them, before it writes; any other change is made first. The record comes last: it has the
answer in it, and the change may be one of this very run, which may cancel itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.errors import Retryable, Superseded, Unavailable, UnknownCommit
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.facts import superseded
from holdfast.workflows.operations.away import wait_for_database
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.operations.place import PartOver

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.running.run import Run

    Change = Callable[[Transaction, "Ownership"], Coroutine[Any, Any, Any]]


class Ownership:
    """Whether a run is this execution's: asked once a transaction, of its locked row."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_sure = False

    def check(self, row: Row | None) -> None:
        """Take notice of the run's row, which is locked to the end of the transaction. Raises ``Superseded``."""
        if row is None or row["owner_xid"] != self.run.token or row["status"] != WorkflowStatus.PENDING:
            raise superseded(row)
        self.is_sure = True


class RecordedChange:
    """One operation of a workflow that changes something in the application's database."""

    def __init__(self, engine: Engine, operation: Operation) -> None:
        self._engine = engine
        self._operation = operation

    async def make(self, change: Change) -> Kept:
        """Carry *change* out and record what it returns, in one transaction; return that as it is kept.

        *change* may be called several times, and may wait for nothing but the statements of its transaction. What it
        raises is raised, and nothing is changed or recorded then. Waits for as long as the database is away, or asks
        for another try. Raises ``Superseded`` if the run has another owner.
        """
        try:
            return await self._made(change)
        except PartOver:
            raise
        except Superseded as lost:
            self._operation.run.stop(lost)
            raise

    async def _made(self, change: Change) -> Kept:
        failures = 0
        while True:
            try:
                kept = await self._engine.manager.run(lambda each: self._once(each, change), isolation="READ COMMITTED")
                faults.point("control.recorded")
            except UnknownCommit as error:
                found = await self._engine.transactions.own.recall(self._operation)
                if found is not None:
                    return found
                trouble: Exception = error
            except (Retryable, Unavailable) as error:
                trouble = error
            else:
                self._operation.run.suspect = False
                return kept
            failures += 1
            await wait_for_database(self._engine, self._operation.place, self._operation.name, failures, trouble)

    async def _once(self, transaction: Transaction, change: Change) -> Kept:
        engine, operation = self._engine, self._operation
        run = operation.run
        ownership = Ownership(run)
        kept = Kept(*engine.payloads.dump(await change(transaction, ownership)))
        if run.suspect:
            await transaction.execute_batch(engine.queries["runs_progressed"], [(run.id, run.token)])
        if not ownership.is_sure:
            ownership.check(await transaction.fetchone(engine.queries["run_share"], id=run.id))
        record = engine.recorder.row(operation, kept.output, None, kept.serialization, None)
        await transaction.execute_batch(engine.queries["step_record_held"], [record])
        faults.point("control.before_commit")
        return kept
