"""What is asked about runs and done to them, by an application.

Where a workflow asks it is recorded, so that a replay gets the same answer and does nothing twice. The runs of this
process feel a change at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from holdfast.workflows.desk import Desk
    from holdfast.workflows.engine import Engine
    from holdfast.workflows.payloads import Codec
    from holdfast.workflows.place import WorkflowPlace
    from holdfast.workflows.recorder import Operation

T = TypeVar("T")


class Managing(Generic[T]):
    """One request to the desk of an engine."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        call: Callable[[Desk], Coroutine[Any, Any, T]],
        arguments: Mapping[str, Any],
        type_: Any,
    ) -> None:
        self._engine = engine
        self._name = f"holdfast.{name}"
        self._call = call
        self._arguments = dict(arguments)
        self._type = type_

    async def carry_out(self, place: WorkflowPlace | None) -> T:
        """Carry the request out; in a workflow once, and from the record on replay."""
        if place is None:
            return await self._do(self._engine.desk)

        async def produce(operation: Operation) -> T:
            return await self._do(self._desk_for(operation))

        return cast("T", await self._engine.recorder.do(place, self._name, self._mark(), self._codec(), produce))

    def carry_out_blocking(self, place: WorkflowPlace | None) -> T:
        """Do as ``carry_out`` from a thread."""
        engine = self._engine
        if place is None:
            return engine.ask_blocking(self._do(engine.desk))

        def produce(operation: Operation) -> T:
            return engine.ask_blocking(self._do(self._desk_for(operation)))

        return cast("T", engine.recorder.do_blocking(place, self._name, self._mark(), self._codec(), produce))

    def _desk_for(self, operation: Operation) -> Desk:
        return self._engine.desk.on_behalf(lambda n: operation.run.child_id(f"{operation.identity}.{n}"))

    async def _do(self, desk: Desk) -> T:
        answer = await self._call(desk)
        await self._engine.look_around()
        return answer

    def _mark(self) -> str:
        return self._engine.payloads.mark(self._name, (), self._arguments)

    def _codec(self) -> Codec:
        return self._engine.payloads.typed(self._type)
