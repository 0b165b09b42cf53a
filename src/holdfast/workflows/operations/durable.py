"""The durable operations of a workflow: steps, children, results, sleeps, and values that must not change on replay.

Each exists in two colours over the same record: ``async def`` for workflows on the loop, ``_blocking`` for workflows on
threads.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast import faults
from holdfast.errors import MisuseError, SerializationError, Superseded
from holdfast.model.workflow import WorkflowState
from holdfast.workflows.facts import STARTED, Existing
from holdfast.workflows.operations.agreement import unfit
from holdfast.workflows.operations.away import answered
from holdfast.workflows.operations.stopping import stop_interrupted
from holdfast.workflows.parking import Wait
from holdfast.workflows.running.ticket import Call, Ticket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.model.workflow import Recorded
    from holdfast.workflows.declaring.registry import StepDefinition
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.payloads import Codec
    from holdfast.workflows.running.run import Outcome

GET_RESULT = "holdfast.get_result"
NOW = "holdfast.now"
RANDOM = "holdfast.random"
SLEEP = "holdfast.sleep"
STATUS = "holdfast.status"
UUID_ = "holdfast.uuid"
WAIT_FIRST = "holdfast.wait_first"

_SHORTEST = 0.001  # seconds, which every clock can count
_LOOK_UP = 0.5  # a thread that sleeps looks at the clock now and then: the database's may have been set


class Durable:
    """Operations on behalf of workflows of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._recorder = engine.recorder
        self._payloads = engine.payloads
        self.whole = engine.payloads.typed(int)
        self._moment = engine.payloads.typed(datetime)
        self._fraction = engine.payloads.typed(float)
        self._uuid = engine.payloads.typed(UUID)
        self._state = engine.payloads.typed(WorkflowState)

    def step(
        self, place: WorkflowPlace, step: StepDefinition, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Awaitable[Any]:
        """Do an async step once. What comes back is to be awaited at once."""
        mark = self._payloads.mark(step.name, arguments, keywords)
        produce: Callable[[Operation], Awaitable[Any]]
        if step.protection is None and step.dead_letter is None:
            produce = partial(self._engine.attempts.run, step, partial(step.function, *arguments, **keywords))
        else:
            produce = partial(self._guarded, step, arguments, keywords)
        return self._recorder.do(place, step.name, mark, step.codec, produce)

    def step_blocking(
        self, place: WorkflowPlace, step: StepDefinition, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """Do a sync step once."""
        mark = self._payloads.mark(step.name, arguments, keywords)
        produce: Callable[[Operation], Any]
        if step.protection is None and step.dead_letter is None:
            produce = partial(self._engine.attempts.run_blocking, step, partial(step.function, *arguments, **keywords))
        else:
            produce = partial(self._guarded_blocking, step, arguments, keywords)
        return self._recorder.do_blocking(place, step.name, mark, step.codec, produce)

    def _guarded(
        self, step: StepDefinition, arguments: tuple[Any, ...], keywords: dict[str, Any], operation: Operation
    ) -> Awaitable[Any]:
        """Carry out a step that is protected, or leaves a dead letter."""

        @wraps(step.function)  # what is around it reads the signature
        async def tried(*args: Any, **kwargs: Any) -> Any:
            try:
                return await self._engine.attempts.run(step, partial(step.function, *args, **kwargs), operation)
            except Exception as error:
                self._keep(step, operation, error, args, kwargs)
                raise

        call = tried if step.protection is None else step.protection.around_attempts(tried, is_async=True)
        made: Awaitable[Any] = call(*arguments, **keywords)
        return made

    def _guarded_blocking(
        self, step: StepDefinition, arguments: tuple[Any, ...], keywords: dict[str, Any], operation: Operation
    ) -> Any:
        """Do as ``_guarded`` for a sync step."""

        @wraps(step.function)
        def tried(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._engine.attempts.run_blocking(step, partial(step.function, *args, **kwargs), operation)
            except Exception as error:
                self._keep(step, operation, error, args, kwargs)
                raise

        call = tried if step.protection is None else step.protection.around_attempts(tried, is_async=False)
        return call(*arguments, **keywords)

    def _keep(
        self,
        step: StepDefinition,
        operation: Operation,
        error: Exception,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> None:
        """Have a step that failed for good kept as a dead letter, if it says so, in the commit of its record."""
        if step.dead_letter is not None and not isinstance(error, Superseded):
            self._engine.step_letters.note(operation, step, error, arguments, keywords)

    async def start_child(self, place: WorkflowPlace, call: Call, *, called: bool = False) -> Ticket:
        """Start a child, or find the one that was started; of *called* see ``Runner.launch``.

        It runs in a task of its own, also if it is called directly: whoever gives up waiting for it does not end it.
        """
        operation, recorded, child_id = self._begin_child(place, call)
        if recorded is not None:
            return self._found(call, child_id, place, await self._look_for(call, child_id, place))
        run, row = self._engine.starts.prepare(call, run_id=child_id, parent=place.run)
        outcome = await self._recorder.start_child(operation, row)
        if outcome is not STARTED:
            return self._engine.starts.attach(run, row, outcome, call.options)
        self._engine.runner.launch(run, called=called)
        return Ticket(run.id, run.codec, run)

    def start_child_blocking(self, place: WorkflowPlace, call: Call, *, here: bool = False) -> Ticket:
        """Start a child from a sync workflow; with *here* carry it to its end on this thread."""
        operation, recorded, child_id = self._begin_child(place, call)
        if recorded is not None:
            found = self._engine.ask_blocking(self._look_for(call, child_id, place))
            return self._found(call, child_id, place, found)
        run, row = self._engine.starts.prepare(call, run_id=child_id, parent=place.run)
        outcome = self._recorder.start_child_blocking(operation, row)
        if outcome is not STARTED:
            return self._engine.starts.attach(run, row, outcome, call.options)
        if here and not call.definition.is_async:
            try:
                self._engine.runner.execute_blocking(run)
            except KeyboardInterrupt as interrupt:
                stop_interrupted(place.run, interrupt)
                raise
        else:
            self._engine.on_loop(lambda: self._engine.runner.launch(run))
        return Ticket(run.id, run.codec, run)

    def _begin_child(self, place: WorkflowPlace, call: Call) -> tuple[Operation, Recorded | None, str]:
        mark = self._payloads.mark(call.definition.name, call.arguments, call.keywords)
        operation, recorded = self._recorder.begin(place, call.definition.name, mark)
        child_id = recorded.child_id if recorded is not None else None
        child_id = child_id or call.options.workflow_id or place.run.child_id(operation.identity)
        if place.run.cut_at is not None:
            place.run.cut_at.child(child_id, operation.position)
        return operation, recorded, child_id

    async def _look_for(self, call: Call, child_id: str, place: WorkflowPlace) -> Row | None:
        """Return the row of a child in the record that has an id of its own."""
        if call.options.workflow_id is None:
            return None
        return await answered(self._engine, place, call.definition.name, partial(self._engine.results.look, child_id))

    def _found(self, call: Call, child_id: str, place: WorkflowPlace, row: Row | None) -> Ticket:
        """Return the ticket of a child that is in the record; one with an id of its own may not be the same call."""
        if row is None:
            return Ticket(child_id, call.definition.codec, None)
        run, wanted = self._engine.starts.prepare(call, run_id=child_id, parent=place.run)
        return self._engine.starts.attach(run, wanted, Existing(row), call.options)

    async def result(self, place: WorkflowPlace, ticket: Ticket) -> Any:
        """Wait for another run's outcome and record it."""
        _refuse_own(place, [ticket])

        async def produce(operation: Operation) -> Any:
            with self._engine.parker.waiting(place, Wait(results=(ticket.workflow_id,))):
                outcome = await self._engine.waiting.outcome(ticket)
            return _value_of(outcome, operation)

        mark = self._payloads.mark(GET_RESULT, (ticket.workflow_id,), {})
        return await self._recorder.do(place, GET_RESULT, mark, ticket.codec, produce, child_id=ticket.workflow_id)

    def result_blocking(self, place: WorkflowPlace, ticket: Ticket) -> Any:
        """Wait for another run's outcome on a thread and record it."""
        _refuse_own(place, [ticket])

        def produce(operation: Operation) -> Any:
            with self._engine.parker.waiting(place, Wait(results=(ticket.workflow_id,))):
                outcome = self._engine.waiting.outcome_blocking(ticket, place=place)
            return _value_of(outcome, operation)

        mark = self._payloads.mark(GET_RESULT, (ticket.workflow_id,), {})
        return self._recorder.do_blocking(place, GET_RESULT, mark, ticket.codec, produce, child_id=ticket.workflow_id)

    async def status(self, place: WorkflowPlace | None, workflow_id: str) -> WorkflowState:
        """Return where another run stands, the same on every replay."""
        look = partial(self._engine.desk.looking.get, workflow_id, load_input=False, load_output=False)
        if place is None:
            return await look()
        mark = self._payloads.mark(STATUS, (workflow_id,), {})
        state: WorkflowState = await self._recorder.do(
            place, STATUS, mark, self._state, lambda _: answered(self._engine, place, STATUS, look)
        )
        return state

    def status_blocking(self, place: WorkflowPlace | None, workflow_id: str) -> WorkflowState:
        """Return where another run stands, the same on every replay, on a thread."""
        look = partial(self._engine.desk.looking.get, workflow_id, load_input=False, load_output=False)
        if place is None:
            return self._engine.ask_blocking(look())
        mark = self._payloads.mark(STATUS, (workflow_id,), {})
        state: WorkflowState = self._recorder.do_blocking(
            place,
            STATUS,
            mark,
            self._state,
            lambda _: self._engine.ask_blocking(answered(self._engine, place, STATUS, look)),
        )
        return state

    async def sleep(self, place: WorkflowPlace, seconds: float) -> None:
        """Sleep until a recorded moment, however often the run is interrupted."""
        end = await self.deadline(place, SLEEP, seconds)
        faults.point("timer.set")
        place.check_before_wait()
        with self._engine.parker.waiting(place, Wait(end)):
            while (left := self.seconds_until(end)) > 0:  # once more where the database's clock was set back meanwhile
                await self._engine.settings.world.sleep(max(left, _SHORTEST))
        place.run.check()

    def sleep_blocking(self, place: WorkflowPlace, seconds: float) -> None:
        """Sleep on a thread, which gives up its place meanwhile."""
        end = self.deadline_blocking(place, SLEEP, seconds)
        faults.point("timer.set")
        halted = threading.Event()
        waiting = self._engine.parker.waiting(place, Wait(end))
        with place.halting(halted.set), self._engine.threads.waiting(), waiting:
            while (left := self.seconds_until(end)) > 0:
                if halted.wait(min(left, _LOOK_UP)):
                    break
        place.check()

    async def value(self, place: WorkflowPlace, name: str, codec: Codec, make: Callable[[], Any], *given: Any) -> Any:
        """Make a value once; every replay gets the same."""

        async def produce(_: Operation) -> Any:
            return make()

        mark = self._payloads.mark(name, given, {})
        return await self._recorder.do(place, name, mark, codec, produce)

    def value_blocking(
        self, place: WorkflowPlace, name: str, codec: Codec, make: Callable[[], Any], *given: Any
    ) -> Any:
        """Make a value once, on a thread."""
        mark = self._payloads.mark(name, given, {})
        return self._recorder.do_blocking(place, name, mark, codec, lambda _: make())

    async def now(self, place: WorkflowPlace | None) -> datetime:
        """Return the database's time, the same on every replay."""
        moment: datetime = self._now() if place is None else await self.value(place, NOW, self._moment, self._now)
        return moment

    def now_blocking(self, place: WorkflowPlace | None) -> datetime:
        """Return the database's time, the same on every replay, on a thread."""
        moment: datetime = self._now() if place is None else self.value_blocking(place, NOW, self._moment, self._now)
        return moment

    async def random(self, place: WorkflowPlace | None) -> float:
        """Return a random number from 0 to 1, the same on every replay."""
        draw = self._engine.settings.world.random.random
        return draw() if place is None else float(await self.value(place, RANDOM, self._fraction, draw))

    def random_blocking(self, place: WorkflowPlace | None) -> float:
        """Return a random number from 0 to 1, the same on every replay, on a thread."""
        draw = self._engine.settings.world.random.random
        return draw() if place is None else float(self.value_blocking(place, RANDOM, self._fraction, draw))

    async def uuid(self, place: WorkflowPlace | None) -> UUID:
        """Return a fresh UUID, the same on every replay."""
        fresh: UUID = self._fresh() if place is None else await self.value(place, UUID_, self._uuid, self._fresh)
        return fresh

    def uuid_blocking(self, place: WorkflowPlace | None) -> UUID:
        """Return a fresh UUID, the same on every replay, on a thread."""
        fresh: UUID = self._fresh() if place is None else self.value_blocking(place, UUID_, self._uuid, self._fresh)
        return fresh

    async def deadline(self, place: WorkflowPlace, name: str, seconds: float) -> int:
        """Record a moment that lies *seconds* ahead; return it in milliseconds since the epoch."""
        end: int = await self.value(
            place, name, self.whole, lambda: int((self._engine.now() + seconds) * 1000), seconds
        )
        return end

    def deadline_blocking(self, place: WorkflowPlace, name: str, seconds: float) -> int:
        """Record a moment that lies *seconds* ahead, on a thread; return it in milliseconds since the epoch."""
        end: int = self.value_blocking(
            place, name, self.whole, lambda: int((self._engine.now() + seconds) * 1000), seconds
        )
        return end

    def seconds_until(self, moment_ms: int) -> float:
        """Return how long it is until a recorded moment; 0 if it has passed."""
        return max(0.0, moment_ms / 1000 - self._engine.now())

    def recorded(self, place: WorkflowPlace) -> Any:
        """Return the recorded value of the next operation of *place*, or None if it is not recorded."""
        found = (place.run.history or {}).get(place.branch.peek_identity())
        return None if found is None else self.whole.load(found.output, found.serialization)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._engine.now(), UTC)

    def _fresh(self) -> UUID:
        return UUID(self._engine.settings.world.new_id())

    async def first_of(self, place: WorkflowPlace, tickets: Sequence[Ticket]) -> int:
        """Return which of several runs ended first, and record it."""
        _refuse_own(place, tickets)

        async def produce(_: Operation) -> int:
            with self._engine.parker.waiting(place, _any_of(tickets)):
                return await self._engine.waiting.first_of(tickets)

        mark = self._payloads.mark(WAIT_FIRST, tuple(ticket.workflow_id for ticket in tickets), {})
        index: int = await self._recorder.do(place, WAIT_FIRST, mark, self.whole, produce)
        return index

    def first_of_blocking(self, place: WorkflowPlace, tickets: Sequence[Ticket]) -> int:
        """Return which of several runs ended first, on a thread, and record it."""
        _refuse_own(place, tickets)

        def produce(_: Operation) -> int:
            with self._engine.parker.waiting(place, _any_of(tickets)):
                return self._engine.waiting.first_of_blocking(tickets, place=place)

        mark = self._payloads.mark(WAIT_FIRST, tuple(ticket.workflow_id for ticket in tickets), {})
        index: int = self._recorder.do_blocking(place, WAIT_FIRST, mark, self.whole, produce)
        return index


def _value_of(outcome: Outcome, operation: Operation) -> Any:
    """Return the value of another run, or raise its error; one that cannot be read here has not failed for that."""
    if outcome.unread and isinstance(outcome.error, SerializationError):
        raise unfit(operation, outcome.error)
    return outcome.get()


def _refuse_own(place: WorkflowPlace, tickets: Sequence[Ticket]) -> None:
    """Raise where a run would wait for its own end, which would never come."""
    if any(ticket.workflow_id == place.run.id for ticket in tickets):
        raise MisuseError(
            f"Run {place.run.id} was to wait for its own result, which never comes: a run that it starts needs another "
            "workflow_id, or none."
        )


def _any_of(tickets: Sequence[Ticket]) -> Wait:
    return Wait(results=tuple(ticket.workflow_id for ticket in tickets))
