"""An application served by a process of its own: launched, and stopped with patience or at once."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.db.portal import Portal
from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.workflows.application.application import Application
    from holdfast.workflows.running.run import Outcome

_LOOK_AGAIN = 0.02
_PATIENCE_WITH_THREADS = 2.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a worker serves, and as whom; *missing* are the queues it was told to serve that nobody has registered.

    *workflows* is how many the application has: none if the modules that declare them were not imported.
    """

    executor_id: str
    incarnation: str
    application_version: str
    database: str
    queues: list[str]
    missing: list[str]
    workflows: int


@dataclass(frozen=True, slots=True)
class Farewell:
    """What became of the runs that were under way when the worker was told to stop.

    *stuck* if the loop has a thread that cannot be interrupted and still runs: such a process ends only by force.
    """

    ended: int
    elsewhere: int
    stuck: bool


class Worker:
    """Does what ``launch()`` and ``close()`` do, on a loop in a thread of its own: the main thread is free for signals.

    *queues* are those to claim from; None for every one that is registered, at any time.
    """

    def __init__(self, app: Application, queues: Iterable[str] | None = None) -> None:
        self._engine = app._engine  # noqa: SLF001 -- the worker stands in the place of the application's own life
        refuse_launched(app)
        if queues is not None:
            app.listen_queues(queues)
        self._portal = Portal("holdfast-worker")
        self._at_once = asyncio.Event()
        self._outcomes: list[Outcome] = []

    def launch(self) -> Readiness:
        """Open the database, bring its tables up to date, and begin to run workflows."""
        self._portal.start()
        try:
            return self._portal.call(self._launch())
        except BaseException:
            self._portal.stop()
            raise

    def stop(self, drain: float) -> Farewell:
        """Claim nothing more, let runs end for *drain* seconds, hand over the rest, and close the database."""
        under_way = self._portal.call(self._stop(drain))
        ended = sum(not outcome.elsewhere for outcome in list(self._outcomes))
        # The loop's end waits for threads of its own (asyncio.to_thread) that steps have begun. Their runs are handed
        # over: nobody needs the result.
        last = threading.Thread(target=self._portal.stop, name="holdfast-last", daemon=True)
        last.start()
        last.join(_PATIENCE_WITH_THREADS)
        return Farewell(ended, under_way - ended, stuck=last.is_alive())

    def hurry(self) -> None:
        """Have ``stop``, which another thread is in, hand over at once what still runs."""
        self._engine.on_loop(self._at_once.set)

    async def _launch(self) -> Readiness:
        engine = self._engine
        await engine.launch()
        registered = [queue.name for queue in await engine.desk.queues.all()]
        served = registered if engine.listens is None else sorted(engine.listens)
        return Readiness(
            engine.executor.executor_id,
            engine.executor.incarnation,
            engine.executor.application_version,
            engine.manager.url.safe,
            served,
            [name for name in served if name not in registered],
            len(engine.registry.workflows),
        )

    async def _stop(self, drain: float) -> int:
        left = list(self._engine.runner.running.values())
        for run in left:
            run.watch(self._outcomes.append)
        hasty = asyncio.create_task(self._hand_over_when_told(), name="holdfast-hand-over")
        try:
            await self._engine.close(drain)
        finally:
            hasty.cancel()
            await asyncio.gather(hasty, return_exceptions=True)
        return len(left)

    async def _hand_over_when_told(self) -> None:
        """Give back what runs, again and again until closed: a claim under way may still begin runs."""
        await self._at_once.wait()
        runner, world = self._engine.runner, self._engine.settings.world
        while True:
            # A run that was taken over meanwhile, and a database that is away, change nothing: each is let go of.
            running = [run for run in list(runner.running.values()) if not run.ended]
            await asyncio.gather(*(runner.hand_over(run) for run in running), return_exceptions=True)
            await world.sleep(_LOOK_AGAIN)


def refuse_launched(app: Application) -> None:
    """Raise for an application that a command is to launch, and that its own module has launched."""
    if app._engine.launched:  # noqa: SLF001 -- see Worker
        raise MisuseError(
            "The application was launched when its module was imported: launch it only where the module is the "
            'program, below `if __name__ == "__main__":`.'
        )


__all__ = ["Farewell", "Readiness", "Worker", "refuse_launched"]
