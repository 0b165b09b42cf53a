"""Carrying out runs: the workflow's function from its first line to a committed outcome, on a task or a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.identity import Branch
from holdfast.errors import PipelineClosed, SerializationError, Superseded
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.facts import FinishRuns, HandOverRuns
from holdfast.workflows.place import WorkflowPlace, here
from holdfast.workflows.run import Outcome, Run

if TYPE_CHECKING:
    from holdfast.db.operation import Values
    from holdfast.db.pipeline import Pipeline
    from holdfast.db.queries import Queries
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.permit import Permit
    from holdfast.workflows.threads import WorkflowThreads

logger = logging.getLogger("holdfast.workflows")


class Closing(Superseded):
    """This executor is stopping: the run goes on elsewhere."""


class Runner:
    """Runs what this executor owns. ``running`` is everything that has a token here and no outcome yet."""

    def __init__(
        self, pipeline: Pipeline, payloads: Payloads, queries: Queries, threads: WorkflowThreads, permit: Permit
    ) -> None:
        self._pipeline = pipeline
        self.payloads = payloads
        self._threads = threads
        self._permit = permit
        self._finish = FinishRuns(queries)
        self._hand_over = HandOverRuns(queries)
        self.running: dict[str, Run] = {}

    def launch(self, run: Run) -> None:
        """Begin a run in the background; on the loop."""
        self.running[run.id] = run
        if run.definition.is_async:
            run.task = asyncio.get_running_loop().create_task(self.execute(run), name=f"holdfast-{run.id}")
        else:
            self._threads.submit(partial(self.execute_blocking, run))

    async def execute(self, run: Run) -> None:
        """Carry an async run to its outcome, in the current task."""
        self._note(run)
        mark = here.set(WorkflowPlace(run, Branch(), asyncio.current_task()))
        error: BaseException | None = None
        value: Any = None
        try:
            if not self._permit.is_valid():
                await self._permit.wait()
            faults.point("run.before_user_code")
            run.check()
            value = await run.call()
        except Superseded:
            self._lost(run)
            return
        except BaseException as raised:  # noqa: BLE001 -- the run's boundary: what it raised is its outcome
            error = raised
        finally:
            here.reset(mark)
        cancelled = _was_cancelled(error)
        if run.stopped is not None or isinstance(error, PipelineClosed) or cancelled:
            self._lost(run)
            if cancelled and error is not None:
                raise error  # a child that runs in its parent's task must not swallow what was meant for the parent
            return
        row, outcome = self._outcome(run, value, error)
        try:
            await self._pipeline.write(self._finish, row, to_the_end=True)
        except (Superseded, PipelineClosed):
            self._lost(run)
        except asyncio.CancelledError:
            self._lost(run)  # it may well be written: whoever waits looks at the row
            raise
        else:
            self._ended(run, outcome)

    def execute_blocking(self, run: Run) -> None:
        """Carry a sync run to its outcome, on the current thread.

        Raises nothing the run raises, but the interrupt of a program that called it directly: such a run has not
        ended, and goes on like one whose executor was lost.
        """
        self._note(run)
        mark = here.set(WorkflowPlace(run, Branch(), threading.get_ident()))
        error: BaseException | None = None
        value: Any = None
        try:
            if not self._permit.is_valid():
                self._permit.wait_blocking()
            faults.point("run.before_user_code")
            run.check()
            value = run.call()
        except Superseded:
            self._lost(run)
            return
        except BaseException as raised:
            if _is_interrupt(raised):
                self._lost(run)
                raise
            error = raised  # the run's boundary: what it raised is its outcome
        finally:
            here.reset(mark)
        if run.stopped is not None or isinstance(error, PipelineClosed):
            self._lost(run)
            return
        row, outcome = self._outcome(run, value, error)
        try:
            self._pipeline.write_blocking(self._finish, row)
        except (Superseded, PipelineClosed):
            self._lost(run)
        else:
            self._ended(run, outcome)

    async def fail(self, run: Run, error: Exception) -> None:
        """End a run that cannot even be begun, for instance because its arguments cannot be read."""
        row, outcome = self._outcome(run, None, error)
        try:
            await self._pipeline.write(self._finish, row)
        except Superseded:
            self._lost(run)
        else:
            self._ended(run, outcome)

    async def hand_over(self, run: Run) -> None:
        """Give a run back to its queue, whoever goes on with it."""
        self.stop(run, Closing("this executor is stopping"))
        await self._pipeline.write(self._hand_over, (run.id, run.token))
        faults.point("run.handed_over")

    def stop(self, run: Run, reason: BaseException) -> None:
        """Have a run go no further: at once if it is a task, at its next operation if it is a thread.

        Whoever waits for it need not wait for that: the outcome will come from elsewhere.
        """
        if run.stopped is None:
            run.stopped = reason
        run.settle(Outcome(elsewhere=True))
        if run.task is not None:
            run.task.cancel()

    def _outcome(self, run: Run, value: Any, error: BaseException | None) -> tuple[Values, Outcome]:
        if error is None:
            try:
                text, format_ = self.payloads.dump(value)
                delivered = run.codec.delivered(value, text, format_)
            except SerializationError as refused:
                error = refused
            else:
                return (run.id, run.token, WorkflowStatus.SUCCESS.value, text, None, format_), Outcome(value=delivered)
        text, format_ = self.payloads.dump_error(error)
        row = (run.id, run.token, WorkflowStatus.ERROR.value, None, text, format_)
        return row, Outcome(error=self.payloads.as_recorded(error, text, format_))

    def _ended(self, run: Run, outcome: Outcome) -> None:
        faults.point("run.outcome_written")
        self._forget(run)
        run.settle(outcome)
        faults.point("run.told")

    def _lost(self, run: Run) -> None:
        logger.info("Run %s goes on elsewhere: %s", run.id, run.stopped or "another execution owns it")
        self._forget(run)
        run.settle(Outcome(elsewhere=True))

    def _note(self, run: Run) -> None:
        # A stale execution that was kept waiting must not push out the one that owns the run now.
        self.running.setdefault(run.id, run)

    def _forget(self, run: Run) -> None:
        if self.running.get(run.id) is run:
            del self.running[run.id]


def _was_cancelled(error: BaseException | None) -> bool:
    """Whether this task itself is being cancelled, as by a loop that ends: the run has no outcome then."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _is_interrupt(error: BaseException) -> bool:
    """Whether somebody stops the program at its terminal: only the main thread is told, wherever it is just then."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
