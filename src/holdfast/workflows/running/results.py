"""Waiting for runs that end somewhere else: one poll for all of them, quick at first and slower with time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.outage import Outage
from holdfast.errors import DatabaseError, DeadlinePassed, RecoveryExhausted, WorkflowCancelled, WorkflowNotFound
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.ownership.obstacles import not_ended
from holdfast.workflows.running.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.model.world import World

logger = logging.getLogger("holdfast.workflows")

_FIRST_WAIT = 0.01
_LONGEST_WAIT = 0.5
_MOST_AT_ONCE = 500
_LAST_LOOK = 2.0  # seconds: whoever has waited long enough is not kept waiting by a database that is away


class Results:
    """Tells waiters what became of runs, by looking at their rows. Lives on the engine's loop."""

    def __init__(self, manager: ConnectionManager, queries: Queries, world: World) -> None:
        self._manager = manager
        self._queries = queries
        self._look = queries["runs_look"]
        self._world = world
        self._waiters: dict[str, list[tuple[Callable[[Row | None], None], Callable[[], None]]]] = {}
        self._stopped = False
        self._wait = _FIRST_WAIT
        self._outage = Outage()
        self._poll: asyncio.Task[None] | None = None

    def watch(self, workflow_id: str, tell: Callable[[Row | None], None], closed: Callable[[], None]) -> None:
        """Have *tell* called with the run's row once it has ended, or with None if there is none; on the loop.

        *closed* is called instead if looking ends before that.
        """
        if self._stopped:
            closed()
            return
        self._manager.backend()  # on another loop nobody could ever be told: refused
        self._waiters.setdefault(workflow_id, []).append((tell, closed))
        self._wait = _FIRST_WAIT
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._run(), name="holdfast-results")

    def unwatch(self, workflow_id: str, tell: Callable[[Row | None], None]) -> None:
        """Do not have *tell* called any more; on the loop."""
        left = [each for each in self._waiters.pop(workflow_id, ()) if each[0] is not tell]
        if left:
            self._waiters[workflow_id] = left

    @property
    def waiting(self) -> int:
        """For how many runs somebody waits."""
        return len(self._waiters)

    async def look(self, workflow_id: str) -> Row | None:
        """Return the run's row as it is now."""
        rows = await self._rows([workflow_id])
        return rows.get(workflow_id)

    async def at_last(self, workflow_id: str, limit: float, **here: Collection[str]) -> Row | None:
        """Return the run's row, if it has ended, for one who has waited *limit* seconds: nobody may have looked yet.

        Otherwise raise their ``TimeoutError``; what is *here* is said as to ``standing``.
        """
        with suppress(TimeoutError, DatabaseError):
            async with asyncio.timeout(_LAST_LOOK):
                row = await self.look(workflow_id)
            if row is None or WorkflowStatus(row["status"]).has_ended:
                return row
        raise await not_ended(self._manager, self._queries, workflow_id, limit, **here)

    async def stop(self) -> None:
        """Stop looking, and say so to whoever still waits."""
        self._stopped = True
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.gather(self._poll, return_exceptions=True)
        waiters, self._waiters = self._waiters, {}
        for each in waiters.values():
            for _, closed in each:
                closed()

    async def _run(self) -> None:
        while self._waiters and not self._stopped:  # a driver may have swallowed the cancellation
            try:
                await self._look_once()
                self._outage.is_over()
            except DatabaseError as error:  # the database is away: whoever waits has a deadline of their own
                if self._outage.is_told(self._world.monotonic()):
                    logger.warning("Looking for results fails and is tried again: %s", error)
            if self._waiters and not self._stopped:
                await self._world.sleep(self._wait)
                self._wait = min(_LONGEST_WAIT, self._wait * 1.5)

    async def _look_once(self) -> None:
        ids = list(self._waiters)
        for first in range(0, len(ids), _MOST_AT_ONCE):
            some = ids[first : first + _MOST_AT_ONCE]
            rows = await self._rows(some)
            for workflow_id in some:
                row = rows.get(workflow_id)
                if row is None or WorkflowStatus(row["status"]).has_ended:
                    for tell, _ in self._waiters.pop(workflow_id, ()):
                        tell(row)

    async def _rows(self, ids: list[str]) -> dict[str, Row]:
        found = await self._manager.fetch_batch(self._look, [(each,) for each in ids])
        return {row["workflow_uuid"]: row for row in found}


def outcome_of(
    row: Row | None,
    workflow_id: str,
    load: Callable[[str | None, str | None], Any],
    load_error: Callable[[str, str | None], BaseException],
) -> Outcome:
    """Read the outcome of an ended run from its row."""
    if row is None:
        return Outcome(
            error=WorkflowNotFound(f"There is no run {workflow_id!r}; it was never started, or was deleted.")
        )
    status = WorkflowStatus(row["status"])
    if status is WorkflowStatus.CANCELLED:
        return Outcome(error=_cancelled(row, workflow_id))
    if status is WorkflowStatus.MAX_RECOVERY_ATTEMPTS_EXCEEDED:
        return Outcome(error=exhausted(workflow_id, row["recovery_attempts"]))
    if status is WorkflowStatus.ERROR:
        return Outcome(error=load_error(row["error"], row["output_serialization"]))
    return Outcome(value=load(row["output"], row["output_serialization"]))


def _cancelled(row: Row, workflow_id: str) -> WorkflowCancelled:
    deadline, ended = row["workflow_deadline_epoch_ms"], row["completed_at"]
    if deadline is not None and ended is not None and deadline <= ended:
        return DeadlinePassed(
            f"The run {workflow_id} had not ended when its deadline passed, and was cancelled; resume it to go on "
            "without one."
        )
    return WorkflowCancelled(f"The run {workflow_id} was cancelled; resume it to go on.")


def exhausted(workflow_id: str, attempts: int, executor_id: str | None = None) -> RecoveryExhausted:
    """Return the error of a run that is not tried again."""
    last = f", last {executor_id}," if executor_id else ""
    return RecoveryExhausted(
        f"The run {workflow_id} took its executor{last} down {attempts} times in a row without recording any progress. "
        "It is not tried again by itself: find out why."
    )
