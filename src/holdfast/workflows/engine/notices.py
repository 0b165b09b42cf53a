"""What the engine does when it is told something: by its beat, by a run, by another process, or by the database.

The beat tells it from a thread of its own, and so may runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import NotInitialized, Superseded
from holdfast.workflows.engine.loop import EngineLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.queries.queries import Queries
    from holdfast.workflows.engine.settings import EngineSettings
    from holdfast.workflows.facts import StartRuns
    from holdfast.workflows.messaging.communication import Communication
    from holdfast.workflows.ownership.beats import Beats
    from holdfast.workflows.ownership.dispatch import Dispatch
    from holdfast.workflows.ownership.executor import Executor
    from holdfast.workflows.parking import Wakes
    from holdfast.workflows.running.run import Run
    from holdfast.workflows.running.runner import Runner
    from holdfast.workflows.streams.feed import Feed
    from holdfast.workflows.streams.writing import Streams
    from holdfast.workflows.wakeups.wakeups import WakeUps


class EngineNotices(EngineLoop):
    """The part of an engine that takes notice."""

    settings: EngineSettings
    manager: ConnectionManager
    queries: Queries
    executor: Executor
    pipeline: Pipeline
    start_kind: StartRuns
    runner: Runner
    dispatch: Dispatch
    wakeups: WakeUps
    wakes: Wakes
    streams: Streams
    feed: Feed
    communication: Communication
    hearers: list[Callable[[], None]]
    _beats: Beats
    _written_for: str
    _began_ticking: float | None = None  # when the monotonic clock here was 0, by the database's

    def oldest_write_age(self) -> float:
        return self.pipeline.oldest_age()

    def tokens(self) -> set[str]:
        return {run.token for run in list(self.runner.running.values())}

    def not_owned(self, tokens: set[str]) -> None:
        if tokens:
            lost = [run for run in list(self.runner.running.values()) if run.token in tokens]
            for run in lost:
                self._stop_lost(run, Superseded("it was cancelled, or another executor has it"))

    def _stop_lost(self, run: Run, reason: Superseded) -> None:
        """Have a run go no further: its threads at once, which the next beat lets go on, its task on the loop."""
        if not run.ended:
            run.stop(reason)
            self.on_loop(partial(self.runner.stop, run, reason))

    def cancelled(self, ids: list[str]) -> None:
        """Stop the runs of this executor that have been cancelled; on the loop."""
        for workflow_id in ids:
            run = self.runner.running.get(workflow_id)
            if run is not None:
                self.runner.stop(run, Superseded("it was cancelled"))

    async def look_around(self) -> None:
        """Take notice at once of what was changed from here: stop what was cancelled, look for what may go on."""
        self._wake(None)
        running = self.tokens()
        if running:
            query = self.queries["runs_of_incarnation"]
            rows = await self.manager.fetch(query, incarnation=self.executor.incarnation)
            self.not_owned(running - {row["owner_xid"] for row in rows})

    def told_ended(self, workflow_id: str) -> None:
        self.streams.ended(workflow_id)
        if self.wakes.any:
            self.on_loop(partial(self.wakes.ended, workflow_id))

    def due_in(self, seconds: float) -> None:
        self.on_loop(partial(self.dispatch.wake_in, seconds))

    def forgotten(self) -> None:
        for run in list(self.runner.running.values()):
            self._stop_lost(run, Superseded("this executor was taken for gone"))

    def registered(self) -> None:
        self.start_kind.set_incarnation(self.executor.incarnation)

    def reborn(self) -> None:
        self.on_loop(partial(self._readmit, self.executor.incarnation))
        self.work_released()

    def _readmit(self, incarnation: str) -> None:
        self._written_for = incarnation
        self.pipeline.readmit()

    def went_back(self) -> None:
        """Drop what runs here, which stands on writes the database has lost, and go on as a new incarnation.

        Where a beat has found out first, and what was begun anew runs already, there is nothing to be done.
        """
        if self._written_for == self.executor.incarnation:
            self.forgotten()
        self._beats.begin_anew(self._written_for)

    def left_queue(self, queue_name: str | None) -> None:
        """Take notice that a run was put away, and has left its place in its queue; on the loop."""
        self.dispatch.left(queue_name)

    def work_released(self, queue_name: str | None = None) -> None:
        self.on_loop(partial(self._wake, queue_name))

    def hinted(self) -> None:
        """Look for work: another process has told that there is some."""
        self.feed.hint()
        self.communication.bells.look_soon()
        self.dispatch.wake()
        for hear in self.hearers:
            hear()

    def _wake(self, queue_name: str | None) -> None:
        self.dispatch.wake(queue_name)
        self.wakeups.tell()

    def wants_partition_key(self, queue_name: str) -> bool:
        """Whether a queue is known here to have partitions, as the dispatcher last read its settings."""
        queue = self.dispatch.queue(queue_name)
        return queue is not None and queue.partition_queue

    def ping(self, answer: Callable[[], None]) -> None:
        self.on_loop(answer)

    def database_time(self, now_ms: int) -> None:
        """Go by the database's clock from here on; in a test's own world, whose time the test moves, only once."""
        world = self.settings.world
        if self._began_ticking is None or not getattr(world, "for_one_loop", False):
            self._began_ticking = now_ms / 1000 - world.monotonic()

    def now(self) -> float:
        """Return the database's time in seconds since the epoch: timers follow it.

        It goes on from the last beat's answer by the monotonic clock: whoever sets this machine's clock between two
        beats ends no sleep, and lengthens none.
        """
        if self._began_ticking is None:
            raise NotInitialized("The database's time is not known before the first beat.")
        return self._began_ticking + self.settings.world.monotonic()


__all__ = ["EngineNotices"]
