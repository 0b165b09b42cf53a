"""Every operation of a workflow passes here: found in the record and delivered from it, or done once and recorded.

What the workflow gets is what is recorded, also the first time: a value or an error is delivered as a replay would
deliver it. An operation whose name or arguments differ from the record is a determinism error that shows both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.db.pipeline.pipeline import outlast
from holdfast.errors import SerializationError, Superseded, WentBack, WorkflowError
from holdfast.workflows.facts import RecordSteps, StartChildren
from holdfast.workflows.operations.agreement import compare, unfit
from holdfast.workflows.operations.operation import OF_OTHERS, Kept, Operation
from holdfast.workflows.operations.stopping import refuse_last_failure, stop_interrupted
from holdfast.workflows.operations.voice import RecordWrites, tell_written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.queries.queries import Queries
    from holdfast.model.workflow import Recorded
    from holdfast.model.world import World
    from holdfast.workflows.facts import StartRuns
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.operations.voice import SideWrite
    from holdfast.workflows.ownership.permit import Permit
    from holdfast.workflows.payloads import Codec, Payloads


_RECORD = 320  # about what a record weighs in bytes, apart from its payload


class Recorder:
    """Records operations through the pipeline, for workflows of both colours."""

    def __init__(
        self,
        pipeline: Pipeline,
        payloads: Payloads,
        queries: Queries,
        world: World,
        permit: Permit,
        start: StartRuns,
    ) -> None:
        self._pipeline = pipeline
        self._payloads = payloads
        self._monotonic = world.monotonic
        self._permit = permit
        # Of each pair the second is for suspects, whose attempts the record sets back.
        self._records = plain, progress = RecordSteps(queries), RecordSteps(queries, progress=True)
        self._children = StartChildren(plain, start), StartChildren(progress, start)
        self._writes = RecordWrites(plain, queries), RecordWrites(progress, queries)

    def begin(
        self, place: WorkflowPlace, name: str, mark: str | None, child_id: str | None = None
    ) -> tuple[Operation, Recorded | None]:
        """Give the operation its identity; return its record if there is one. *child_id* is whose result it is.

        A cancellation that is still due is raised as if it had come a moment later: the operation has its identity, so
        that what comes after it has the same one whenever the cancellation came.
        """
        run = place.run
        identity = place.branch.next_identity()
        if place.interrupted:
            place.raise_interruption()
        operation = Operation(place, run, identity, name, mark, child_id)
        if run.flaw is not None:
            raise run.flaw
        if run.history is not None:
            recorded = run.history.get(identity)
            if recorded is not None:
                compare(run, operation, recorded)
                operation.position = place.position = recorded.position
                return operation, recorded
        if run.stopped is not None or place.branch.is_closed:
            operation.check()
        operation.position = place.position = run.take_position()
        operation.began = self._monotonic()
        return operation, None

    def deliver(self, operation: Operation, recorded: Recorded | Kept, codec: Codec) -> Any:
        """Return the recorded value or raise the recorded error.

        If it cannot be read the run ends. Only where another process wrote it, as a message, is that an error of the
        operation, which the workflow's code may catch, as it was the first time.
        """
        try:
            if recorded.error is None:
                return codec.load(recorded.output, recorded.serialization)
            error = self._payloads.load_error(recorded.error, recorded.serialization)
        except SerializationError as refused:
            if operation.name not in OF_OTHERS:
                unfit(operation, refused)
            raise
        raise operation.failed(error)

    def _dump(self, operation: Operation, value: Any) -> tuple[str, str]:
        """Return text and marker of what an operation has returned; the run ends if that cannot be stored."""
        try:
            return self._payloads.dump(value, operation.name)
        except SerializationError as refused:
            raise unfit(operation, refused) from None

    def _delivered(self, operation: Operation, codec: Codec, value: Any, text: str, format_: str) -> Any:
        """Return what an operation has returned as a replay would; the run ends if it cannot be read."""
        try:
            return codec.delivered(value, text, format_)
        except SerializationError as refused:
            unfit(operation, refused)
            raise

    async def do(
        self,
        place: WorkflowPlace,
        name: str,
        mark: str | None,
        codec: Codec,
        produce: Callable[[Operation], Awaitable[Any]],
        *,
        child_id: str | None = None,
    ) -> Any:
        """Carry an operation out, or replay it, in an async workflow."""
        operation, recorded = self.begin(place, name, mark, child_id)
        if recorded is not None:
            return self.deliver(operation, recorded, codec)
        if not self._permit.is_valid():
            await self._permitted(operation)
        faults.point("step.before_user_code")
        failed: BaseException | None = None
        try:
            value = await produce(operation)
        except Exception as error:
            if error is operation.run.flaw:
                raise
            refuse_last_failure(operation.run, error)
            faults.point("step.after_user_code")
            failed = await self.record_error(operation, error)
        if failed is not None:
            try:
                raise failed  # not in the handler, where Python would give it another cause than a replay does
            finally:
                del failed  # or it and its traceback would keep each other
        if isinstance(value, Kept):
            return self.deliver(operation, value, codec)
        del produce  # thousands may wait for their records: the collector need not look at what they are done with
        faults.point("step.after_user_code")
        text, format_ = self._dump(operation, value)
        if operation.writes:
            await self._write_all(operation, text, format_)
        else:
            kind = self._records[operation.run.suspect]
            row = self.row(operation, text, None, format_, None)
            await self._settled(operation, kind, row, "step.recorded", _RECORD + len(text))
        return self._delivered(operation, codec, value, text, format_)

    def do_blocking(
        self,
        place: WorkflowPlace,
        name: str,
        mark: str | None,
        codec: Codec,
        produce: Callable[[Operation], Any],
        *,
        child_id: str | None = None,
    ) -> Any:
        """Carry an operation out, or replay it, in a sync workflow."""
        operation, recorded = self.begin(place, name, mark, child_id)
        if recorded is not None:
            return self.deliver(operation, recorded, codec)
        if not self._permit.is_valid():
            self._permitted_blocking(operation)
        faults.point("step.before_user_code")
        failed: BaseException | None = None
        try:
            value = produce(operation)
        except KeyboardInterrupt as interrupt:
            stop_interrupted(operation.run, interrupt)
            raise
        except Exception as error:
            if error is operation.run.flaw:
                raise
            refuse_last_failure(operation.run, error)
            faults.point("step.after_user_code")
            failed = self.record_error_blocking(operation, error)
        if failed is not None:
            try:
                raise failed  # not in the handler, where Python would give it another cause than a replay does
            finally:
                del failed  # or it and its traceback would keep each other
        if isinstance(value, Kept):
            return self.deliver(operation, value, codec)
        faults.point("step.after_user_code")
        text, format_ = self._dump(operation, value)
        if operation.writes:
            self._write_all_blocking(operation, text, format_)
        else:
            self._write_blocking(operation, text, None, format_)
        return self._delivered(operation, codec, value, text, format_)

    async def say(
        self, place: WorkflowPlace, name: str, mark: str, write: Callable[[Operation], Sequence[SideWrite]]
    ) -> None:
        """Carry out an operation that is nothing but writes, beside its record; nothing is written on replay.

        If a write is refused, that is the recorded outcome, and what is raised.
        """
        operation, recorded = self.begin(place, name, mark)
        if recorded is not None:
            self.deliver(operation, recorded, self._payloads.plain)
            return
        if not self._permit.is_valid():
            await self._permitted(operation)
        operation.writes = tuple(write(operation))
        await self._write_all(operation, None, None)

    def say_blocking(
        self, place: WorkflowPlace, name: str, mark: str, write: Callable[[Operation], Sequence[SideWrite]]
    ) -> None:
        """Do as ``say`` from a thread."""
        operation, recorded = self.begin(place, name, mark)
        if recorded is not None:
            self.deliver(operation, recorded, self._payloads.plain)
            return
        if not self._permit.is_valid():
            self._permitted_blocking(operation)
        operation.writes = tuple(write(operation))
        self._write_all_blocking(operation, None, None)

    async def _permitted(self, operation: Operation) -> None:
        """Wait for the next beat. If it has found that this executor was taken for gone, the run is not its own now."""
        await self._permit.wait()
        operation.check()

    def _permitted_blocking(self, operation: Operation) -> None:
        self._permit.wait_blocking(operation.check)
        operation.check()

    async def start_child(self, operation: Operation, child_row: Values) -> Any:
        """Record the start of a child and start it, both or neither; return what came of the start."""
        return await self.record_with(operation, self._children, child_row, child_id=child_row[0])

    def start_child_blocking(self, operation: Operation, child_row: Values) -> Any:
        """Do as ``start_child`` from a thread."""
        return self.record_with_blocking(operation, self._children, child_row, child_id=child_row[0])

    async def record_with(
        self,
        operation: Operation,
        kinds: tuple[Kind[Any], Kind[Any]],
        besides: Any,
        *,
        output: str | None = None,
        format_: str | None = None,
        child_id: str | None = None,
        point: str = "child.started",
    ) -> Any:
        """Record an operation and write *besides*, both or neither; return what came of the latter.

        Rows of *kinds* are (record, besides); the second is for a run whose attempts the record sets back. *point* is
        announced after the commit.
        """
        row = self.row(operation, output, None, format_, child_id)
        return await self._settled(operation, kinds[operation.run.suspect], (row, besides), point)

    def record_with_blocking(
        self,
        operation: Operation,
        kinds: tuple[Kind[Any], Kind[Any]],
        besides: Any,
        *,
        output: str | None = None,
        format_: str | None = None,
        child_id: str | None = None,
    ) -> Any:
        """Do as ``record_with`` from a thread."""
        row = self.row(operation, output, None, format_, child_id)
        return self._settled_blocking(operation, kinds[operation.run.suspect], (row, besides), "child.started")

    async def record_error(self, operation: Operation, error: Exception) -> BaseException:
        """Record that an operation failed with *error*; return what a replay will raise."""
        text, format_ = self._payloads.dump_error(error)
        await self._write(operation, None, text, format_)
        return operation.failed(self._payloads.as_recorded(error, text, format_))

    def record_error_blocking(self, operation: Operation, error: Exception) -> BaseException:
        """Do as ``record_error`` from a thread."""
        text, format_ = self._payloads.dump_error(error)
        self._write_blocking(operation, None, text, format_)
        return operation.failed(self._payloads.as_recorded(error, text, format_))

    async def _write_all(self, operation: Operation, output: str | None, format_: str | None) -> None:
        """Record an operation that has succeeded, and its writes; if one is refused, the operation has failed."""
        try:
            await self._write(operation, output, None, format_)
        except WorkflowError as refused:
            raise await self.record_error(operation, refused) from None

    def _write_all_blocking(self, operation: Operation, output: str | None, format_: str | None) -> None:
        try:
            self._write_blocking(operation, output, None, format_)
        except WorkflowError as refused:
            raise self.record_error_blocking(operation, refused) from None

    async def _write(self, operation: Operation, output: str | None, error: str | None, format_: str | None) -> None:
        row = self.row(operation, output, error, format_, None)
        writes = operation.writes if error is None else operation.writes_if_failed
        if not writes:
            await self._settled(operation, self._records[operation.run.suspect], row, "step.recorded")
            return
        await self._settled(operation, self._writes[operation.run.suspect], (row, writes), "step.recorded")
        tell_written(writes)

    def _write_blocking(self, operation: Operation, output: str | None, error: str | None, format_: str | None) -> None:
        row = self.row(operation, output, error, format_, None)
        writes = operation.writes if error is None else operation.writes_if_failed
        if not writes:
            size = _RECORD + len(output or error or "")
            self._settled_blocking(operation, self._records[operation.run.suspect], row, "step.recorded", size)
            return
        self._settled_blocking(operation, self._writes[operation.run.suspect], (row, writes), "step.recorded")
        tell_written(writes)

    async def _settled(
        self, operation: Operation, kind: Kind[Any], row: Values, point: str, size: int | None = None
    ) -> Any:
        """Have *row*, of *size* bytes, written unless this execution must stop; announce *point* after the commit."""
        run, place = operation.run, operation.place
        if run.stopped is not None or place.branch.is_closed:
            operation.check()
        while (handed := self._pipeline.hand_over(kind, row, size)) is None:
            await self._pipeline.change()
        waiter: Any = handed.waiter
        try:
            try:
                outcome = await waiter
            except asyncio.CancelledError:
                # What is recorded must be delivered: a cancelled awaiter first waits for what it has handed over.
                place.interrupted = True  # said before the wait, which may raise
                outcome = await outlast(handed)
        except Superseded as lost:
            run.stop(lost)
            raise
        except WentBack as lost:
            raise operation.stands_on_nothing() from lost
        run.suspect = False
        faults.point(point)
        return outcome

    def _settled_blocking(
        self, operation: Operation, kind: Kind[Any], row: Values, point: str, size: int | None = None
    ) -> Any:
        """Do as ``_settled`` from a thread."""
        operation.check()
        try:
            outcome = self._pipeline.write_blocking(kind, row, size=size)
        except Superseded as lost:
            operation.run.stop(lost)
            raise
        except WentBack as lost:
            raise operation.stands_on_nothing() from lost
        except KeyboardInterrupt as interrupt:
            stop_interrupted(operation.run, interrupt)
            raise
        operation.run.suspect = False
        faults.point(point)
        return outcome

    def row(
        self,
        operation: Operation,
        output: str | None,
        error: str | None,
        format_: str | None,
        child_id: str | None,
    ) -> Values:
        """Return the record of an operation, as a row of the query ``step_record``."""
        run = operation.run
        return (
            run.id,
            run.token,
            operation.position,
            operation.name,
            operation.identity,
            operation.mark,
            output,
            error,
            child_id,
            format_,
            int((self._monotonic() - operation.began) * 1000),
        )
