"""Carrying out runs: the workflow's function from its first line to a committed outcome, on a task or a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast import faults
from holdfast.core.identity import Branch
from holdfast.core.retry import wait_before_retry
from holdfast.errors import DatabaseError, PipelineClosed, PipelineError, SerializationError, Superseded, WentBack
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.facts import FinishRuns, HandOverRuns, RetryRuns
from holdfast.workflows.operations.agreement import check_whole
from holdfast.workflows.operations.place import WorkflowPlace, here
from holdfast.workflows.operations.stopping import is_interrupt, program_ends, was_cancelled
from holdfast.workflows.running.run import Outcome, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.queries.queries import Queries
    from holdfast.model.world import World
    from holdfast.workflows.dead_letters.facts import ErrorLetters
    from holdfast.workflows.ownership.permit import Permit
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.running.deadlines import Deadlines
    from holdfast.workflows.running.threads import WorkflowThreads

logger = logging.getLogger("holdfast.workflows")


class Closing(Superseded):
    """This executor is stopping: the run goes on elsewhere."""


class _End(Struct, frozen=True):
    """What is written at the end of an execution, and what those who wait for it here are told.

    *wait*, if this is not the end of the run, is in how many seconds it goes on.
    """

    kind: Kind[Any]
    row: Values
    outcome: Outcome
    wait: float | None = None


class Runner:
    """Runs what this executor owns. ``running`` is everything that has a token here and no outcome yet."""

    def __init__(
        self,
        pipeline: Pipeline,
        payloads: Payloads,
        queries: Queries,
        threads: WorkflowThreads,
        permit: Permit,
        world: World,
        deadlines: Deadlines,
        letters: ErrorLetters,
        *,
        due_in: Callable[[float], None],
        told_ended: Callable[[str], None],
        on_loop: Callable[[Callable[[], None]], bool],
    ) -> None:
        self._on_loop = on_loop
        self._letters = letters
        self._pipeline = pipeline
        self.payloads = payloads
        self._threads = threads
        self._permit = permit
        self._world = world
        self._deadlines = deadlines
        self._due_in = due_in
        self._told_ended = told_ended
        self._finish = FinishRuns(queries)
        self._retry = RetryRuns(queries)
        self._hand_over = HandOverRuns(queries)
        self.running: dict[str, Run] = {}
        self._gives_back = False
        self._leaving: set[Run] = set()
        self._late: set[asyncio.Task[None]] = set()

    def launch(self, run: Run, *, called: bool = False) -> None:
        """Begin a run in the background, also if it is *called* and its caller waits for it; on the loop.

        It has a copy of the context variables of this code: those of whoever starts it, or of whoever launched the
        application. A thread does one run after the other, and none may have what another has set.
        """
        self.running[run.id] = run
        run.in_background = not called
        if run.definition.is_async:
            run.task = asyncio.get_running_loop().create_task(self.execute(run), name=f"holdfast-{run.id}")
        else:
            self._threads.submit(partial(copy_context().run, self.execute_blocking, run))

    async def execute(self, run: Run) -> None:
        """Carry an async run to its outcome, in the current task."""
        self._note(run)
        place = WorkflowPlace(run, Branch(), run.task or asyncio.current_task())
        mark = here.set(place)
        error: BaseException | None = None
        value: Any = None
        try:
            if not self._permit.is_valid():
                await self._permit.wait()
            faults.point("run.before_user_code")
            run.check()
            value = await run.call()
            check_whole(place)
        except Superseded:
            self._lost(run)
            return
        except BaseException as raised:  # noqa: BLE001 -- the run's boundary: what it raised is its outcome
            error = raised
        finally:
            here.reset(mark)
        cancelled = was_cancelled(error)
        if _is_cut_off(run, error) or cancelled:
            self._lost(run)
            if cancelled and error is not None:
                raise error  # a child that runs in its parent's task must not swallow what was meant for the parent
            return
        try:
            end = self._end(run, value, error)
        except BaseException:
            self._lost(run)
            raise
        await self._write_end(run, end)

    def execute_blocking(self, run: Run) -> None:
        """Carry a sync run to its outcome, on the current thread.

        An error of the run is its outcome, and is not raised here. The interrupt of a program is, if it called the run
        directly: such a run has not ended, and goes on like one whose executor was lost.
        """
        try:
            self._carry_out(run)
        finally:
            if not run.ended:  # interrupted, perhaps while its outcome was written: whoever waits looks at the row
                self._lost(run)

    def _carry_out(self, run: Run) -> None:
        self._note(run)
        place = WorkflowPlace(run, Branch(), threading.get_ident())
        mark = here.set(place)
        error: BaseException | None = None
        value: Any = None
        try:
            if not self._permit.is_valid():
                self._permit.wait_blocking(run.check)
            faults.point("run.before_user_code")
            run.check()
            value = run.call()
            check_whole(place)
        except Superseded:
            self._lost(run)
            return
        except BaseException as raised:
            if is_interrupt(raised):
                raise
            error = raised  # the run's boundary: what it raised is its outcome
        finally:
            here.reset(mark)
        if _is_cut_off(run, error):
            self._lost(run)
            return
        self._write_end_blocking(run, self._end(run, value, error))

    async def _write_end(self, run: Run, end: _End) -> None:
        """Write how the execution ended; if the database refuses that for good, write the refusal instead.

        What it commits in other databases is recorded before, so that the next try knows of it.
        """
        try:
            if (commits := run.closing()) is not None:
                await commits.ended()
            await self._pipeline.write(end.kind, end.row, to_the_end=True)
        except (Superseded, PipelineClosed, WentBack):
            self._lost(run)
        except asyncio.CancelledError:
            self._lost(run)  # it may well be written: whoever waits looks at the row
            raise
        except DatabaseError as refused:
            if isinstance(end.outcome.error, DatabaseError):
                self._lost(run)
                raise
            await self._write_end(run, self._failure(run, refused))
        else:
            self._ended(run, end)

    def _write_end_blocking(self, run: Run, end: _End) -> None:
        """Do as ``_write_end`` from a thread."""
        if (commits := run.closing()) is not None:
            halted = threading.Event()
            run.on_halt(halted.set)
            commits.ended_blocking(halted)
        try:
            self._pipeline.write_blocking(end.kind, end.row)
        except (Superseded, PipelineClosed, WentBack):
            self._lost(run)
        except DatabaseError as refused:
            if isinstance(end.outcome.error, DatabaseError):
                self._lost(run)
                raise
            self._write_end_blocking(run, self._failure(run, refused))
        else:
            self._ended(run, end)

    async def fail(self, run: Run, error: Exception) -> None:
        """End a run that cannot even be begun, for instance because its arguments cannot be read."""
        await self._write_end(run, self._failure(run, error))

    async def hand_over(self, run: Run) -> None:
        """Give a run back to its queue, whoever goes on with it."""
        self.stop(run, Closing("this executor is stopping"))
        await self._pipeline.write(self._hand_over, (run.id, run.token))
        faults.point("run.handed_over")

    def stop_all(self) -> None:
        """Have what runs here go no further, and what is begun from now on not even begin; on the loop.

        A start that is being committed meanwhile is not interrupted: its run is handed over when it would begin.
        """
        self._gives_back = True
        for run in list(self.running.values()):
            self.stop(run, Closing("this executor is stopping"))

    async def give_back_all(self) -> None:
        """Hand over everything that runs here."""
        await asyncio.gather(*map(self._give_back, list(self.running.values())))

    async def _give_back(self, run: Run) -> None:
        try:
            await self.hand_over(run)
        except Superseded:
            logger.info("Run %s had been taken over already.", run.id)

    def _give_back_late(self, run: Run) -> None:
        """Hand over a run that comes too late to be begun here; the pipeline writes all it has before it closes."""
        task = asyncio.get_running_loop().create_task(self._give_back_now(run), name=f"holdfast-give-back-{run.id}")
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _give_back_now(self, run: Run) -> None:
        try:
            await self._give_back(run)
        except (DatabaseError, PipelineError) as error:
            logger.info("Run %s is not handed over; it is released when this executor is gone: %s", run.id, error)

    async def cleaned_up(self, patience: float, but: Collection[str]) -> None:
        """Wait until the tasks of runs that were stopped have ended, for *patience* seconds; *but* not these runs'.

        They give back what they hold. The end of the loop would cancel them once more, and cut that off.
        """
        here_now = asyncio.get_running_loop()
        tasks = {
            run.task: run.id
            for run in self.running.values()
            if run.task is not None and run.task.get_loop() is here_now and run.id not in but
        }
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=patience)
            if left:
                logger.warning(
                    "Runs were stopped and have not ended within %g s, what they clean up may be cut off: %s.",
                    patience,
                    ", ".join(sorted(tasks[each] for each in left)),
                )

    async def drained(self, no_more_time: asyncio.Future[None]) -> None:
        """Let what runs here end until all of it has, or until *no_more_time* is done."""
        done = asyncio.get_running_loop().create_future()
        left = list(self.running.values())
        count = len(left)

        def tell(_: Outcome) -> None:
            nonlocal count
            count -= 1
            if count == 0:
                self._on_loop(lambda: None if done.done() else done.set_result(None))

        for run in left:
            run.watch(tell)
        if left:
            await asyncio.wait([done, no_more_time], return_when=asyncio.FIRST_COMPLETED)

    def stop(self, run: Run, reason: BaseException) -> None:
        """Have a run go no further: at once if it is a task, at its next operation if it is a thread.

        Whoever waits for it need not wait for that: the outcome will come from elsewhere. A task is cancelled once: a
        second time would cut off what it does about the first, and leave connections open and locks held.
        """
        run.stop(reason)
        if run.task is not None and not run.ended:
            run.task.cancel()
        run.settle(Outcome(elsewhere=True))

    def put_away(self, run: Run, reason: BaseException) -> None:
        """Stop a run that is about to be put away. Until ``let_go`` it is PENDING, and has its place here."""
        self._leaving.add(run)
        self.stop(run, reason)

    def let_go(self, run: Run) -> None:
        """Give up the place of a run that is put away now, or will not be."""
        self._leaving.discard(run)
        self._forget(run)

    def _end(self, run: Run, value: Any, error: BaseException | None) -> _End:
        """Return what is to be written at the end of an execution: the outcome, or that the run is tried again."""
        error = run.flaw or error
        if error is None:
            try:
                text, format_ = self.payloads.dump(value, run.definition.name)
                delivered = run.codec.delivered(value, text, format_)
            except SerializationError as refused:
                error = refused
            else:
                row = (run.id, run.token, WorkflowStatus.SUCCESS.value, text, None, format_)
                return _End(self._finish, row, Outcome(value=delivered))
        again = self._again(run, error) if run.flaw is None else None
        return again if again is not None else self._failure(run, error)

    def _failure(self, run: Run, error: BaseException) -> _End:
        text, format_ = self.payloads.dump_error(error)
        row = (run.id, run.token, WorkflowStatus.ERROR.value, None, text, format_)
        recorded = self.payloads.as_recorded(error, text, format_)
        if type(recorded) is not type(error):
            recorded.__cause__ = error  # whoever called the workflow here may see what the stand-in stands for
        outcome = Outcome(error=recorded, traceback=recorded.__traceback__)
        domain = run.definition.dead_letter
        if domain is None:
            return _End(self._finish, row, outcome)
        return _End(*self._letters.ending(run, domain, error, row), outcome)

    def _again(self, run: Run, error: BaseException) -> _End | None:
        """Return how the run is tried again as a whole, or None if that was its last try.

        What succeeded is not done again: the record is kept up to the operation that failed, or to the saga that was
        undone. An error that came from no operation would come again from the same record, so only a run that has
        recorded nothing starts over.
        """
        if run.definition.retry is None or run.cut_at is None or not isinstance(error, Exception):
            return None
        wait = wait_before_retry(run.definition.retry, run.retries + 1, error, self._world.random.random())
        cut = run.cut_at.position(error) or (1 if run.next_position == 1 else None)
        if wait is None:
            return None
        if cut is None:
            logger.warning(
                "Run %s is not tried again: its own code raised what the record would repeat, or not all was undone.",
                run.id,
            )
            return None
        logger.info("Run %s failed and is tried again in %.1f s: %s", run.id, wait, error)
        return _End(self._retry, (run.id, run.token, cut, int(wait * 1000)), Outcome(elsewhere=True), wait)

    def _ended(self, run: Run, end: _End) -> None:
        faults.point("run.outcome_written")
        if end.outcome.error is not None and run.in_background:  # else its caller gets the error, and its traceback
            logger.warning("Run %s of %s ended with an error.", run.id, run.definition.name, exc_info=end.outcome.error)
        run.stop(Superseded("the run has ended"))  # for what it has left behind: tasks and threads nobody waits for
        self._forget(run)
        run.settle(end.outcome)
        self._told_ended(run.id)
        if end.wait is not None:
            self._due_in(end.wait)
        if end.outcome.error is not None and run.definition.dead_letter is not None:
            faults.point("dead_letter.made")
            self._letters.made()
        faults.point("run.told")

    def _lost(self, run: Run) -> None:
        logger.info("Run %s goes on elsewhere: %s", run.id, run.stopped or "another execution owns it")
        self._forget(run)
        run.settle(Outcome(elsewhere=True))

    def _note(self, run: Run) -> None:
        # A stale execution that was kept waiting must not push out the one that owns the run now.
        self.running.setdefault(run.id, run)
        if self._gives_back:  # looked at after the run is among those that are running, where stop_all looks
            run.stop(Closing("this executor is stopping"))
            self._on_loop(partial(self._give_back_late, run))
        elif run.deadline_ms is not None:
            self._deadlines.watch(run, run.deadline_ms)

    def _forget(self, run: Run) -> None:
        if self.running.get(run.id) is run and run not in self._leaving:
            del self.running[run.id]


def _is_cut_off(run: Run, error: BaseException | None) -> bool:
    """Whether what *run* ended with here is not its outcome: it goes on elsewhere."""
    return run.stopped is not None or isinstance(error, PipelineClosed) or (error is not None and program_ends())
