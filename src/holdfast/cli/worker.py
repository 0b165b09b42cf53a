"""``holdfast worker``: run the workflows of an application until somebody says stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from holdfast.cli.application import application_place, find_application
from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure, failures
from holdfast.cli.output import complain
from holdfast.cli.processes import line_to_parent, supervise, tell_parent
from holdfast.cli.reload import Watch, start_anew
from holdfast.cli.signals import BY_SIGNAL, Restart, because, heard, keep_hang_ups
from holdfast.cli.words import COUNT, duration
from holdfast.errors import HoldfastError
from holdfast.workflows.application.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from holdfast.workflows.application.application import Application
    from holdfast.workflows.application.worker import Farewell, Readiness

T = TypeVar("T")

logger = logging.getLogger("holdfast.worker")

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS = ("debug", "info", "warning", "error")

_Order = signal.Signals | Restart
_Event = _Order | Future[Any]


@click.command(
    name="worker",
    epilog=examples("worker shop.main:app", "worker shop.main:app --queues mails,reports --processes 4 --drain 2m"),
)
@click.argument("place", metavar="MODULE:APP", type=application_place)
@click.option("--queues", help="Names of queues, with commas between; by default all that are registered.")
@click.option("--drain", type=duration, default="30s", show_default=True, help="How long runs may take to end, as 30s.")
@click.option("--processes", type=COUNT, default=1, show_default=True, help="How many of them.")
@click.option("--reload", is_flag=True, help="Start anew when Python or YAML files below this folder change.")
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="Unless the module sets it."
)
def command(
    place: tuple[str, str], *, queues: str | None, drain: timedelta, processes: int, reload: bool, log_level: str
) -> None:
    """Run the workflows of the application APP in MODULE, until SIGTERM or SIGINT (Ctrl-C).

    Then nothing more is claimed, and runs have --drain to end. What still runs is handed over and goes on elsewhere. A
    second signal hands it over at once, a third leaves it to be taken over when the lease has ended. SIGHUP stops with
    the same care and starts the command anew.

    Exit codes: 0 it was told to stop and did, 2 it could not begin, 130 or 143 it was told twice,
    or before it was ready.
    """
    names = None if queues is None else _names(queues)
    parent = line_to_parent()
    if processes > 1 and parent is None:
        if reload:
            raise click.UsageError("--reload is for one process: leave out --processes.")
        logging.basicConfig(level=log_level.upper(), format=_FORMAT)
        sys.exit(supervise(processes))
    watch = Watch(Path.cwd()) if reload else None
    with failures():
        app = _application(place, watch)
        logging.basicConfig(level=log_level.upper(), format=_FORMAT)  # does nothing if the module has set it up
        _serve(Worker(app, names), drain.total_seconds(), watch, parent)


def _names(word: str) -> list[str]:
    names = [name for name in (each.strip() for each in word.split(",")) if name]
    if not names:
        raise click.UsageError("--queues names no queue: leave it out to serve all, or write --queues mails,reports.")
    return names


def _application(place: tuple[str, str], watch: Watch | None) -> Application:
    """Return the application. If its files are watched, one that cannot be had is waited for."""
    try:
        return find_application(*place)
    except (Failure, HoldfastError) as error:
        if watch is None:
            raise
        complain(str(error))
        _start_after_a_change(watch)


def _start_after_a_change(watch: Watch) -> NoReturn:
    complain("Waiting for a change.")
    watch.wait()
    start_anew()


def _serve(worker: Worker, drain: float, watch: Watch | None, parent: int | None) -> None:
    """Launch, wait for somebody to say stop, stop; the main thread waits for events and does nothing else."""
    events: SimpleQueue[_Event] = SimpleQueue()
    hands = ThreadPoolExecutor(1, "holdfast-hands")
    with heard(events):
        _tell_ready(_launched(worker, events, hands))
        if parent is not None:
            tell_parent(parent, partial(events.put, signal.SIGTERM))
        if watch is not None:
            watch.tell(partial(events.put, Restart.CHANGED))
        reason = _order(events)
        logger.info("Stopping: %s. Runs have %g s to end.", because(reason), drain)
        stopped = _begin(events, hands, partial(worker.stop, drain))
        reason, code = _patient(worker, events, stopped, reason)
        farewell = stopped.result()
        begins_again = isinstance(reason, Restart) and parent is None  # a child is started anew by its parent
        if begins_again:
            keep_hang_ups()
    _tell_stopped(farewell)
    if begins_again:
        start_anew()
    if farewell.stuck:
        logger.warning("A step that cannot be interrupted still runs. Its run was handed over; leaving without it.")
        _leave(code)
    sys.exit(code)


def _launched(worker: Worker, events: SimpleQueue[_Event], hands: ThreadPoolExecutor) -> Readiness:
    launched = _begin(events, hands, worker.launch)
    event = events.get()
    while event is not launched:
        if isinstance(event, signal.Signals):
            _leave(BY_SIGNAL + event)  # nothing runs yet
        event = events.get()
    return launched.result()


def _order(events: SimpleQueue[_Event]) -> _Order:
    while isinstance(event := events.get(), Future):
        pass
    return event


def _patient(
    worker: Worker, events: SimpleQueue[_Event], stopped: Future[Farewell], reason: _Order
) -> tuple[_Order, int]:
    """Wait until the worker has stopped; return why it did, and the exit code."""
    code = 0
    while (event := events.get()) is not stopped:
        if not isinstance(event, signal.Signals):
            continue
        if isinstance(reason, Restart):
            reason = event
            logger.info("Not starting anew: %s.", because(event))
        elif code == 0:
            code = BY_SIGNAL + event
            logger.warning("Handing over at once: %s again.", event.name)
            worker.hurry()
        else:
            logger.warning("Leaving at once: others go on when the lease has ended.")
            _leave(BY_SIGNAL + event)
    return reason, code


def _begin(events: SimpleQueue[_Event], hands: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    """Have *work* done by another thread; its future is an event when it is done."""
    begun = hands.submit(work)
    begun.add_done_callback(events.put)
    return begun


def _leave(code: int) -> NoReturn:
    """End the process although threads still run."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _tell_ready(ready: Readiness) -> None:
    logger.info(
        "Ready: executor %s (%s), version %s, queues %s, database %s",
        ready.executor_id,
        ready.incarnation,
        ready.application_version,
        ", ".join(ready.queues) or "none yet",
        ready.database,
    )
    if ready.workflows == 0:
        logger.warning("The application has no workflows, so nothing is begun here: import the modules they are in.")
    for name in ready.missing:
        logger.warning("The queue %s is not registered. It is served as soon as it is.", name)


def _tell_stopped(farewell: Farewell) -> None:
    logger.info("Stopped: %s runs ended, %s go on elsewhere.", farewell.ended, farewell.elsewhere)


__all__ = ["command"]
