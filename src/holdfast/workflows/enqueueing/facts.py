"""Runs that are put in queues together, all or none, and the record of the workflow that does so in the same commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast import faults
from holdfast.db.in_doubt import made_sure
from holdfast.db.pipeline.operation import weight
from holdfast.errors import UnknownCommit
from holdfast.workflows.enqueueing.rows import DEDUPLICATION, Entry, runs_meant
from holdfast.workflows.parts import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.model.world import World
    from holdfast.workflows.facts import EnqueueRuns, RecordSteps
    from holdfast.workflows.payloads import Payloads

_CHILD_ID = 8  # in a row of step_record


class Put(Protocol):
    """A way to put runs in queues, within a transaction."""

    async def put(self, transaction: Transaction, wanted: Sequence[Entry]) -> list[str]:
        """Write *wanted*; return the ids of the runs that stand for them. If it raises, the caller must roll back."""

    async def is_there(self, transaction: Transaction, wanted: Sequence[Entry]) -> bool:
        """After a commit of unknown outcome: return whether what ``put`` wrote is there."""


class PutAll:
    """Puts all runs in their queues; one that is refused refuses all, with ``WorkflowConflict`` or ``Deduplicated``."""

    def __init__(self, enqueue: EnqueueRuns) -> None:
        self._enqueue = enqueue

    async def put(self, transaction: Transaction, wanted: Sequence[Entry]) -> list[str]:
        """Write them in order, in statements of a size that every server takes."""
        found: list[str] = []
        for part in parts(wanted, _weight):
            outcomes = await self._enqueue.apply(transaction, [each.row for each in part])
            found += runs_meant(part, outcomes)
        return found

    async def is_there(self, transaction: Transaction, wanted: Sequence[Entry]) -> bool:
        """Tell by the creation keys: they came with one commit, so one of them is enough."""
        for part in parts(wanted, _weight):
            if any(await self._enqueue.recall(transaction, [each.row for each in part])):
                return True
        return False


class PutByWorkflow:
    """A workflow's record and the runs it puts in queues: all or nothing. Rows are (step row, entries).

    The result is the list of the runs that stand for the entries, which the record names too: by its child if it was
    written with one, else in its output. Runs are put only where the record was inserted, so a superseded workflow
    enqueues nothing.
    """

    name = "child enqueued"
    one_statement = False

    def __init__(self, record: RecordSteps, put: Put, queries: Queries, payloads: Payloads) -> None:
        self._record = record
        self._put = put
        self._amend = queries["step_amend"]
        self._payloads = payloads
        self._ids = payloads.typed(list[str])

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = list(await self._record.apply(transaction, [row[0] for row in rows]))
        granted = [place for place, outcome in enumerate(outcomes) if outcome is True]
        for place, ids in (await self._decided(transaction, rows, granted)).items():
            outcomes[place] = ids
        left = [place for place in granted if outcomes[place] is True]
        ids = await self._put.put(transaction, [each for place in left for each in rows[place][1]])
        at = 0
        for place in left:
            outcomes[place] = ids[at : at + len(rows[place][1])]
            at += len(rows[place][1])
        changed = [
            self._amended(rows[place], outcomes[place]) for place in left if outcomes[place] != _own(rows[place])
        ]
        if changed:
            await transaction.execute_batch(self._amend, changed)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self._record.found(transaction, [row[0] for row in rows])
        outcomes: list[Any] = []
        for row in rows:
            there = found[row[0][0], row[0][4]]
            if there["recorded_by"] != row[0][1]:
                outcomes.append(None)
            elif there["child_workflow_id"] is not None:
                outcomes.append([there["child_workflow_id"]])
            else:
                outcomes.append(self._ids.load(there["output"], there["serialization"]))
        return outcomes

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns, by the records."""
        return await self._record.stands(transaction, [row[0] for row in rows])

    async def _decided(
        self, transaction: Transaction, rows: Sequence[Values], granted: Sequence[int]
    ) -> dict[int, list[str]]:
        """Return what an earlier attempt, whose commit has landed after all, put in place of those with other ids."""
        asked = [place for place in granted if any(each.row[DEDUPLICATION] is not None for each in rows[place][1])]
        if not asked:
            return {}
        recalled = await self.recall(transaction, [rows[place] for place in asked])
        return {place: ids for place, ids in zip(asked, recalled, strict=True) if ids != _own(rows[place])}

    def _amended(self, row: Values, ids: list[str]) -> Values:
        step = row[0]
        if step[_CHILD_ID] is not None:
            return step[0], step[1], step[2], None, ids[0]
        return step[0], step[1], step[2], self._payloads.dump(ids)[0], None


async def put_durably(manager: ConnectionManager, world: World, put: Put, wanted: Sequence[Entry]) -> list[str]:
    """Put *wanted* in their queues in a transaction of its own; return the ids of the runs that stand for them.

    After a commit whose reply was lost, ask by key whether it took place, and try again if it did not (I9).
    """
    found: list[str] = []

    async def write(transaction: Transaction) -> list[str]:
        found[:] = await put.put(transaction, wanted)
        faults.point("enqueue.before_commit")
        return found

    async def again() -> list[str]:
        if await manager.run(lambda transaction: put.is_there(transaction, wanted)):
            return found
        return await manager.run(write)

    try:
        return await manager.run(write)
    except UnknownCommit as error:
        return await made_sure(again, error, world)


def _weight(wanted: Entry) -> int:
    return weight(wanted.row)


def _own(row: Values) -> list[str]:
    return [each.row[0] for each in row[1]]
