"""Putting runs away when all their branches wait, and long."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast import faults
from holdfast.errors import DatabaseError, PipelineClosed, Superseded, WentBack
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.operations.stopping import stop_interrupted
from holdfast.workflows.ownership.trial import is_on_trial
from holdfast.workflows.parking.facts import PutAwayRuns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
    from typing import Any

    from holdfast.core.identity import Branch
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.queries.queries import Queries
    from holdfast.model.world import World
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.parking.waits import Awaited, Parts, Wait
    from holdfast.workflows.parking.wakes import Wakes
    from holdfast.workflows.running.results import Results
    from holdfast.workflows.running.run import Run
    from holdfast.workflows.running.runner import Runner

logger = logging.getLogger("holdfast.workflows")

PUT_AWAY_AFTER = 10.0
_LOOKS = 4  # within the time after which a run is put away


class PutAway(Superseded):
    """The run waits for long, and goes on when its wait is over."""


class Parker:
    """Decides when a run is put away, and does it. Its tasks live on the loop; waits begin on threads too.

    A sleep is as long as it is: the run is put away at once. Results, messages and events may come at any moment: it is
    put away once it has waited for so long.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        queries: Queries,
        parking: Queries,
        runner: Runner,
        results: Results,
        wakes: Wakes,
        world: World,
        *,
        now: Callable[[], float],
        on_loop: Callable[[Callable[[], None]], bool],
        have_come: Callable[[Sequence[Awaited]], Awaitable[bool]],
        left: Callable[[str | None], None],
        after: float,
    ) -> None:
        self._pipeline = pipeline
        self._kind = PutAwayRuns(queries, parking)
        self._runner = runner
        self._results = results
        self._world = world
        self._now = now
        self._on_loop = on_loop
        self._have_come = have_come
        self._left_queue = left
        self._wakes = wakes
        self._after = after
        self._patient: dict[Run, tuple[int, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_watching = False
        self._lock = threading.Lock()  # who comes while the watch ends must see that it has
        self._watcher: asyncio.Task[None] | None = None
        self._stopped = False

    @contextmanager
    def waiting(self, place: WorkflowPlace, wait: Wait) -> Iterator[None]:
        """Note that the branch of *place* waits for the length of the block; from its task or thread."""
        waits = place.run.waits()
        mark = waits.begin(place.branch, wait)
        try:
            self._consider(place.run)
            yield
        except KeyboardInterrupt as interrupt:
            stop_interrupted(place.run, interrupt)
            raise
        finally:
            waits.end(mark)

    def branch_ended(self, run: Run, branch: Branch, parts: Parts | None = None) -> None:
        """Count a branch of *run* less: those that are left may all be waiting."""
        run.waits().ended(branch, parts)
        if not run.ended and run.stopped is None:
            self._consider(run)

    async def stop(self) -> None:
        """Put nothing away any more; what is under way ends first."""
        self._stopped = True
        self._patient.clear()
        if self._watcher is not None:
            self._watcher.cancel()  # it sleeps
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _consider(self, run: Run) -> None:
        waits = run.waits()
        changes, whole = waits.changes, waits.together()
        if whole is None or self._stopped or self._left(whole) < self._after:
            return
        if not whole.may_end_at_any_moment:
            self._on_loop(lambda: self._begin_to_put_away(run, changes))
        else:
            self._look_later(run, changes)

    def _look_later(self, run: Run, changes: int) -> None:
        """Put *run* away if it still waits when so much time has passed; from any thread."""
        with self._lock:
            self._patient[run] = (changes, self._world.monotonic() + self._after)
            is_watched, self._is_watching = self._is_watching, True
        if not is_watched:
            self._on_loop(self._begin_watch)

    def _left(self, wait: Wait) -> float:
        return float("inf") if wait.until_ms is None else wait.until_ms / 1000 - self._now()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="holdfast-put-away")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _begin_to_put_away(self, run: Run, changes: int) -> None:
        self._begin(self._put_away(run, changes))

    def _begin_watch(self) -> None:
        if not self._stopped:
            self._watcher = self._begin(self._watch())

    async def _watch(self) -> None:
        """Put away those whose patience is over, until there are none left who wait for what may come at any moment."""
        while self._goes_on_watching():
            await self._world.sleep(self._after / _LOOKS)
            now = self._world.monotonic()
            for run, (changes, due) in list(self._patient.items()):
                if run.ended or run.waits().changes != changes:
                    self._patient.pop(run, None)
                elif now >= due:
                    self._patient.pop(run, None)
                    self._begin_to_put_away(run, changes)

    def _goes_on_watching(self) -> bool:
        """Whether anybody is left; if not, the next one who comes, from whatever thread, begins to watch anew."""
        with self._lock:
            self._is_watching = bool(self._patient)
            return self._is_watching

    async def _has_come(self, wait: Wait) -> bool:
        if wait.things and await self._have_come(wait.things):
            return True
        found = [await self._results.look(each) for each in wait.results]
        return any(row is None or WorkflowStatus(row["status"]).has_ended for row in found)

    async def _put_away(self, run: Run, changes: int) -> None:
        """Stop the execution, then write down that it waits: no step may begin that could not be recorded.

        Not if what it waits for has happened, and is about to be told: it would be woken, and put away again, for ever.
        One that is on trial is put away when it is cleared: it would not be tried alone any more.
        """
        if is_on_trial(run):
            self._look_later(run, changes)
            return
        waits = run.waits()
        whole = waits.together()
        try:
            if whole is None or await self._has_come(whole):
                return
        except DatabaseError:  # it is away: the run is put away when it is back
            self._look_later(run, changes)
            return
        if waits.changes != changes or run.stopped is not None or run.ended or self._stopped:
            return
        logger.debug("Run %s is put away; it waits for a %s.", run.id, whole.kind)
        self._runner.put_away(run, PutAway("it waits for long, and was put away"))
        try:
            await self._write(run, whole)
        finally:  # what it has left may be claimed from now on, and not before
            self._runner.let_go(run)
            self._left_queue(run.queue_name)

    async def _write(self, run: Run, whole: Wait) -> None:
        row = (run.id, run.token, whole.until_ms, whole.kind, whole)
        try:
            await self._pipeline.write(self._kind, row)
        except (Superseded, PipelineClosed, WentBack) as lost:
            logger.info("Run %s was not put away: %s", run.id, lost)
            return
        except DatabaseError as refused:  # for good: it would be begun, and refused, again and again
            await self._runner.fail(run, refused)
            return
        self._wakes.put_away(run.id, may_have_come=whole.may_end_at_any_moment)
        faults.point("run.put_away")
