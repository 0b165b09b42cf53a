"""What ``@app.transaction`` gives back: called like the function it was, without the transaction."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from holdfast.workflows.place import task_place, thread_place

if TYPE_CHECKING:
    from holdfast.workflows.engine import Engine
    from holdfast.workflows.place import WorkflowPlace
    from holdfast.workflows.recorder import Kept, Operation
    from holdfast.workflows.transactions.carrying import BlockingCarrier, Carrier
    from holdfast.workflows.transactions.home import TransactionDefinition

P = ParamSpec("P")
C = TypeVar("C")


class TransactionStep(Generic[P, C]):
    """A step whose own writes commit together with its record, once; outside of a workflow, just a transaction.

    *own* says that its record is part of its transaction. If not, its data is elsewhere, and it is recorded afterwards.
    """

    def __init__(
        self,
        engine: Engine,
        definition: TransactionDefinition,
        carrier: Carrier | BlockingCarrier,
        *,
        own: bool,
    ) -> None:
        functools.update_wrapper(self, definition.step.function)
        self._engine = engine
        self._carrier: Any = carrier
        self._own = own
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function in a transaction; recorded if this is a workflow."""
        if self.definition.step.is_async:
            return cast("C", self._invoke(args, kwargs))
        place = thread_place(self._engine)
        self._engine.check_launched()
        if place is None:
            return cast("C", self._value(self._carrier.run(None, self._call(args, kwargs))))
        return cast("C", self._step_blocking(place, args, kwargs))

    async def _invoke(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = task_place(self._engine)
        self._engine.check_launched()
        if place is None:
            return self._value(await self._carrier.run(None, self._call(args, kwargs)))
        return await self._step(place, args, kwargs)

    async def _step(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        async def produce(operation: Operation) -> Any:
            kept = await engine.attempts.run(step, functools.partial(self._carrier.run, operation, call), operation)
            return self._recorded(operation, kept)

        mark = engine.payloads.mark(step.name, args, kwargs)
        return await engine.recorder.do(place, step.name, mark, step.codec, produce)

    def _step_blocking(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        def produce(operation: Operation) -> Any:
            kept = engine.attempts.run_blocking(step, functools.partial(self._carrier.run, operation, call), operation)
            return self._recorded(operation, kept)

        mark = engine.payloads.mark(step.name, args, kwargs)
        return engine.recorder.do_blocking(place, step.name, mark, step.codec, produce)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self.definition.step.function
        return lambda handle: function(handle, *args, **kwargs)

    def _value(self, kept: Kept) -> Any:
        return self.definition.step.codec.load(kept.output, kept.serialization)

    def _recorded(self, operation: Operation, kept: Kept) -> Any:
        """Return what the recorder is to do: nothing if the record is part of the transaction, else to record this."""
        if not self._own:
            return self._value(kept)
        operation.run.suspect = False
        return kept

    def __repr__(self) -> str:
        return f"<transaction {self.definition.name}>"
