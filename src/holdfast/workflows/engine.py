"""The engine: one application's runs in this process. Wires the rooms, starts runs, waits for their outcomes.

It lives on one event loop. Methods whose names end in ``_blocking`` are for threads that may wait.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import faults
from holdfast.core.version import DEFAULT_VERSION
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations import Migrator
from holdfast.db.pipeline import Pipeline
from holdfast.errors import (
    ConfigurationError,
    MisuseError,
    NotInitialized,
    Superseded,
    WorkflowConflict,
)
from holdfast.model.workflow import StartOptions, seconds
from holdfast.model.world import RealWorld, World
from holdfast.workflows.beats import Beats, Identity
from holdfast.workflows.dispatch import Dispatch
from holdfast.workflows.durable import Durable
from holdfast.workflows.facts import STARTED, Existing, StartRuns
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.permit import Permit
from holdfast.workflows.place import refuse_closed_attempt
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.recorder import Recorder
from holdfast.workflows.registry import Registry
from holdfast.workflows.results import Results
from holdfast.workflows.run import LONGEST_ID, Outcome, Run
from holdfast.workflows.runner import Runner
from holdfast.workflows.steps import Attempts
from holdfast.workflows.threads import WorkflowThreads
from holdfast.workflows.ticket import Call, Ticket
from holdfast.workflows.versions import Versions
from holdfast.workflows.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from holdfast.db.operation import Values
    from holdfast.serialize import Serialization
    from holdfast.workflows.place import WorkflowPlace
    from holdfast.workflows.registry import StepDefinition

T = TypeVar("T")

logger = logging.getLogger("holdfast.workflows")

_SHORTEST_TIMEOUT = 1.0

_NOT_LAUNCHED = "The application is not launched; call launch(), or use it in a with block."


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an application says once about its engine."""

    url: str
    name: str
    executor_id: str
    application_version: str | None
    compatible_versions: Sequence[str]
    lease: float
    schema: str
    serialization: Serialization
    max_workflow_threads: int
    max_runs: int
    connection: dict[str, Any] = field(default_factory=dict)
    world: World = field(default_factory=RealWorld)
    clock_offset_ms: str | None = None


class Engine:
    """Everything that runs for one application in one process."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.registry = Registry()
        self.payloads = Payloads(settings.serialization)
        self.threads = WorkflowThreads(settings.max_workflow_threads)
        self.permit = Permit(settings.world)
        self.attempts = Attempts(settings.world, self.permit)
        self.waiting = Waiting(self)
        self._launched = False
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._clock_offset = 0.0

    @property
    def launched(self) -> bool:
        """Whether runs can go on here: from launch until what still ran has been handed over."""
        return self._launched

    def check_launched(self) -> None:
        """Raise unless runs can be started or looked at here."""
        if not self._launched:
            raise NotInitialized(_NOT_LAUNCHED)

    async def launch(self) -> None:
        """Open the database, bring its tables up to date, register, and begin to look for work."""
        if self._launched:
            return
        settings = self.settings
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
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
        self._dispatch.start()

    async def _open(self, schema: str) -> None:
        await self._migrate(schema)
        await self.manager.initialize()
        version = self._version()
        self.versions = Versions(self.manager, self.queries, self.settings.world)
        self.identity = Identity(self.settings.executor_id, version, self.settings.world.new_id(), self.settings.lease)
        await self.versions.register(version)
        self._wire()
        await self.pipeline.open()
        await asyncio.to_thread(self._beats.start)

    async def _migrate(self, schema: str) -> None:
        """Bring the tables up to date, through connections that may take their time."""
        patient = ConnectionManager(self.settings.url, world=self.settings.world, **self.settings.connection)
        try:
            await Migrator(patient, schema=schema, create_database=True).migrate()
        finally:
            await patient.close()

    def _wire(self) -> None:
        settings, world = self.settings, self.settings.world
        self.pipeline = Pipeline(self.manager)
        self.start_kind = StartRuns(
            self.queries,
            application_id=settings.name,
            executor_id=settings.executor_id,
            incarnation=self.identity.incarnation,
        )
        self.recorder = Recorder(self.pipeline, self.payloads, self.queries, world, self.permit, self.start_kind)
        self.runner = Runner(self.pipeline, self.payloads, self.queries, self.threads, self.permit)
        self.results = Results(self.manager, self.queries, world)
        self.durable = Durable(self)
        beat_manager = ConnectionManager(
            settings.url,
            world=world,
            **{
                **settings.connection,
                "pool_size": 1,
                "connect_timeout": min(settings.connection["connect_timeout"], settings.lease / 3),
                "command_timeout": settings.lease / 3,
                "busy_timeout": settings.lease / 3,
            },
        )
        self._beats = Beats(self.identity, beat_manager, self.queries, self, self.permit, world)
        self._dispatch = Dispatch(
            self.identity,
            [self.identity.application_version, *settings.compatible_versions],
            self.manager,
            self.queries,
            self.registry,
            self.runner,
            self.permit,
            world,
            self.own,
            capacity=settings.max_runs,
        )

    def own(self, run: Run) -> None:
        """Make a claimed run one of this engine's."""
        run.engine = self

    def _version(self) -> str:
        if self.settings.application_version is not None:
            return self.settings.application_version
        version = self.registry.version()
        if version is None:
            logger.warning(
                "The sources of the workflows are not to be had, so the application version is %s; "
                "set application_version= to tell releases apart.",
                DEFAULT_VERSION,
            )
        return version or DEFAULT_VERSION

    async def close(self, drain: float = 0.0) -> None:
        """Stop claiming, let runs end for *drain* seconds, hand the rest over, sign off, close the database."""
        if not self._launched or self._closing:
            return
        self._closing = True
        await self._dispatch.stop()
        await self._drained(drain)
        self._launched = self._closing = False
        with suppress(TimeoutError):  # the database is away: what is not handed over is released when it is back
            async with asyncio.timeout(self.settings.lease):
                await asyncio.gather(*(self._give_back(run) for run in list(self.runner.running.values())))
        await self.results.stop()
        await asyncio.to_thread(self._beats.stop)
        await self.pipeline.close()
        await self.manager.close()

    async def _give_back(self, run: Run) -> None:
        try:
            await self.runner.hand_over(run)
        except Superseded:
            logger.info("Run %s had been taken over already.", run.id)

    async def _drained(self, limit: float) -> None:
        done = asyncio.get_running_loop().create_future()
        left = list(self.runner.running.values())
        count = len(left)

        def tell(_: Outcome) -> None:
            nonlocal count
            count -= 1
            if count == 0:
                self.on_loop(lambda: None if done.done() else done.set_result(None))

        for run in left:
            run.watch(tell)
        if left and limit > 0:
            await asyncio.wait([done], timeout=limit)

    # What the beat asks, from its own thread.

    def oldest_write_age(self) -> float:
        return self.pipeline.oldest_age()

    def tokens(self) -> set[str]:
        return {run.token for run in list(self.runner.running.values())}

    def forgotten(self) -> None:
        for run in list(self.runner.running.values()):
            self.on_loop(partial(self.runner.stop, run, Superseded("this executor was taken for gone")))

    def reborn(self) -> None:
        self.start_kind.set_incarnation(self.identity.incarnation)
        self.work_released()

    def work_released(self) -> None:
        self.on_loop(self._dispatch.wake)

    def ping(self, answer: Callable[[], None]) -> None:
        self.on_loop(answer)

    def loop_thread(self) -> int:
        return self._thread

    def database_time(self, now_ms: int) -> None:
        self._clock_offset = now_ms / 1000 - self.settings.world.now()

    def now(self) -> float:
        """Return the database's time in seconds since the epoch, as of the last beat: timers follow it."""
        return self.settings.world.now() + self._clock_offset

    def is_loop_thread(self) -> bool:
        """Whether the calling code runs on the engine's own event loop."""
        return threading.get_ident() == self._thread

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop the engine lives on."""
        if self._loop is None:
            raise NotInitialized(_NOT_LAUNCHED)
        return self._loop

    def ask_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and wait for it on this thread."""
        if self.is_loop_thread():
            work.close()
            raise MisuseError("A blocking call was made on the event loop, where it would wait for itself.")
        try:
            reply = asyncio.run_coroutine_threadsafe(work, self.loop())
        except RuntimeError:
            work.close()
            raise NotInitialized(_NOT_LAUNCHED) from None
        return reply.result()

    def on_loop(self, call: Callable[[], None]) -> bool:
        """Run *call* on the loop, now if this is its thread; False if the loop has ended, and with it all who wait."""
        if threading.get_ident() == self._thread:
            call()
            return True
        try:
            self.loop().call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True

    # Starting runs.

    def start_row(self, run: Run, options: StartOptions, inputs: str, format_: str) -> Values:
        """Return the row of ``run_start``."""
        definition = run.definition
        timeout_ms = None if options.timeout is None else int(seconds(options.timeout) * 1000)
        deadline = None if timeout_ms is None else int(self.now() * 1000) + timeout_ms
        roles = (
            None if options.authenticated_roles is None else self.payloads.dump_open(list(options.authenticated_roles))
        )
        return (
            run.id,
            definition.name,
            _class_name(run),
            getattr(run.instance, "config_name", None) if definition.binds == "instance" else None,
            inputs,
            format_,
            run.token,
            run.parent_id,
            self.payloads.mark(definition.name, run.arguments, run.keywords),
            timeout_ms,
            deadline,
            None if options.attributes is None else self.payloads.dump_open(dict(options.attributes)),
            options.authenticated_user,
            options.assumed_role,
            roles,
            options.application_version or self.identity.application_version,
        )

    def prepare(self, call: Call, *, run_id: str | None = None, parent_id: str | None = None) -> tuple[Run, Values]:
        """Make the run and its row; refuse what cannot be stored before anything is written."""
        definition, options = call.definition, call.options
        self.check_launched()
        chosen = options.workflow_id if options.workflow_id is not None else run_id or self.settings.world.new_id()
        _check_id(chosen)
        inputs, format_ = self.payloads.dump_call(call.arguments, call.keywords)
        run = Run(definition, chosen, self.settings.world.new_id(), (), {}, parent_id=parent_id)
        # The function gets its arguments as a recovered run would get them: from the record.
        run.arguments, run.keywords = definition.codec.load_call(inputs, format_)
        run.instance = call.instance
        run.engine = self
        return run, self.start_row(run, options, inputs, format_)

    async def start_and_wait(self, call: Call) -> Outcome:
        """Start a run and wait for its outcome."""
        return await self.waiting.outcome(await self.start(call))

    async def start(self, call: Call) -> Ticket:
        """Start a run in the background, or attach to the one that has its id."""
        self._refuse_start()
        run, row = self.prepare(call)
        outcome = await self.pipeline.write(self.start_kind, row)
        if outcome is not STARTED:
            return self.attach(run, row, outcome, call.options)
        faults.point("run.started")
        self.runner.launch(run)
        return Ticket(run.id, run.codec, run)

    def start_blocking(self, call: Call, *, here: bool = False) -> Ticket:
        """Do as ``start`` from a thread; with *here* a sync run is carried to its end on this thread."""
        self._refuse_start()
        run, row = self.prepare(call)
        outcome = self.pipeline.write_blocking(self.start_kind, row)
        if outcome is not STARTED:
            return self.attach(run, row, outcome, call.options)
        faults.point("run.started")
        if here and not call.definition.is_async:
            self.runner.execute_blocking(run)
        else:
            self.on_loop(lambda: self.runner.launch(run))
        return Ticket(run.id, run.codec, run)

    def _refuse_start(self) -> None:
        """Refuse new runs when closing, but not the children of those that have time to end; and a closed attempt's."""
        if self._closing:
            raise NotInitialized("The application is closing and starts no more runs; launch() it again.")
        refuse_closed_attempt()

    def attach(self, run: Run, row: Values, outcome: Any, options: StartOptions) -> Ticket:
        """Return a ticket for the run that has the id, if it is the same call, or if the policy does not mind."""
        if not isinstance(outcome, Existing):
            raise outcome
        there = outcome.row
        same = there["name"] == row[1] and there["config_name"] == row[3]
        if options.on_conflict == "reject" and not (same and there["fingerprint"] == row[8]):
            what = "with other arguments" if same else f"of {there['name']!r}"
            raise WorkflowConflict(
                f"The id {run.id!r} belongs to a run {what} ({there['status']}). Choose another workflow_id, or pass "
                'on_conflict="return_existing" to get that run.'
            )
        return Ticket(run.id, run.codec, self.runner.running.get(run.id))

    # Steps of either colour.

    async def run_step(
        self,
        place: WorkflowPlace | None,
        step: StepDefinition,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Do a step of either colour from async code; a sync function runs on a thread."""
        if not step.is_async:
            step = replace(step, function=partial(_on_thread, step.function), is_async=True)
        if place is None:
            return await step.function(*arguments, **keywords)
        return await self.durable.step(place, step, arguments, keywords)

    def run_step_blocking(
        self,
        place: WorkflowPlace | None,
        step: StepDefinition,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Do a step of either colour from a thread; an async function runs on the loop."""
        function = step.function

        def call(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            return self.ask_blocking(_awaited(made)) if inspect.isawaitable(made) else made

        if place is None:
            return call(*arguments, **keywords)
        return self.durable.step_blocking(place, replace(step, function=call), arguments, keywords)

    async def status(self, workflow_id: str) -> Any:
        """Return the run's row as it is now, or None."""
        return await self.results.look(workflow_id)


async def _on_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = await asyncio.to_thread(function, *args, **kwargs)
    return await made if inspect.isawaitable(made) else made


async def _awaited(made: Awaitable[T]) -> T:
    return await made


def _class_name(run: Run) -> str | None:
    """Return the class that a recovery has to look for: that of the object, which may inherit the method."""
    match run.definition.binds:
        case "class":
            name: str = run.instance.__qualname__
        case "instance":
            name = type(run.instance).__qualname__
        case _:
            return run.definition.class_name
    return name


def _check_id(workflow_id: str) -> None:
    if not 0 < len(workflow_id) <= LONGEST_ID or "\0" in workflow_id or not _is_unicode(workflow_id):
        raise ConfigurationError(
            f"A workflow_id has 1 to {LONGEST_ID} Unicode characters and no NUL; this one has {len(workflow_id)}."
        )


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
