"""Setting events of a run, and getting those of any run: the operations of workflows, their steps, and callers outside.

Each has a form for code on the loop and, with ``_blocking``, one for threads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import MisuseError
from holdfast.workflows.facts import RecordSteps
from holdfast.workflows.messaging.event_reader import event_of
from holdfast.workflows.messaging.message import check_name
from holdfast.workflows.messaging.patience import Patience
from holdfast.workflows.messaging.setting import EventRow, SetEvents
from holdfast.workflows.operations.away import answered
from holdfast.workflows.operations.operation import GET_EVENT, Kept
from holdfast.workflows.operations.voice import RecordWrites, SideWrite, voice_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.messaging.bells import Bells
    from holdfast.workflows.messaging.event_reader import EventReader
    from holdfast.workflows.messaging.telling import Telling
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.parking import Awaited
    from holdfast.workflows.payloads import Codec

    _Look = Callable[[], Awaitable[Row | None]]

SET_EVENT = "holdfast.set_event"
GET_EVENT_TIMEOUT = "holdfast.get_event_timeout"


class Events:
    """The events of one engine."""

    def __init__(self, engine: Engine, queries: Queries, reader: EventReader, bells: Bells, telling: Telling) -> None:
        self._engine = engine
        self._reader = reader
        self._bells = bells
        self._kind = SetEvents(queries, telling.was_set)
        self._record = (
            RecordWrites(RecordSteps(engine.queries), engine.queries),
            RecordWrites(RecordSteps(engine.queries, progress=True), engine.queries),
        )

    async def set(self, place: WorkflowPlace | None, key: str, value: Any) -> None:
        """Set an event of the run: in a workflow recorded, in a step with its record."""
        if self._said(key, value):
            return
        here = _in_run(place)
        await self._engine.recorder.say(here, SET_EVENT, self._mark(key, value), partial(self._writes, key, value))

    def set_blocking(self, place: WorkflowPlace | None, key: str, value: Any) -> None:
        """Do as ``set`` from a thread."""
        if self._said(key, value):
            return
        here = _in_run(place)
        self._engine.recorder.say_blocking(here, SET_EVENT, self._mark(key, value), partial(self._writes, key, value))

    async def get(
        self, place: WorkflowPlace | None, workflow_id: str, key: str, limit: float | None, codec: Codec
    ) -> Any:
        """Return an event of a run once it is set, or None if it is not within *limit* seconds.

        In a workflow the same on every replay; the moment of the end is recorded if there is something to wait for.
        """
        if place is None:
            self._engine.refuse_other_loop()
            return await self._reader.value(workflow_id, key, limit, codec)
        check_name(workflow_id, "A workflow_id")
        check_name(key, "The key of an event")
        patience = Patience(self._engine, place, GET_EVENT_TIMEOUT, limit)
        await patience.recall()
        look = partial(answered, self._engine, place, GET_EVENT, partial(self._reader.look, workflow_id, key))
        thing = event_of(workflow_id, key)
        if not self._is_recorded(place) and not await self._comes_soon(patience, thing, look):
            await patience.record()
        mark = self._engine.payloads.mark(GET_EVENT, (workflow_id, key, limit), {})
        produce = partial(self._await, patience, thing, look)
        return await self._engine.recorder.do(place, GET_EVENT, mark, codec, produce)

    def get_blocking(
        self, place: WorkflowPlace | None, workflow_id: str, key: str, limit: float | None, codec: Codec
    ) -> Any:
        """Do as ``get`` from a thread."""
        with self._engine.threads.waiting():
            return self._engine.ask_blocking(self.get(place, workflow_id, key, limit, codec))

    async def _await(self, patience: Patience, thing: Awaited, look: _Look, operation: Operation) -> Kept:
        """Wait for the event, and record it as it is stored."""
        with self._bells.watch(thing) as bell:
            while (found := await look()) is None and not patience.is_over():
                await patience.wait(bell)
        text, format_ = (None, None) if found is None else (found["value"], found["serialization"])
        record = self._engine.recorder.record_with
        await record(operation, self._record, (), output=text, format_=format_, point="step.recorded")
        return Kept(text, format_)

    async def _comes_soon(self, patience: Patience, thing: Awaited, look: _Look) -> bool:
        """Return whether the event is there, or comes within a moment."""
        with self._bells.watch(thing) as bell:
            if await look() is not None:
                return True
            await patience.wait_briefly(bell)
        return await look() is not None

    def _is_recorded(self, place: WorkflowPlace) -> bool:
        return place.branch.peek_identity() in (place.run.history or {})

    def _said(self, key: str, value: Any) -> bool:
        """In a step, have the event set with its record; return whether this is one."""
        voice = voice_of(self._engine)
        if voice is None:
            return False
        voice.add(SideWrite(self._kind, self._row(voice.place.run.id, key, value, voice.place.position)))
        return True

    def _writes(self, key: str, value: Any, operation: Operation) -> list[SideWrite]:
        return [SideWrite(self._kind, self._row(operation.run.id, key, value, operation.position))]

    def _row(self, workflow_id: str, key: str, value: Any, position: int) -> EventRow:
        check_name(key, "The key of an event")
        text, format_ = self._engine.payloads.dump(value)
        return EventRow(workflow_id, key, text, format_, position)

    def _mark(self, key: str, value: Any) -> str:
        return self._engine.payloads.mark(SET_EVENT, (key, value), {})


def _in_run(place: WorkflowPlace | None) -> WorkflowPlace:
    if place is None:
        raise MisuseError(
            "set_event() sets an event of the run that calls it, and this code belongs to none: call it in a workflow "
            "or a step."
        )
    return place
