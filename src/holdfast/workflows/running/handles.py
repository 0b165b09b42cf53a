"""Handles: a run one can wait for, wherever it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.core.durations import patience
from holdfast.errors import MisuseError
from holdfast.workflows.operations import branches
from holdfast.workflows.operations.place import task_place, thread_place

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from holdfast.model.workflow import Duration, WorkflowState
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.running.run import Outcome
    from holdfast.workflows.running.ticket import Ticket

H = TypeVar("H")
R_co = TypeVar("R_co", covariant=True)


class Handle(Generic[R_co]):
    """A run of a ``Holdfast`` application."""

    def __init__(self, engine: Engine, ticket: Ticket) -> None:
        self._engine = engine
        self._ticket = ticket

    @property
    def workflow_id(self) -> str:
        """The id of the run, which is its idempotency key."""
        return self._ticket.workflow_id

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the run's value, or raise what it ended with; ``TimeoutError`` leaves it running.

        In a workflow this is a recorded operation, and whether it came in time is recorded too.
        """
        engine, place, limit = self._engine, thread_place(self._engine), patience(timeout)
        if place is not None:
            if limit is None:
                return cast("R_co", engine.durable.result_blocking(place, self._ticket))
            return cast("R_co", branches.within_blocking(engine.durable, place, limit, self.result, engine.threads))
        return cast("R_co", self._engine.waiting.outcome_blocking(self._ticket, limit).delivered())

    def status(self) -> WorkflowState:
        """Return where the run stands now, without its input and output; in a workflow a recorded operation."""
        place = thread_place(self._engine)
        self._engine.check_launched()
        return self._engine.durable.status_blocking(place, self.workflow_id)

    def __repr__(self) -> str:
        return f"<Handle of run {self.workflow_id}>"


class AsyncHandle(Generic[R_co]):
    """A run of an ``AsyncHoldfast`` application; awaiting the handle is awaiting ``result()``."""

    def __init__(self, engine: Engine, ticket: Ticket) -> None:
        self._engine = engine
        self._ticket = ticket

    @property
    def workflow_id(self) -> str:
        """The id of the run, which is its idempotency key."""
        return self._ticket.workflow_id

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 -- the same name in both colours
        """Wait for the run's value, or raise what it ended with; ``TimeoutError`` leaves it running.

        In a workflow this is a recorded operation, and whether it came in time is recorded too.
        """
        engine, place, limit = self._engine, task_place(self._engine), patience(timeout)
        if place is not None:
            if limit is None:
                return cast("R_co", await engine.durable.result(place, self._ticket))
            return cast("R_co", await branches.within(engine.durable, place, limit, self.result()))
        try:
            async with asyncio.timeout(limit) as scope:
                outcome = await self._engine.waiting.outcome(self._ticket)
        except TimeoutError:
            if limit is None or not scope.expired():
                raise
            outcome = await engine.waiting.at_last(self._ticket, limit)
        return cast("R_co", outcome.delivered())

    async def status(self) -> WorkflowState:
        """Return where the run stands now, without its input and output; in a workflow a recorded operation."""
        place = task_place(self._engine)
        self._engine.check_launched()
        self._engine.refuse_other_loop()
        return await self._engine.durable.status(place, self.workflow_id)

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"<AsyncHandle of run {self.workflow_id}>"


def waited_for(handles: Iterable[H], kind: type[H], verb: str) -> list[H]:
    """Return the *handles* that *verb* was given, each of *kind*; ``MisuseError`` for what is none."""
    if isinstance(handles, str | bytes | Handle | AsyncHandle) or not isinstance(handles, Iterable):
        raise MisuseError(f"{verb}() takes handles in a list, as in {verb}([first, second]), not {handles!r:.100}.")
    several = list(handles)
    for each in several:
        if not isinstance(each, kind):
            raise MisuseError(
                f"{verb}() waits for handles, as start(), enqueue() and retrieve_workflow() of the application return "
                f"them, not for {each!r:.100}."
            )
    return several


def ticket_of(handle: Handle[Any] | AsyncHandle[Any]) -> Ticket:
    """Return what a handle stands for, for the library's own use."""
    return handle._ticket  # noqa: SLF001 -- not for users, and in one place


def values(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return the values of several runs in order, or raise the error of the first that has one."""
    return [outcome.delivered() for outcome in outcomes]
