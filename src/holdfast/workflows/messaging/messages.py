"""Sending messages to runs, and receiving them: the operations of workflows, of their steps, and of callers outside.

Each has a form for code on the loop and, with ``_blocking``, one for threads. Receiving is done on the loop in either
case: a thread that waits gives up its place among the workflow threads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.workflows.facts import RecordSteps
from holdfast.workflows.messaging.message import MessageRow, stored
from holdfast.workflows.messaging.patience import Patience
from holdfast.workflows.messaging.receiving import Instead, NothingThere, Received, ReceiveMessages
from holdfast.workflows.messaging.sending import PutMessages, SendAlone, SendBesides
from holdfast.workflows.messaging.telling import message_to
from holdfast.workflows.operations.operation import RECV
from holdfast.workflows.operations.voice import SideWrite, voice_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.messaging.bells import Bells
    from holdfast.workflows.messaging.message import Message
    from holdfast.workflows.messaging.telling import Telling
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.payloads import Codec

SEND = "holdfast.send"
RECV_TIMEOUT = "holdfast.recv_timeout"


class Messages:
    """The messages of one engine."""

    def __init__(self, engine: Engine, queries: Queries, bells: Bells, telling: Telling) -> None:
        self._engine = engine
        self._bells = bells
        put = PutMessages(queries)
        self._alone = SendAlone(put)
        self._besides = SendBesides(put, telling.sent)
        self._receive = (
            ReceiveMessages(RecordSteps(engine.queries), engine.queries, queries),
            ReceiveMessages(RecordSteps(engine.queries, progress=True), engine.queries, queries),
        )

    async def send(self, place: WorkflowPlace | None, messages: Sequence[Message]) -> None:
        """Send messages, all in one commit: in a workflow recorded, in a step with its record, elsewhere alone."""
        if self._said(messages) or not messages:
            return
        if place is not None:
            await self._engine.recorder.say(place, SEND, self._mark(messages), partial(self._writes, messages))
            return
        rows = self._rows(messages)
        self._engine.refuse_other_loop()
        await self._engine.starts.written(self._alone, tuple(tuple(row) for row in rows))
        self._besides.written(rows)

    def send_blocking(self, place: WorkflowPlace | None, messages: Sequence[Message]) -> None:
        """Do as ``send`` from a thread."""
        if self._said(messages) or not messages:
            return
        if place is not None:
            self._engine.recorder.say_blocking(place, SEND, self._mark(messages), partial(self._writes, messages))
            return
        rows = self._rows(messages)
        self._engine.starts.written_blocking(self._alone, tuple(tuple(row) for row in rows))
        self._besides.written(rows)

    async def recv(self, place: WorkflowPlace, topic: str | None, limit: float | None, codec: Codec) -> Any:
        """Take the next message of *topic*, or None if there is none within *limit* seconds; the same on every replay.

        If a message is there this is one record. If not, and there is a limit, the moment of its end is recorded first.
        """
        box = stored(topic)
        mark = self._engine.payloads.mark(RECV, (topic, limit), {})
        patience = Patience(self._engine, place, RECV_TIMEOUT, limit)
        await patience.recall()
        operation, recorded = self._engine.recorder.begin(place, RECV, mark)
        if recorded is not None:
            return self._engine.recorder.deliver(operation, recorded, codec)
        thing = message_to(place.run.id, box)
        with self._bells.watch(thing) as bell:
            got = await self._attempt(operation, box, _nothing(mark) if patience.is_over() else None)
            if got is None and await patience.wait_briefly(bell):
                got = await self._attempt(operation, box, patience.beginning())
            if got is not None and got.name == RECV_TIMEOUT:
                patience.begin(got.output, got.serialization)
                operation, got = self._engine.recorder.begin(place, RECV, mark)[0], None
            while got is None:
                await patience.wait(bell)
                got = await self._attempt(operation, box, _nothing(mark) if patience.is_over() else None)
        return codec.load(got.output, got.serialization)

    def recv_blocking(self, place: WorkflowPlace, topic: str | None, limit: float | None, codec: Codec) -> Any:
        """Do as ``recv`` from a thread."""
        with self._engine.threads.waiting():
            return self._engine.ask_blocking(self.recv(place, topic, limit, codec))

    async def _attempt(self, operation: Operation, box: str, instead: Instead | None) -> Received | None:
        """Take a message, or record what is to be recorded instead; None if there is neither."""
        record, branch = self._engine.recorder.record_with, operation.place.branch
        branch.takes(True)  # before it is looked whether the branch is closed: who closes it looks at this afterwards
        try:
            got: Received = await record(operation, self._receive, (box, instead), point="step.recorded")
        except NothingThere:
            branch.takes(False)
            return None
        except BaseException:
            branch.takes(False)
            raise
        faults.point("message.consumed")
        return got

    def _said(self, messages: Sequence[Message]) -> bool:
        """In a step, have the messages sent with its record; return whether this is one."""
        voice = voice_of(self._engine)
        if voice is None:
            return False
        for row in self._rows(messages):
            voice.add(SideWrite(self._besides, row))
        return True

    def _rows(self, messages: Sequence[Message]) -> list[MessageRow]:
        self._engine.check_launched()
        new_id = self._engine.settings.world.new_id
        return [MessageRow.of(self._engine.payloads, each, new_id) for each in messages]

    def _writes(self, messages: Sequence[Message], _: Operation) -> list[SideWrite]:
        """Return what a workflow sends. That it is sent once is its record's doing, which commits with it."""
        return [SideWrite(self._besides, row) for row in self._rows(messages)]

    def _mark(self, messages: Sequence[Message]) -> str:
        given = tuple([each.destination_id, each.message, each.topic, each.idempotency_key] for each in messages)
        return self._engine.payloads.mark(SEND, given, {})


def _nothing(mark: str) -> Instead:
    """Return the record of a ``recv`` whose time was over."""
    return Instead(RECV, mark, None, None)
