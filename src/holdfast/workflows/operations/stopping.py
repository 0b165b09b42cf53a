"""What is an outcome of the user's code, and what only stops it: errors that are no ``Exception`` may be either."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import thread as pools
from typing import TYPE_CHECKING

from holdfast.errors import Superseded
from holdfast.serialize.failure import decode_error, encode_error

if TYPE_CHECKING:
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.running.run import Run


class ProgramEnds(Superseded):
    """The program ends under the run, which goes on elsewhere."""


def program_ends() -> bool:
    """Whether Python gives code no threads any more, since the program ends, and asyncio therefore no addresses.

    That comes before ``atexit``, so a drain of an application that is closed there is too late for such code.
    """
    return bool(getattr(pools, "_shutdown", False))


def refuse_last_failure(run: Run, error: Exception) -> None:
    """Raise instead of having *error* recorded if it may have come of the program's end; the run goes no further."""
    if program_ends():
        reason = ProgramEnds("the program ends")
        run.stop(reason)
        raise reason from error


def was_cancelled(error: BaseException | None) -> bool:
    """Whether this task itself is being cancelled, as by a loop that ends: what it does has no outcome then."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_interrupt(error: BaseException) -> bool:
    """Whether somebody stops the program at its terminal: only the main thread is told, wherever it is just then."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def stop_interrupted(run: Run, error: BaseException) -> None:
    """Have *run* go no further if *error* stops the program: what its code does about that, a replay would not do."""
    if is_interrupt(error):
        run.stop(KeyboardInterrupt("the program is interrupted"))


def as_failure(place: WorkflowPlace, error: BaseException) -> Exception | None:
    """Return the error with which code at *place* has failed: *error*, or a stand-in if it is no ``Exception``.

    That is what a replay raises, and may be tried again, caught and undone like any error. None if the code has no
    outcome, since it is stopped: its execution or its part ends, its task is cancelled, or the program is interrupted.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, Superseded | GeneratorExit) or is_interrupt(error):
        return None
    if place.run.stopped is not None or place.branch.is_closed:
        return None
    if not isinstance(place.owner, int) and was_cancelled(error):
        return None
    failed = decode_error(encode_error(error)).with_traceback(error.__traceback__)
    return failed if isinstance(failed, Exception) else None


__all__ = [
    "as_failure",
    "is_interrupt",
    "program_ends",
    "refuse_last_failure",
    "stop_interrupted",
    "was_cancelled",
]
