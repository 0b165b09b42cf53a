"""What ``@app.transaction`` gives back: called like the function it was, without the transaction."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from holdfast.workflows.operations.place import refuse_unawaited, task_place, thread_place
from holdfast.workflows.operations.steps import called_on_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Kept, Operation
    from holdfast.workflows.operations.place import WorkflowPlace
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
            refuse_unawaited(self._engine, self.definition.step, "call it by app.run_step(transaction, ...)")
            return cast("C", self.run(*args, **kwargs))
        return cast("C", self.run_blocking(*args, **kwargs))

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Do the same from async code; a sync function is called on a thread."""
        place = task_place(self._engine)
        self._engine.check_launched()
        if place is None:
            return self._value(await self._carry(None, self._call(args, kwargs)))
        return await self._step(place, args, kwargs)

    def run_blocking(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Do the same from a thread; an async function is called on the loop."""
        place = thread_place(self._engine)
        self._engine.check_launched()
        if place is None:
            return self._value(self._carry_blocking(None, self._call(args, kwargs)))
        return self._step_blocking(place, args, kwargs)

    async def _carry(self, operation: Operation | None, call: Any) -> Kept:
        if self.definition.step.is_async:
            kept: Kept = await self._carrier.run(operation, call)
            return kept
        return await self._carry_on_thread(operation, call)

    async def _carry_on_thread(self, operation: Operation | None, call: Any) -> Kept:
        """Wait for a thread, which cannot be stopped, to the end: what it has kept must be delivered.

        It is left behind by a task that is cancelled when nothing of it can be kept any more.
        """
        task = asyncio.create_task(called_on_thread(self._engine.threads, self._carrier.run, operation, call))
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                if operation is None or operation.run.stopped is not None or operation.place.branch.is_closed:
                    task.cancel()
                    raise
                operation.place.interrupted = True
        kept: Kept = task.result()
        return kept

    def _carry_blocking(self, operation: Operation | None, call: Any) -> Kept:
        carried = self._carrier.run(operation, call)
        kept: Kept = self._engine.ask_blocking(carried) if self.definition.step.is_async else carried
        return kept

    def _step(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        def produce(operation: Operation) -> Awaitable[Any]:
            carry = functools.partial(self._carry, operation, call)
            carried = engine.attempts.run(step, carry, operation)
            return carried if self._own else self._loaded(carried)

        mark = engine.payloads.mark(step.name, args, kwargs)
        done = engine.recorder.do(place, step.name, mark, step.codec, produce)
        return done if self._own else self._recorded(place, done)

    def _step_blocking(self, place: WorkflowPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, engine = self.definition.step, self._engine
        call = self._call(args, kwargs)

        def produce(operation: Operation) -> Any:
            carry = functools.partial(self._carry_blocking, operation, call)
            kept = engine.attempts.run_blocking(step, carry, operation)
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
