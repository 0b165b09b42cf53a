"""What ``@app.transaction`` gives back: called like the function it was, without the transaction."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from holdfast.workflows.operations.place import task_place, thread_place

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.operations.recorder import Kept, Operation
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

    def _step(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        def produce(operation: Operation) -> Awaitable[Any]:
            carry = functools.partial(self._carrier.run, operation, call)
            carried = engine.attempts.run(step, carry, operation)
            return carried if self._own else self._loaded(carried)

        mark = engine.payloads.mark(step.name, args, kwargs)
        done = engine.recorder.do(place, step.name, mark, step.codec, produce)
        return done if self._own else self._recorded(place, done)

    def _step_blocking(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        def produce(operation: Operation) -> Any:
            kept = engine.attempts.run_blocking(step, functools.partial(self._carrier.run, operation, call), operation)
            return kept if self._own else self._value(kept)

        mark = engine.payloads.mark(step.name, args, kwargs)
        try:
            return engine.recorder.do_blocking(place, step.name, mark, step.codec, produce)
        finally:
            if not self._own:
                place.run.commits().end(place)

    async def _recorded(self, place: WorkflowPlace, done: Awaitable[Any]) -> Any:
        """Await an operation whose data is elsewhere: the end of its execution waits for its record as well."""
        try:
            return await done
        finally:
            place.run.commits().end(place)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self.definition.step.function
        return lambda handle: function(handle, *args, **kwargs)

    def _value(self, kept: Kept) -> Any:
        return self.definition.step.codec.load(kept.output, kept.serialization)

    async def _loaded(self, carried: Awaitable[Kept]) -> Any:
        return self._value(await carried)

    def __repr__(self) -> str:
        return f"<transaction {self.definition.name}>"
