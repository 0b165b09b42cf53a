"""The durable facts of a run, as kinds of the commit pipeline: started, enqueued, step recorded, finished, put back.

Every fact but a start is guarded by the run's owner token. A fact whose guard does not hold fails alone with
``Superseded``, which carries the status that was found.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.db.pipeline.operation import Counted, Unwritten
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, Retryable, Superseded, WorkflowConflict
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.workflows.messaging.going_back import GoingBack
from holdfast.workflows.streams.entries import CutStreams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction


@dataclass(frozen=True, slots=True)
class Existing:
    """A start that found its id taken: the row of the run that has it."""

    row: Row


class ExistingAlone(Unwritten, Existing):
    """The same, where nothing else was written with the start."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duplicate(Unwritten):
    """An enqueue that found its deduplication id taken: the row of the run that has it."""

    row: Row


STARTED = object()
_ROUNDS = 10


class _OfRuns(Counted):
    """A write of rows that begin with the ids of their runs, and a look at the runs of those it left out."""

    def __init__(self, name: str, query: Query, queries: Queries, constants: Mapping[str, Any]) -> None:
        super().__init__(query, constants)
        self.name = name
        self._look = queries["runs_look"]

    async def _found(self, transaction: Transaction, rows: Sequence[Values]) -> dict[str, Row]:
        ids = [(each,) for each in dict.fromkeys(row[0] for row in rows)]
        return {row["workflow_uuid"]: row for row in await transaction.fetch_batch(self._look, ids)}


class _RunsFirst(_OfRuns):
    """What starts and enqueues have in common: insert, and look up who has the ids of the rows left out."""

    def __init__(self, name: str, query: str, key: int, queries: Queries, constants: Mapping[str, Any]) -> None:
        super().__init__(name, queries[query], queries, constants)
        self._key = key

    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        return [STARTED] * len(rows) if touched == len(rows) else await self.explain(transaction, rows)

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self._found(transaction, rows)
        return [
            STARTED if (there := found.get(row[0])) and there["creation_key"] == row[self._key] else None
            for row in rows
        ]

    async def explain(self, transaction: Transaction, rows: Sequence[Values]) -> list[Any]:
        """Tell by the creation key who has the id: this very row, or an earlier one."""
        found = await self._found(transaction, rows)
        outcomes: list[Any] = []
        for row in rows:
            there = found.get(row[0])
            if there is None:
                gone = f"The run {row[0]} was there and is gone: it was deleted meanwhile. Start it again."
                outcomes.append(WorkflowConflict(gone))
            else:
                outcomes.append(STARTED if there["creation_key"] == row[self._key] else ExistingAlone(there))
        return outcomes


class StartRuns(_RunsFirst):
    """none -> PENDING. Rows as in the query ``run_start``; the result is ``STARTED`` or ``Existing``."""

    def __init__(self, queries: Queries, *, application_id: str, executor_id: str, incarnation: str) -> None:
        self._who = {"application_id": application_id, "executor_id": executor_id, "incarnation": incarnation}
        super().__init__("run started", "run_start", 6, queries, self._who)

    def set_incarnation(self, incarnation: str) -> None:
        """Start runs for a new incarnation from now on."""
        self._who["incarnation"] = incarnation


class EnqueueRuns(_RunsFirst):
    """none -> ENQUEUED or DELAYED. Rows as in the query ``run_enqueue``.

    The result is ``STARTED``, ``Existing`` or ``Duplicate``.
    """

    def __init__(self, queries: Queries, *, application_id: str) -> None:
        super().__init__("run enqueued", "run_enqueue", 7, queries, {"application_id": application_id})
        self._holders = queries["runs_deduplicated"]

    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        if touched == len(rows):
            return [STARTED] * len(rows)
        outcomes = await self._judged(transaction, rows)
        for _ in range(_ROUNDS):
            free = [place for place, outcome in enumerate(outcomes) if outcome is None]
            if not free:
                return outcomes
            # Whoever had the id or the deduplication id has ended or was deleted between the two statements.
            again = [rows[place] for place in free]
            await transaction.execute_batch(self.query, again, **self.constants)
            for place, outcome in zip(free, await self._judged(transaction, again), strict=True):
                outcomes[place] = outcome
        raise Retryable("Deduplication ids were taken and freed again faster than runs could be put in their place.")

    async def explain(self, transaction: Transaction, rows: Sequence[Values]) -> list[Any]:
        gone = (
            "it was there and is gone: it was deleted, or its deduplication id was freed, meanwhile. Enqueue it again."
        )
        outcomes = await self._judged(transaction, rows)
        return [
            WorkflowConflict(f"The run {row[0]} was not enqueued: {gone}") if outcome is None else outcome
            for row, outcome in zip(rows, outcomes, strict=True)
        ]

    async def _judged(self, transaction: Transaction, rows: Sequence[Values]) -> list[Any]:
        """Tell for each row who has its id or its deduplication id: this very row, another, or, with None, nobody."""
        found = await self._found(transaction, rows)
        wanted = {each for row in rows if row[0] not in found and (each := _deduplication(row)) is not None}
        holders: dict[Any, Row] = {}
        if wanted:
            answer = await transaction.fetch_batch(self._holders, sorted(wanted))
            holders = {(row["queue_name"], row["deduplication_id"]): row for row in answer}
        outcomes: list[Any] = []
        for row in rows:
            there, holder = found.get(row[0]), holders.get(_deduplication(row))
            if there is not None:
                outcomes.append(STARTED if there["creation_key"] == row[self._key] else ExistingAlone(there))
            else:
                outcomes.append(None if holder is None else Duplicate(holder))
        return outcomes


def _deduplication(row: Values) -> tuple[str, str] | None:
    """Return queue and deduplication id of a row of ``run_enqueue``, if it has one."""
    return None if row[18] is None else (row[17], row[18])


class RecordSteps(Counted):
    """One record an operation. Rows as in the query ``step_record``; the result is None.

    With *progress* the runs' recovery attempts are set back to 0 in the same commit: they got somewhere.
    """

    name = "step recorded"

    def __init__(self, queries: Queries, *, progress: bool = False) -> None:
        at_once = queries["step_record_new"] if queries.dialect is DialectName.POSTGRES else None
        super().__init__(queries["step_record"], {}, at_once)
        self._look = queries["steps_look"]
        self._progressed = queries["runs_progressed"] if progress else None
        self.one_statement = self.one_statement and not progress

    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        if self._progressed is not None:
            await transaction.execute_batch(self._progressed, [(row[0], row[1]) for row in rows])
        if touched == len(rows):
            return [True] * len(rows)
        found = await self.found(transaction, rows)
        return [_verdict(found[row[0], row[4]], row[1]) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self.found(transaction, rows)
        return [True if found[row[0], row[4]]["recorded_by"] == row[1] else None for row in rows]

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns: only with the token does a record that was made go away again."""
        found = await self.found(transaction, rows)
        return [_record_stands(found[row[0], row[4]], row[1]) for row in rows]

    async def found(self, transaction: Transaction, rows: Sequence[Values]) -> dict[tuple[str, str], Row]:
        """Return what there is of the runs and the records of *rows*, by run and identity."""
        keys = [(row[0], row[2], row[4]) for row in rows]
        answer = await transaction.fetch_batch(self._look, keys)
        return {(row["workflow_uuid"], row["identity"]): row for row in answer}


def superseded(found: Row | None) -> Superseded:
    """Return what an execution is told whose write is refused: what has become of the run, by its row."""
    if found is None:
        return Superseded("the run is gone")
    if found["status"] == WorkflowStatus.PENDING:
        return Superseded("another execution owns the run")
    return Superseded(f"the run is {found['status']}, and nothing more is recorded for it")


def _is_held(found: Row, token: str) -> bool:
    """Whether the execution with this token still owns the run."""
    return bool(found["owner_xid"] == token and found["status"] == WorkflowStatus.PENDING)


def _record_stands(found: Row, token: str) -> bool | None:
    if found["recorded_by"] == token:
        return True
    return False if _is_held(found, token) else None


def _verdict(found: Row, token: str) -> Any:
    """Tell by the token in the record whose it is; if there is none of this token, why it was refused."""
    if found["recorded_by"] == token:
        return True
    if not _is_held(found, token):
        return superseded(found)
    return Conflict(
        f"Operation {found['identity']} of run {found['workflow_uuid']} is recorded already, or its position is taken."
    )


class StartChildren:
    """A child's start and its parent's record of it: both or neither. Rows are (step row, run row).

    The child is started only where the record was inserted, so a superseded parent starts nobody.
    """

    name = "child started"
    one_statement = False

    def __init__(self, record: RecordSteps, start: _RunsFirst) -> None:
        self._record = record
        self._start = start

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        recorded = await self._record.apply(transaction, [row[0] for row in rows])
        granted = [place for place, outcome in enumerate(recorded) if outcome is True]
        outcomes: list[Any] = list(recorded)
        if granted:
            started = await self._start.apply(transaction, [rows[place][1] for place in granted])
            for place, outcome in zip(granted, started, strict=True):
                outcomes[place] = _beside_a_record(outcome)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        recorded = await self._record.recall(transaction, [row[0] for row in rows])
        started = await self._start.explain(transaction, [row[1] for row in rows])
        return [
            None if record is None else _beside_a_record(outcome)
            for record, outcome in zip(recorded, started, strict=True)
        ]

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns, by the records."""
        return await self._record.stands(transaction, [row[0] for row in rows])


def _beside_a_record(outcome: Any) -> Any:
    """Return what came of a start. If the run was there already, something was written all the same: the record."""
    return Existing(outcome.row) if isinstance(outcome, Existing) else outcome


class EndRuns(_OfRuns):
    """What the ends of executions have in common: a guarded update, and a look at why it left rows out."""

    leaves_key = True  # the token, by which the update is known again

    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        if touched == len(rows):
            return [True] * len(rows)
        found = await self._found(transaction, rows)
        return [True if self._is_mine(found.get(row[0]), row) else superseded(found.get(row[0])) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self._found(transaction, rows)
        return [True if self._is_mine(found.get(row[0]), row) else None for row in rows]

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns: an execution never gets back what it has given up."""
        found = await self._found(transaction, rows)
        return [self._row_stands(found.get(row[0]), row) for row in rows]

    def _row_stands(self, found: Row | None, row: Values) -> bool | None:
        if found is not None and _is_held(found, row[1]):
            return False
        return True if self.leaves_key and self._is_mine(found, row) else None

    @abstractmethod
    def _is_mine(self, found: Row | None, row: Values) -> bool:
        """Whether what is found shows that this very row was written, by an earlier attempt perhaps."""


class FinishRuns(EndRuns):
    """PENDING -> SUCCESS or ERROR. Rows as in the query ``run_finish``."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("outcome written", queries["run_finish"], queries, {})

    def _is_mine(self, found: Row | None, row: Values) -> bool:
        return found is not None and found["owner_xid"] == row[1] and WorkflowStatus(found["status"]).has_ended


class HandOverRuns(EndRuns):
    """PENDING -> ENQUEUED by its holder. Rows are (id, token)."""

    leaves_key = False

    def __init__(self, queries: Queries) -> None:
        constants = {"internal_queue": INTERNAL_QUEUE, "begun": 1}
        super().__init__("hand-over", queries["run_hand_over"], queries, constants)

    def _is_mine(self, found: Row | None, row: Values) -> bool:
        # Handing over clears the token: that it is not ours any more is all that was wanted.
        return found is None or found["owner_xid"] != row[1]


class RetryRuns(EndRuns):
    """PENDING -> DELAYED by its holder, to be tried again as a whole. Rows as in the query ``run_retry``.

    What was recorded, and written to streams, from position *cut* on goes in the same commit, and a new generation
    begins. What they had received is to be received again, and what they had set is undone.
    """

    def __init__(self, queries: Queries) -> None:
        constants = {"internal_queue": INTERNAL_QUEUE}
        super().__init__("retry", queries["run_retry"], queries, constants)
        self._cut = queries["run_retry_cut"]
        self._streams = CutStreams(queries)
        self._going_back = GoingBack(queries)
        self.one_statement = False

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await super().apply(transaction, rows)
        await transaction.execute_batch(self._cut, rows)
        await self._streams.cut(transaction, rows)
        done = [(row[0], row[2]) for row, outcome in zip(rows, outcomes, strict=True) if outcome is True]
        await self._going_back.cut(transaction, done)
        return outcomes

    def _is_mine(self, found: Row | None, row: Values) -> bool:
        return found is not None and found["change_key"] == row[1]
