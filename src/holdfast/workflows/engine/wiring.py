"""How the parts of an engine are made: each from the engine's settings and from the parts that were made before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.manager import ConnectionManager
from holdfast.stores.database import DatabaseStores
from holdfast.workflows.dead_letters.facts import ErrorLetters, GivingUp
from holdfast.workflows.facts import StartRuns
from holdfast.workflows.management.opening import open_desk
from holdfast.workflows.operations.recorder import Recorder
from holdfast.workflows.ownership.beats import Beats
from holdfast.workflows.ownership.burden import Burden
from holdfast.workflows.ownership.dispatch import Dispatch
from holdfast.workflows.ownership.outlook import Outlook
from holdfast.workflows.parking import Parker, parking_queries
from holdfast.workflows.queues import Surveys
from holdfast.workflows.running.runner import Runner
from holdfast.workflows.schedules import Firing, Ticker, schedule_queries

if TYPE_CHECKING:
    from holdfast.db.queries.queries import Queries
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.management.desk import Desk


def stores(engine: Engine) -> DatabaseStores:
    """Return the stores; they have a pipeline of their own: a large write there must not hold up a run, or a beat."""
    settings = engine.settings
    return DatabaseStores(
        engine.manager, schema=settings.schema, world=settings.world, clock_offset_ms=settings.clock_offset_ms
    )


def start_kind(engine: Engine) -> StartRuns:
    """Return the kind that starts runs as this executor's."""
    settings = engine.settings
    return StartRuns(
        engine.queries,
        application_id=settings.name,
        executor_id=settings.executor_id,
        incarnation=engine.executor.incarnation,
    )


def desk(engine: Engine) -> Desk:
    """Return the desk, which knows the functions of this process."""
    settings = engine.settings
    made = open_desk(
        engine.manager,
        settings.schema,
        engine.payloads,
        engine.versions,
        settings.world,
        settings.clock_offset_ms,
        engine.enqueues.kind,
    )
    made.schedules.functions = engine.registry.workflows
    return made


def recorder(engine: Engine) -> Recorder:
    """Return the recorder."""
    return Recorder(
        engine.pipeline, engine.payloads, engine.queries, engine.settings.world, engine.permit, engine.start_kind
    )


def parking(engine: Engine) -> Queries:
    """Return the queries of runs that are put away."""
    settings = engine.settings
    return parking_queries(engine.manager.dialect, settings.schema, clock_offset_ms=settings.clock_offset_ms)


def runner(engine: Engine) -> Runner:
    """Return what runs functions to their outcomes."""
    letters = ErrorLetters(engine.queries, engine.payloads, lambda: engine.run_letters, engine.letter_made)
    return Runner(
        engine.pipeline,
        engine.payloads,
        engine.queries,
        engine.threads,
        engine.permit,
        engine.settings.world,
        engine.deadlines,
        letters,
        due_in=engine.due_in,
        told_ended=engine.told_ended,
        on_loop=engine.on_loop,
    )


def parker(engine: Engine, queries: Queries) -> Parker:
    """Return what puts runs away that wait for long."""
    return Parker(
        engine.pipeline,
        engine.queries,
        queries,
        engine.runner,
        engine.results,
        engine.wakes,
        engine.settings.world,
        now=engine.now,
        on_loop=engine.on_loop,
        have_come=engine.communication.bells.have_come,
        left=engine.left_queue,
        after=engine.settings.put_away_after,
    )


def ticker(engine: Engine) -> Ticker:
    """Return what fires the slots of schedules."""
    settings = engine.settings
    queries = schedule_queries(engine.manager.dialect, settings.schema, clock_offset_ms=settings.clock_offset_ms)
    firing = Firing(
        engine.manager, queries, engine.payloads, settings.world, engine.enqueues.kind, engine.desk.control.cancelling
    )
    return Ticker(firing, settings.world, engine.work_released, engine.cancelled)


def beats(engine: Engine) -> Beats:
    """Return the beat, with a connection of its own, which gives up on anything well within a lease."""
    settings, third = engine.settings, engine.settings.lease / 3
    own = {
        "pool_size": 1,
        "connect_timeout": min(settings.connection["connect_timeout"], third),
        "command_timeout": third,
        "busy_timeout": third,
    }
    manager = ConnectionManager(settings.url, world=settings.world, **{**settings.connection, **own})
    patience = float(settings.connection["connect_timeout"])
    return Beats(engine.executor, manager, engine.queries, engine, engine.permit, settings.world, patience=patience)


def dispatch(engine: Engine) -> Dispatch:
    """Return what looks for work."""
    settings = engine.settings
    giving_up = GivingUp(
        engine.manager,
        engine.queries,
        engine.payloads,
        engine.registry,
        lambda: engine.run_letters,
        engine.letter_made,
    )
    outlook = Outlook(
        Surveys(engine.desk.queues, engine.listens),
        engine.deadlines,
        engine.wakes,
        settings.world,
        engine.wakeups,
        engine.ticker.heard,
    )
    return Dispatch(
        engine.executor,
        [engine.executor.application_version, *settings.compatible_versions],
        engine.desk.queues,
        engine.queries,
        engine.registry,
        engine.runner,
        engine.threads,
        engine.permit,
        settings.world,
        outlook,
        own=engine.own,
        taken_over=engine.streams.throw_leftovers,
        give_up=giving_up.give_up,
        capacity=settings.max_runs,
        burden=Burden(settings.max_run_bytes, settings.world.monotonic, patience=settings.lease),
        hints=engine.wakeups,
    )
