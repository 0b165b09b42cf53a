"""Waiting for the outcomes of runs, wherever they end: here, or in another executor that writes them down."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING

from holdfast.errors import NotInitialized, SerializationError
from holdfast.workflows.running.results import outcome_of
from holdfast.workflows.running.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.running.run import Run
    from holdfast.workflows.running.ticket import Ticket

    Tell = Callable[[Outcome], None]
    Leave = Callable[[], None]


class Waiting:
    """Tells waiters the outcomes of runs. The database is not asked for one whose time is over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def outcome(self, ticket: Ticket) -> Outcome:
        """Wait for the outcome on the loop; ``WrongLoop`` on any other."""
        self._engine.refuse_other_loop()
        future: asyncio.Future[Outcome] = self._engine.loop().create_future()

        def tell(outcome: Outcome) -> None:
            self._engine.on_loop(lambda: None if future.done() else future.set_result(outcome))

        leave = self._watch(ticket, tell)
        try:
            return await future
        finally:
            leave()

    async def at_last(self, ticket: Ticket, limit: float) -> Outcome:
        """Return the outcome for one who has waited *limit* seconds, or raise their ``TimeoutError``; on the loop."""
        engine = self._engine
        versions = engine.executor.application_version, *engine.settings.compatible_versions
        queues = engine.desk.queues.in_memory
        row = await engine.results.at_last(ticket.workflow_id, limit, versions=versions, queues=queues)
        return self._of_row(row, ticket)

    async def outcomes(self, tickets: Sequence[Ticket]) -> list[Outcome]:
        """Wait for several outcomes at once, on the loop: one look at the database is for all of them."""
        return list(await asyncio.gather(*(self.outcome(ticket) for ticket in tickets)))

    def outcome_blocking(
        self, ticket: Ticket, timeout: float | None = None, *, place: WorkflowPlace | None = None
    ) -> Outcome:
        """Wait for the outcome on a thread, which gives up its place among the workflow threads meanwhile.

        If it is a thread at *place* of a workflow that is to go no further, this raises the reason.
        """
        told: SimpleQueue[Outcome] = SimpleQueue()
        over = threading.Event()

        def tell(outcome: Outcome) -> None:
            told.put(outcome)
            over.set()

        leave = self._watch(ticket, tell)
        try:
            with _halting(place, over.set), self._engine.threads.waiting():
                came = over.wait(timeout)
            if place is not None:
                place.check()
        except BaseException:
            leave()
            raise
        if came:
            return told.get()
        leave()
        return self._engine.ask_blocking(self.at_last(ticket, timeout or 0.0))

    async def first_of(self, tickets: Sequence[Ticket]) -> int:
        """Wait until one of several runs has ended, on the loop; return which. ``WrongLoop`` on any other."""
        self._engine.refuse_other_loop()
        future: asyncio.Future[int] = self._engine.loop().create_future()

        def tell(index: int) -> None:
            self._engine.on_loop(lambda: None if future.done() else future.set_result(index))

        leaves = self._watch_all(tickets, tell)
        try:
            return await future
        finally:
            for leave in leaves:
                leave()

    def first_of_blocking(self, tickets: Sequence[Ticket], *, place: WorkflowPlace | None = None) -> int:
        """Wait on a thread until one of several runs has ended; return which. Of *place* see ``outcome_blocking``."""
        ended: SimpleQueue[int] = SimpleQueue()
        leaves = self._watch_all(tickets, ended.put)
        with _halting(place, lambda: ended.put(-1)), self._engine.threads.waiting():
            first = ended.get()
        for leave in leaves:
            leave()
        if place is not None:
            place.check()
        return first

    def _watch_all(self, tickets: Sequence[Ticket], tell: Callable[[int], None]) -> list[Leave]:
        return [self._watch(ticket, lambda _, index=index: tell(index)) for index, ticket in enumerate(tickets)]  # type: ignore[misc]

    def _watch(self, ticket: Ticket, tell: Tell) -> Leave:
        """Have *tell* called with the outcome, from any thread; return how to wait no longer."""
        run = ticket.run
        if run is None:
            self._engine.check_launched()
            run = self._engine.runner.running.get(ticket.workflow_id)
        if run is None:
            return self.watch_row(ticket, tell)
        watch = _Watch(self, ticket, tell, run)
        run.watch(watch.settled)
        return watch.leave

    def watch_row(self, ticket: Ticket, tell: Tell) -> Leave:
        """Have *tell* called with the outcome that the run's row shows once it has ended, from any thread."""
        engine, workflow_id = self._engine, ticket.workflow_id

        def told(row: Row | None) -> None:
            tell(self._of_row(row, ticket))

        def closed() -> None:
            text = f"The application was closed before run {workflow_id} had ended; it goes on elsewhere."
            tell(Outcome(error=NotInitialized(text)))

        if not engine.on_loop(lambda: engine.results.watch(workflow_id, told, closed)):
            closed()
        return lambda: void(engine.on_loop(lambda: engine.results.unwatch(workflow_id, told)))

    def _of_row(self, row: Row | None, ticket: Ticket) -> Outcome:
        try:
            return outcome_of(row, ticket.workflow_id, ticket.codec.load, self._engine.payloads.load_error)
        except SerializationError as error:
            return Outcome(error=error, unread=True)


class _Watch:
    """One who waits for a run of this process, and for its row if the run goes on elsewhere.

    It refers to the run, and the run to it, until the run is settled; after that nothing is left for the garbage
    collector, which would otherwise have a score of objects to find for every run.
    """

    __slots__ = ("_leave_row", "_run", "_tell", "_ticket", "_waiting")

    def __init__(self, waiting: Waiting, ticket: Ticket, tell: Tell, run: Run) -> None:
        self._waiting = waiting
        self._ticket = ticket
        self._tell = tell
        self._run = run
        self._leave_row: Leave | None = None

    def settled(self, outcome: Outcome) -> None:
        # Another reader than the function's own reads the row: the answer must not depend on when it was asked for.
        if outcome.elsewhere or self._ticket.codec is not self._run.codec:
            self._leave_row = self._waiting.watch_row(self._ticket, self._tell)
        else:
            self._tell(outcome)

    def leave(self) -> None:
        if self._leave_row is not None:
            self._leave_row()
        else:
            self._run.unwatch(self.settled)


def _halting(place: WorkflowPlace | None, tell: Callable[[], object]) -> AbstractContextManager[None]:
    """Have *tell* called if the workflow at *place* is to go no further."""
    return nullcontext() if place is None else place.halting(tell)


def void(_: object) -> None:
    """Take no notice of what a call gave."""
