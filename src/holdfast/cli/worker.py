"""``holdfast worker``: run the workflows of an application until somebody says stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from holdfast.cli.application import application_place, find_application
from holdfast.cli.failure import Failure, failures
from holdfast.cli.output import complain
from holdfast.cli.reload import Watch, start_anew
from holdfast.cli.words import duration
from holdfast.errors import HoldfastError
from holdfast.workflows.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from holdfast.workflows.application import Application
    from holdfast.workflows.worker import Farewell, Readiness

T = TypeVar("T")

logger = logging.getLogger("holdfast.worker")

_BY_SIGNAL = 128
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS = ("debug", "info", "warning", "error")


class _Restart(Enum):
    """Why a worker stops only to begin again."""

    HANGUP = auto()
    CHANGED = auto()


_Event = signal.Signals | _Restart | Future[Any]


@click.command(name="worker")
@click.argument("place", metavar="MODULE:APP", type=application_place)
@click.option("--queues", help="Names of queues, with commas between; by default all that are registered.")
@click.option("--drain", type=duration, default="30s", show_default=True, help="How long runs may take to end.")
@click.option("--reload", is_flag=True, help="Start anew when Python or YAML files below this folder change.")
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="Unless the module sets it."
)
def command(place: tuple[str, str], *, queues: str | None, drain: timedelta, reload: bool, log_level: str) -> None:
    """Run the workflows of the application APP in MODULE, until SIGTERM or SIGINT (Ctrl-C).

    Then nothing more is claimed, and runs have --drain to end. What still runs is handed over and goes on elsewhere. A
    second signal hands it over at once, a third leaves it to be taken over when the lease has ended. SIGHUP stops with
    the same care and starts the command anew.

    Exit codes: 0 it was told to stop and did, 2 it could not begin, 130 or 143 it was told twice.
    """
    watch = Watch(Path.cwd()) if reload else None
    with failures():
        app = _application(place, watch)
        logging.basicConfig(level=log_level.upper(), format=_FORMAT)  # does nothing if the module has set it up
        worker = Worker(app, None if queues is None else _names(queues))
        _serve(worker, drain.total_seconds(), watch)


def _names(word: str) -> list[str]:
    names = [name for name in (each.strip() for each in word.split(",")) if name]
    if not names:
        raise click.UsageError("--queues names no queue: leave it out to serve all, or write --queues mails,reports.")
    return names


def _application(place: tuple[str, str], watch: Watch | None) -> Application:
    try:
        return find_application(*place)
    except Exception as error:
        # A module may raise anything, and who watches its files is about to mend it.
        if watch is None:
            raise
        _start_when_mended(watch, error)


def _start_when_mended(watch: Watch, error: Exception) -> NoReturn:
    """Show why the application cannot be had, and start anew after the next change."""
    if isinstance(error, Failure | HoldfastError):
        complain(str(error))
    else:
        traceback.print_exception(error)
    complain("Waiting for a change.")
    watch.wait()
    start_anew()


def _serve(worker: Worker, drain: float, watch: Watch | None) -> None:
    """Launch, wait for somebody to say stop, stop; the main thread waits for events and does nothing else."""
    events: SimpleQueue[_Event] = SimpleQueue()
    hands = ThreadPoolExecutor(1, "holdfast-hands")
    with _heard(events):
        _tell_ready(_launched(worker, events, hands))
        if watch is not None:
            watch.tell(partial(events.put, _Restart.CHANGED))
        reason = events.get()
        logger.info("Stopping: %s. Runs have %g s to end.", _because(reason), drain)
        stopped = _begin(events, hands, partial(worker.stop, drain))
        reason, code = _patient(worker, events, stopped, reason)
        farewell = stopped.result()
    _tell_stopped(farewell)
    if isinstance(reason, _Restart):
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
            _leave(_BY_SIGNAL + event)  # nothing runs yet
        event = events.get()
    return launched.result()


def _patient(
    worker: Worker, events: SimpleQueue[_Event], stopped: Future[Farewell], reason: _Event
) -> tuple[_Event, int]:
    """Wait until the worker has stopped; return why it did, and the exit code."""
    code = 0
    while (event := events.get()) is not stopped:
        if not isinstance(event, signal.Signals):
            continue
        if isinstance(reason, _Restart):
            reason = event
            logger.info("Not starting anew: %s.", _because(event))
        elif code == 0:
            code = _BY_SIGNAL + event
            logger.warning("Handing over at once: %s again.", event.name)
            worker.hurry()
        else:
            logger.warning("Leaving at once: others go on when the lease has ended.")
            _leave(_BY_SIGNAL + event)
    return reason, code


def _begin(events: SimpleQueue[_Event], hands: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    """Have *work* done by another thread; its future is an event when it is done."""
    begun = hands.submit(work)
    begun.add_done_callback(events.put)
    return begun


@contextmanager
def _heard(events: SimpleQueue[_Event]) -> Iterator[None]:
    """Make signals events. A hang-up that is ignored, as under nohup, stays so."""
    heard: dict[signal.Signals, _Event] = {each: each for each in (signal.SIGTERM, signal.SIGINT)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard[signal.SIGHUP] = _Restart.HANGUP
    before = {each: signal.signal(each, lambda number, _: events.put(heard[signal.Signals(number)])) for each in heard}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _leave(code: int) -> NoReturn:
    """End the process although threads still run."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _because(event: _Event) -> str:
    if isinstance(event, signal.Signals):
        return event.name
    return "SIGHUP, to start anew" if event is _Restart.HANGUP else "files have changed, to start anew"


def _tell_ready(ready: Readiness) -> None:
    logger.info(
        "Ready: executor %s (%s), version %s, queues %s, database %s",
        ready.executor_id,
        ready.incarnation,
        ready.application_version,
        ", ".join(ready.queues) or "none yet",
        ready.database,
    )
    for name in ready.missing:
        logger.warning("The queue %s is not registered. It is served as soon as it is.", name)


def _tell_stopped(farewell: Farewell) -> None:
    logger.info("Stopped: %s runs ended, %s go on elsewhere.", farewell.ended, farewell.elsewhere)


__all__ = ["command"]
