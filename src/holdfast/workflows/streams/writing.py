"""Writing to the streams of runs, from workflows and steps, in either colour; and telling those who read."""

from __future__ import annotations

import asyncio
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.errors import MisuseError, Superseded
from holdfast.workflows.operations.place import task_place, thread_place
from holdfast.workflows.operations.voice import SideWrite, voice_of
from holdfast.workflows.queries import stream_queries
from holdfast.workflows.streams.entries import CLOSED, AppendEntries, Attempts, Entry, SettleAttempts, check_key
from holdfast.workflows.streams.live import LiveEntry, WriteLive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.operations.voice import Voice

WRITE_STREAM = "holdfast.write_stream"
CLOSE_STREAM = "holdfast.close_stream"

_BETWEEN_HINTS = 0.05  # every hint makes all processes look for work, so a busy stream gives few of them


class Streams:
    """The streams that the workflows of one engine write."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._news: set[tuple[str, str]] = set()
        self._hinting: asyncio.TimerHandle | None = None
        self._hint_due = False

    @cached_property
    def queries(self) -> Queries:
        """The named queries, in the words of the engine's database."""
        settings = self._engine.settings
        return stream_queries(self._engine.manager.dialect, settings.schema, clock_offset_ms=settings.clock_offset_ms)

    @cached_property
    def _append(self) -> AppendEntries:
        return AppendEntries(self.queries, self.told)

    @cached_property
    def _settle(self) -> SettleAttempts:
        return SettleAttempts(self.queries, self.told)

    @cached_property
    def _live(self) -> WriteLive:
        return WriteLive(self.queries)

    async def write(self, stream: str, value: Any, *, live: bool) -> None:
        """Append *value*; see ``write_stream`` of the applications."""
        text, format_ = self._checked(stream, value)
        voice = voice_of(self._engine)
        if voice is None:
            place = _in_workflow(task_place(self._engine), "write_stream")
            mark = self._mark(WRITE_STREAM, stream, value)
            await self._engine.recorder.say(place, WRITE_STREAM, mark, self._entry(stream, text, format_))
        elif live:
            entry = self._live_entry(voice, stream, text, format_)
            try:
                await self._engine.pipeline.write(self._live, entry)
            except Superseded as lost:
                voice.place.run.stop(lost)
                raise
            self._written_live(entry)
        else:
            voice.add(self._said(voice, stream, text, format_))

    def write_blocking(self, stream: str, value: Any, *, live: bool) -> None:
        """Do as ``write`` from a thread."""
        text, format_ = self._checked(stream, value)
        voice = voice_of(self._engine)
        if voice is None:
            place = _in_workflow(thread_place(self._engine), "write_stream")
            mark = self._mark(WRITE_STREAM, stream, value)
            self._engine.recorder.say_blocking(place, WRITE_STREAM, mark, self._entry(stream, text, format_))
        elif live:
            entry = self._live_entry(voice, stream, text, format_)
            try:
                self._engine.pipeline.write_blocking(self._live, entry)
            except Superseded as lost:
                voice.place.run.stop(lost)
                raise
            self._written_live(entry)
        else:
            voice.add(self._said(voice, stream, text, format_))

    async def close(self, stream: str) -> None:
        """Append the end; a second one is left out."""
        check_key(stream)
        voice = voice_of(self._engine)
        if voice is None:
            place = _in_workflow(task_place(self._engine), "close_stream")
            mark = self._mark(CLOSE_STREAM, stream)
            await self._engine.recorder.say(place, CLOSE_STREAM, mark, self._entry(stream, CLOSED, None))
        else:
            voice.add(self._said(voice, stream, CLOSED, None))

    def close_blocking(self, stream: str) -> None:
        """Do as ``close`` from a thread."""
        check_key(stream)
        voice = voice_of(self._engine)
        if voice is None:
            place = _in_workflow(thread_place(self._engine), "close_stream")
            mark = self._mark(CLOSE_STREAM, stream)
            self._engine.recorder.say_blocking(place, CLOSE_STREAM, mark, self._entry(stream, CLOSED, None))
        else:
            voice.add(self._said(voice, stream, CLOSED, None))

    async def throw_leftovers(self, claimed: Sequence[tuple[str, str]]) -> None:
        """Throw away what lost executions of runs had written live; *claimed* are their ids and new tokens.

        The work may be done twice: what is thrown away is not there the second time.
        """
        attempts = Attempts(self.queries)

        async def work(transaction: Transaction) -> set[tuple[str, str]]:
            found = await attempts.leftovers(transaction, claimed)
            await attempts.throw(transaction, found)
            await attempts.forget(transaction, found)
            return {(row["id"], row["stream"]) for row in found}

        news = await self._engine.manager.run(work)
        if news:
            self.told(sorted(news))

    def stop(self) -> None:
        """Hint no more; on the loop."""
        if self._hinting is not None:
            self._hinting.cancel()
            self._hinting = None

    def ended(self, workflow_id: str) -> None:
        """Have those who read here know that a run of this process has ended; from any thread."""
        if self._engine.feed.waiting:
            self._engine.on_loop(lambda: self._engine.feed.written([(workflow_id, "")]))

    def told(self, streams: Sequence[tuple[str, str]]) -> None:
        """Have those who read *streams* look, here at once and elsewhere soon; from any thread."""
        with self._lock:
            coming = bool(self._news)
            self._news.update(streams)
        if not coming:
            self._engine.on_loop(self._tell)

    def _tell(self) -> None:
        with self._lock:
            news, self._news = self._news, set()
        if not self._engine.launched:
            return
        self._engine.feed.written(news)
        self._hint_due = True
        if self._hinting is None:
            self._hint()

    def _hint(self) -> None:
        self._hinting = None
        if self._hint_due and self._engine.launched:
            self._hint_due = False
            self._engine.wakeups.tell()
            self._hinting = asyncio.get_running_loop().call_later(_BETWEEN_HINTS, self._hint)

    def _checked(self, stream: str, value: Any) -> tuple[str, str]:
        check_key(stream)
        self._engine.check_launched()
        return self._engine.payloads.dump(value)

    def _mark(self, name: str, *given: Any) -> str:
        return self._engine.payloads.mark(name, given, {})

    def _entry(self, stream: str, text: str, format_: str | None) -> Any:
        def write(operation: Operation) -> list[SideWrite]:
            return [SideWrite(self._append, Entry(operation.run.id, stream, text, format_, operation.position))]

        return write

    def _said(self, voice: Voice, stream: str, text: str, format_: str | None) -> SideWrite:
        place = voice.place
        return SideWrite(self._append, Entry(place.run.id, stream, text, format_, place.position))

    def _live_entry(self, voice: Voice, stream: str, text: str, format_: str) -> LiveEntry:
        place = voice.place
        run = place.run
        number = voice.speak_live(
            SideWrite(self._settle, (run.id, place.identity, run.token, place.attempt)),
            SideWrite(self._settle, (run.id, place.identity, run.token, None)),
        )
        return LiveEntry(
            run.id, run.token, place.identity, place.position, place.attempt, number, stream, text, format_
        )

    def _written_live(self, entry: LiveEntry) -> None:
        faults.point("stream.written")
        self.told([(entry.workflow_id, entry.stream)])


def _in_workflow(place: WorkflowPlace | None, verb: str) -> WorkflowPlace:
    if place is None:
        raise MisuseError(
            f"{verb}() writes to a stream of the run it is called in, and this code is in no workflow or step."
        )
    return place
