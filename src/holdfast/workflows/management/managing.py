"""What is asked about runs and done to them, by an application.

Where a workflow asks it is recorded, so that a replay gets the same answer. A change and its record are one commit: it
is made once or not at all. The runs of this process feel a change at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from holdfast.errors import DatabaseError
from holdfast.workflows.management.desk import Change
from holdfast.workflows.operations.away import answered
from holdfast.workflows.operations.place import refuse_closed_attempt
from holdfast.workflows.operations.recorded_change import RecordedChange
from holdfast.workflows.transactions.carrying import to_the_end

if TYPE_CHECKING:
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.management.desk import Request
    from holdfast.workflows.operations.operation import Kept, Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.payloads import Codec

T = TypeVar("T")

_IN_PARTS = {
    "holdfast.backfill_schedule",
    "holdfast.prune",
}  # changes of many transactions, each of which may be repeated


class Managing(Generic[T]):
    """One request to the desk of an engine."""

    def __init__(self, engine: Engine, request: Request[T]) -> None:
        self._engine = engine
        self._name = f"holdfast.{request.name}"
        self._call = request.call
        self._arguments = dict(request.arguments)
        self._type = request.type

    async def carry_out(self, place: WorkflowPlace | None) -> T:
        """Carry the request out; in a workflow once, and from the record on replay."""
        if place is None:
            self._refuse_closed_attempt()
            return await self._do()
        recorder = self._engine.recorder
        return cast("T", await recorder.do(place, self._name, self._mark(), self._codec(), self._do_recorded))

    def carry_out_blocking(self, place: WorkflowPlace | None) -> T:
        """Do as ``carry_out`` from a thread."""
        engine = self._engine
        if place is None:
            self._refuse_closed_attempt()
            return engine.ask_blocking(self._do())

        def produce(operation: Operation) -> T | Kept:
            return engine.ask_blocking(self._do_recorded(operation))

        return cast("T", engine.recorder.do_blocking(place, self._name, self._mark(), self._codec(), produce))

    def _refuse_closed_attempt(self) -> None:
        """Refuse what changes something to a thread that a step's timeout has left behind; it may look."""
        if isinstance(self._call, Change) or self._name in _IN_PARTS:
            refuse_closed_attempt()

    async def _do(self) -> T:
        self._engine.refuse_other_loop()
        answer = await self._call(self._engine.desk)
        await self._look_around()
        return answer

    async def _do_recorded(self, operation: Operation) -> T | Kept:
        if isinstance(self._call, Change):
            return await to_the_end(self._change(operation), operation)
        return await answered(self._engine, operation.place, self._name, self._do)

    async def _change(self, operation: Operation) -> Kept:
        def name(number: int) -> str:
            return operation.run.child_id(f"{operation.identity}.{number}")

        desk = self._engine.desk
        change = RecordedChange(self._engine, operation)
        kept = await change.make(lambda transaction, own: self._call(desk.within(transaction, name, own)))
        await self._look_around()
        operation.run.check()  # it may have cancelled itself
        return kept

    async def _look_around(self) -> None:
        with suppress(DatabaseError):  # the change is made: what is not noticed now is noticed with the next beat
            await self._engine.look_around()

    def _mark(self) -> str:
        return self._engine.payloads.mark(self._name, (), self._arguments)

    def _codec(self) -> Codec:
        return self._engine.payloads.typed(self._type)
