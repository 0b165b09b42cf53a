"""Letters that are made in the commit of what they are about: a run that ended, a run that was given up, a step."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.errors import CannotSerialize, SerializationError, UnknownCommit
from holdfast.serialize.codecs import is_hidden
from holdfast.stores.dead_letters import door
from holdfast.workflows.dead_letters.handlers import DOMAIN
from holdfast.workflows.facts import FinishRuns
from holdfast.workflows.operations.voice import SideWrite
from holdfast.workflows.running.results import exhausted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.workflows.dead_letters.letters import RunLetters
    from holdfast.workflows.declaring.registry import Registry, StepDefinition
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.running.run import Run

logger = logging.getLogger("holdfast.dispatch")

_FAILED = "portable_json+failed"  # what a codec was to hide, and could not, is not shown


class FinishWithLetters(FinishRuns):
    """PENDING -> ERROR, and a dead letter in the same commit. Rows are those of ``run_finish``, and the letter."""

    def __init__(self, queries: Queries, letters: RunLetters) -> None:
        super().__init__(queries)
        self.name = "outcome written with a dead letter"
        self.one_statement = False
        self._letters = letters

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await super().apply(transaction, [row[:-1] for row in rows])
        made = [row[-1] for row, outcome in zip(rows, outcomes, strict=True) if outcome is True]
        if made:
            await self._letters.put(transaction, made)
        return outcomes


class ErrorLetters:
    """Letters of runs that end as ERROR, where that was asked for."""

    def __init__(
        self, queries: Queries, payloads: Payloads, letters: Callable[[], RunLetters], made: Callable[[], None]
    ) -> None:
        self._queries = queries
        self._payloads = payloads
        self._letters = letters
        self.made = made

    @cached_property
    def _finish(self) -> FinishWithLetters:
        return FinishWithLetters(self._queries, self._letters())

    def ending(self, run: Run, domain: str, error: BaseException, row: Values) -> tuple[Kind[Any], Values]:
        """Return what writes the end of *run*, whose *row* is that of ``run_finish``, together with its letter."""
        failed_at = None if run.cut_at is None else run.cut_at.position(error)
        facts = {
            "workflow": run.definition.name,
            "status": "ERROR",
            "generation": run.generation,
            "recovery_attempts": run.attempts,
            "retries": run.retries,
            # Where its own code raised, what is recorded is kept: other code may go on from there.
            "start_step": failed_at or run.next_position,
        }
        inputs = self._inputs(run, error)
        letter = self._letters().run(
            run.id,
            domain,
            error,
            way_back="rewind",
            inputs=inputs,
            parameters=run.definition.codec.parameters,
            facts=facts,
        )
        return self._finish, (*row, letter)

    def _inputs(self, run: Run, error: BaseException) -> tuple[str | None, str | None]:
        """Return the arguments as they are stored; those that have no form any more are hidden if the error is."""
        try:
            return self._payloads.dump_call(run.arguments, run.keywords)
        except CannotSerialize:
            marker = self._payloads.dump_error(error)[1]
            return ("", marker) if is_hidden(marker) else (None, None)
        except SerializationError:
            return "", _FAILED


class StepLetters:
    """Letters of steps, written beside the records of their failures."""

    def __init__(self, payloads: Payloads, letters: RunLetters, made: Callable[[], None]) -> None:
        self._payloads = payloads
        self._letters = letters
        self._made = made

    def note(
        self,
        operation: Operation,
        step: StepDefinition,
        error: Exception,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Have the letter of a step that failed for good written with its record, also if a fallback stands in."""
        run = operation.run
        assert step.dead_letter is not None  # noqa: S101 -- who notes it has asked
        facts = {
            "workflow": run.definition.name,
            "step": operation.name,
            "generation": run.generation,
            "start_step": operation.position,
        }
        is_open = self._is_open(error, args, kwargs)
        attempts = [_attempt(*each, is_open=is_open) for each in operation.failures]
        letter = self._letters.step(
            run.id,
            operation.identity,
            step.dead_letter,
            error,
            (args, kwargs, step.codec.parameters),
            is_open=is_open,
            facts=facts,
            attempts=attempts,
        )
        write = SideWrite(self, (letter,))
        operation.writes += (write,)
        operation.writes_if_failed += (write,)

    def _is_open(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            return not is_hidden(self._payloads.dump_call(args, kwargs)[1])
        except CannotSerialize:  # an argument has no form: what the others may show, the error may show
            return not is_hidden(self._payloads.dump_error(error)[1])
        except SerializationError:  # a codec has failed
            return False

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Write the letters, which are the only values of *rows*."""
        await self._letters.put(transaction, [row[0] for row in rows])

    def written(self, rows: Sequence[Values]) -> None:  # noqa: ARG002 -- the interface of side writes
        """Tell whoever replays letters that are due."""
        self._made()


def _attempt(number: int, at: float, name: str, message: str, *, is_open: bool) -> dict[str, Any]:
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return {"attempt": number, "at": when, "error": door.text(f"{name}: {message}") if is_open else name}


class GivingUp:
    """Ends runs that were claimed over their cap, each with a letter: both or neither.

    If the process dies before that the run is PENDING and its executor gone: it is released, and given up by another.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        queries: Queries,
        payloads: Payloads,
        registry: Registry,
        letters: Callable[[], RunLetters],
        made: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._exhausted = queries["run_exhausted"]
        self._payloads = payloads
        self._registry = registry
        self._letters = letters
        self._made = made

    async def give_up(self, row: Row) -> None:
        """Give up the run of a claimed row; nothing happens if its token is not its own any more."""
        error = exhausted(row["workflow_uuid"], row["recovery_attempts"], row["executor_id"])
        text, format_ = self._payloads.dump_error(error)
        letters, letter = self._letters(), self._letter(row, error)

        async def work(transaction: Transaction) -> bool:
            given_up = await transaction.execute(
                self._exhausted, id=row["workflow_uuid"], token=row["owner_xid"], error=text, serialization=format_
            )
            if given_up:
                await letters.put(transaction, [letter])
                faults.point("dead_letters.before_commit")
            return bool(given_up)

        try:
            done = await self._manager.run(work)
        except UnknownCommit:  # if it was committed, the second time finds nothing to do
            done = await self._manager.run(work)
        if done:
            logger.error("%s", error)
        faults.point("dead_letter.made")
        self._made()

    def _letter(self, row: Row, error: Exception) -> FailedOperationData:
        definition = self._registry.workflows[row["name"]]
        facts = {
            "workflow": row["name"],
            "status": "MAX_RECOVERY_ATTEMPTS_EXCEEDED",
            "generation": row["generation"],
            "recovery_attempts": row["recovery_attempts"],
            "retries": row["retries"],
            "executions": row["executions"],
            "executor_id": row["executor_id"],
            "start_step": None,
        }
        inputs = row["inputs"], row["serialization"]
        domain = definition.dead_letter or DOMAIN
        return self._letters().run(
            row["workflow_uuid"],
            domain,
            error,
            way_back="resume",
            inputs=inputs,
            parameters=definition.codec.parameters,
            facts=facts,
        )


__all__ = ["ErrorLetters", "FinishWithLetters", "GivingUp", "StepLetters"]
