"""The engine: one application's runs in this process. Wires its parts together, opens and closes them.

It lives on one event loop. Methods whose names end in ``_blocking`` are for threads that may wait.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.outlast import outlast
from holdfast.db.pipeline.pipeline import Pipeline
from holdfast.db.process import this_process
from holdfast.errors import ConfigurationError, MisuseError, NotInitialized
from holdfast.workflows.application.versions import Versions, version_here
from holdfast.workflows.dead_letters.wiring import EngineLetters
from holdfast.workflows.declaring.registry import Registry
from holdfast.workflows.engine import wiring
from holdfast.workflows.engine.ending import Ending
from holdfast.workflows.engine.loop import NOT_LAUNCHED
from holdfast.workflows.engine.notices import EngineNotices
from holdfast.workflows.enqueueing.enqueues import Enqueues
from holdfast.workflows.messaging.communication import Communication
from holdfast.workflows.operations.durable import Durable
from holdfast.workflows.operations.patches import Patches
from holdfast.workflows.operations.place import WorkflowPlace, here
from holdfast.workflows.operations.steps import Attempts
from holdfast.workflows.outbox.premises import Premises
from holdfast.workflows.ownership.executor import Executor
from holdfast.workflows.ownership.permit import Permit
from holdfast.workflows.parking import Wakes
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.retention import RETENTION_INTERVAL, PruneRounds
from holdfast.workflows.running.deadlines import Deadlines
from holdfast.workflows.running.results import Results
from holdfast.workflows.running.starts import Starts
from holdfast.workflows.running.threads import WorkflowThreads
from holdfast.workflows.running.waiting import Waiting
from holdfast.workflows.schedules.declared import Declared
from holdfast.workflows.streams.feed import Feed
from holdfast.workflows.streams.recorded import StreamReads
from holdfast.workflows.streams.writing import Streams
from holdfast.workflows.transactions import Homes
from holdfast.workflows.wakeups.wakeups import wakeups_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.model.workflow import Duration
    from holdfast.workflows.application.guards import Guards
    from holdfast.workflows.engine.settings import EngineSettings
    from holdfast.workflows.retention import Retention
    from holdfast.workflows.running.run import Run

T = TypeVar("T")

logger = logging.getLogger("holdfast.workflows")

_SHORTEST_TIMEOUT = 1.0
_LONGEST_FLUSH = 30.0


class Engine(EngineNotices, EngineLetters):
    """Everything that runs for one application in one process."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__()
        self.settings = settings
        self.registry = Registry()
        self.payloads = Payloads(settings.serialization)
        self._begin()
        self.starts = Starts(self)
        self.waiting = Waiting(self)
        self.transactions = Homes(self)
        self.stream_reads = StreamReads(self)
        self._launched = False
        self._ending: Ending | None = None
        self._closers: set[str] = set()  # runs whose code has asked for that
        self._pid = this_process.pid
        self.listens: frozenset[str] | None = None  # the queues to claim from; None for every one that is registered
        self.retention: tuple[Retention, ...] = ()
        self.retention_interval: Duration = RETENTION_INTERVAL
        self.declared = Declared(self.registry)
        self.hearers: list[Callable[[], None]] = []  # called for every hint from another process

    def _begin(self) -> None:
        """Make what is a process's own even before it is launched: it has locks, and counts threads."""
        settings = self.settings
        self._door = asyncio.Lock()  # one launch at a time
        self.threads = WorkflowThreads(settings.max_workflow_threads)
        self.permit = Permit(settings.world)
        self.attempts = Attempts(settings.world, self.permit, self.threads)
        self.enqueues = Enqueues(self)
        self.streams = Streams(self)

    @cached_property
    def guards(self) -> Guards:
        """The breakers of this application and what protects its functions."""
        from holdfast.workflows.application.guards import Guards  # noqa: PLC0415 -- what is not used is not loaded

        return Guards(self)

    @property
    def launched(self) -> bool:
        """Whether runs can go on here: from launch until what still ran has been handed over."""
        return self._launched and self._pid == this_process.pid

    @property
    def closing(self) -> bool:
        """Whether the engine is closing, and what runs is given time to end."""
        return self._launched and self._ending is not None

    def check_launched(self, otherwise: str = NOT_LAUNCHED) -> None:
        """Raise unless runs can be started or looked at here."""
        if not self._launched:
            place = here.get()
            if isinstance(place, WorkflowPlace) and place.run.engine is self:
                place.check()  # the run was stopped with it, of which its code makes no outcome, nor another try
            raise NotInitialized(otherwise)
        if self._pid != this_process.pid:
            raise MisuseError("The application was launched before a fork, by the parent: launch() it in this process.")

    async def launch(self) -> None:
        """Open the database, bring its tables up to date, register, and begin to look for work."""
        self.forget_parent()
        if self._launched or self._door.locked():
            self.refuse_other_loop()
        async with self._door:
            if self._ending is not None:
                await self._ending.over()
            if not self._launched:
                await self._launch()

    async def _launch(self) -> None:
        settings = self.settings
        _refuse_greenlets()
        self.live_here()
        # Client timeouts are shorter than the lease, so that a conversation that hangs is given up while the executor
        # still owns its runs; and no pause of this process holds rows that its successor needs.
        self.manager = ConnectionManager(
            settings.url,
            world=settings.world,
            command_timeout=max(_SHORTEST_TIMEOUT, settings.lease * 2 / 3),
            longest_pause=settings.lease,
            **settings.connection,
        )
        if self.manager.url.in_memory:
            raise ConfigurationError(
                "A SQLite database in memory cannot hold durable runs: it ends with the process, and the beat of the "
                "executor has a connection of its own. Name a file: sqlite:///app.sqlite."
            )
        schema = settings.schema
        self.queries = workflow_queries(self.manager.dialect, schema, clock_offset_ms=settings.clock_offset_ms)
        try:
            await self._open(schema)
        except BaseException:
            await self.manager.close()
            raise
        self._launched = True
        self.ticker.start()
        self.dispatch.start()
        self._prune_rounds.start()
        try:
            await self.wakeups.start()
        except BaseException:  # whoever launches it will not close what they take for closed
            await outlast(self.close())
            raise
        self.start_replays()

    async def _open(self, schema: str) -> None:
        await self._migrate(schema)
        await self.manager.initialize()
        version = version_here(self.settings, self.registry)
        self.versions = Versions(self.manager, self.queries, self.settings.world)
        self.executor = Executor(
            self.settings.executor_id,
            version,
            self.settings.world.new_id(),
            self.settings.lease,
            self.listens or frozenset(),
        )
        await self.versions.register(version, self.registry.workflows)
        self.premises = Premises(self.manager, self.queries)
        await self.premises.open()
        self._wire()
        await self.declared.declare(self.desk, version)
        await self.pipeline.open(connected=True)
        await self.stores.open()
        await self._beats.start()

    async def _migrate(self, schema: str) -> None:
        """Bring the tables up to date, through connections that may take their time."""
        patient = ConnectionManager(self.settings.url, world=self.settings.world, **self.settings.connection)
        try:
            await Migrator(patient, schema=schema, create_database=True).migrate()
        finally:
            await patient.close()

    def _wire(self) -> None:
        """Put the parts together: what is written and asked, what runs, and what looks for work and for the others."""
        self._wire_writing()
        self._wire_running()
        self._wire_looking()

    def _wire_writing(self) -> None:
        self.pipeline = Pipeline(self.manager, went_back=self.went_back)
        self._written_for = self.executor.incarnation  # whose writes the pipeline has acknowledged last
        self.stores = wiring.stores(self)
        self.start_kind = wiring.start_kind(self)
        self.desk = wiring.desk(self)
        self.recorder = wiring.recorder(self)
        self.results = Results(self.manager, self.queries, self.settings.world)
        self.feed = Feed(self.manager, self.streams.queries, self.settings.world, lambda: self.wakeups.alive)

    def _wire_running(self) -> None:
        parking = wiring.parking(self)
        self.communication = Communication(self, parking)
        self.deadlines = Deadlines(self.desk.control, self.settings.world, self.now, self.on_loop, self.cancelled)
        self.runner = wiring.runner(self)
        self.wakes = Wakes(self.manager, parking, self.work_released)
        self.parker = wiring.parker(self, parking)
        self.durable = Durable(self)
        self.patches = Patches(self)

    def _wire_looking(self) -> None:
        settings, world = self.settings, self.settings.world
        self._prune_rounds = PruneRounds(self.desk.pruner, self.retention, world, interval=self.retention_interval)
        self.wakeups = wakeups_for(self.manager, settings.schema, world, self.hinted, enabled=settings.notify)
        self.ticker = wiring.ticker(self)
        self._beats = wiring.beats(self)
        self.dispatch = wiring.dispatch(self)

    def own(self, run: Run) -> None:
        """Make a claimed run one of this engine's."""
        run.engine = self

    async def close(self, drain: float = 0.0) -> None:
        """Stop claiming, let runs end for *drain* seconds, hand the rest over, sign off, close the database.

        A caller that is cancelled ends the drain, not the closing; a second call waits for the end of the first.
        """
        self.forget_parent()
        if self._launched:
            self.refuse_while_its_loop_runs()
        if self._launched and self._ending is None:
            self._ending = Ending(self._parts)
        if self._ending is not None:
            place = here.get()
            if place is not None:  # this code waits for the closing, which must not wait for it
                self._closers.add(place.run.id)
            with self.forgiving_a_dead_loop():
                await self._ending.within(drain)

    def _parts(self, no_more_time: asyncio.Future[None]) -> list[Callable[[], Awaitable[object]]]:
        """Return how the parts end, in the order in which they do."""
        return [
            self.wakeups.stop,
            self.stop_replays,
            self.ticker.stop,
            self.dispatch.stop,
            self._prune_rounds.stop,
            partial(self.runner.drained, no_more_time),
            self.deadlines.stop,
            self.parker.stop,
            self.wakes.stop,
            self._give_back_all,
            self._let_clean_up,
            self.results.stop,
            self.communication.bells.stop,
            self.feed.stop,
            self._beats.stop,
            self.transactions.close,
            self._stop_guards,
            self.stores.close,
            partial(self.pipeline.close, min(self.settings.lease, _LONGEST_FLUSH)),  # a database away is away for both
            self.manager.close,
            self._forget,
        ]

    async def _give_back_all(self) -> None:
        self.runner.stop_all()  # before their code learns that it has no engine
        self._launched = False
        with suppress(TimeoutError):  # the database is away: what is not handed over is released when it is back
            async with asyncio.timeout(self.settings.lease):
                await self.runner.give_back_all()

    async def _let_clean_up(self) -> None:
        await self.runner.cleaned_up(min(self.settings.lease, _LONGEST_FLUSH), self._closers)

    async def _stop_guards(self) -> None:
        if "guards" in self.__dict__:
            await self.guards.close()

    async def _forget(self) -> None:
        """Let go of what stood on the connections."""
        self.streams.stop()
        self.hearers.clear()
        self._closers.clear()
        self.forget_letters()
        self._ending = None

    def forget_parent(self) -> None:
        """Be as before the first launch in a process that was forked: what its parent has open is not used here.

        Nor is it freed, which would close it: the two share every descriptor, and what their loops wait for. Locks that
        a thread of the parent held are held for ever. Code that is in one of its runs goes no further in it: two would
        write with one token.
        """
        if self._pid == this_process.pid:
            return
        this_process.inherited.append(dict(self.__dict__))
        self._pid = this_process.pid
        self._launched, self._ending = False, None
        self.live_nowhere()
        for run in self.runner.running.values() if "runner" in self.__dict__ else ():
            run.disown()
        self._begin()
        self.hearers.clear()
        self.transactions.forget()
        if "guards" in self.__dict__:
            self.guards.forget()
        self.forget_letters()
        self.settings.world.random.seed()


def _refuse_greenlets() -> None:
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise ConfigurationError(
            "gevent has put greenlets in the place of threads in this process, and of several event loops on one "
            "thread only one can run: launch the application in a process that gevent has not patched."
        )
