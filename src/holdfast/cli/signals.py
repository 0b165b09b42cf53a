"""Signals as events in a queue, which the main thread waits for: so no handler interrupts anything."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from holdfast.db.signals import telling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import SimpleQueue

BY_SIGNAL = 128  # the exit code of a process that a signal has ended, without the signal's number


class Restart(Enum):
    """Why a process stops only to begin again."""

    HANGUP = auto()
    CHANGED = auto()


@contextmanager
def heard(events: SimpleQueue[Any]) -> Iterator[None]:
    """Put SIGTERM and SIGINT in *events*, and ``Restart.HANGUP`` for SIGHUP unless that is ignored, as under nohup.

    Afterwards a SIGHUP ends nothing: whoever has listened ends by itself, or is replaced.
    """
    said: dict[int, signal.Signals | Restart] = {each: each for each in (signal.SIGTERM, signal.SIGINT)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        said[signal.SIGHUP] = Restart.HANGUP
        signal.signal(signal.SIGHUP, lambda *_: None)  # what is there again afterwards
    with telling(said, lambda number: events.put(said[number])):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        yield


def keep_hang_ups() -> None:
    """Have a SIGHUP wait until somebody hears it, also in the program that this process is replaced by.

    Between two programs it would end the process. This thread alone keeps it, and goes on; one that another thread
    takes asks for nothing but what is about to happen.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


@contextmanager
def interrupted() -> Iterator[None]:
    """Take a SIGTERM for a Ctrl-C, so that what is under way is ended and not left; the exit code is its own."""
    is_told = False

    def interrupt(*_: object) -> None:
        nonlocal is_told
        is_told = True
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if not is_told:
            raise
        raise SystemExit(BY_SIGNAL + signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def because(event: signal.Signals | Restart) -> str:
    """Return *event* as a reason, for the log."""
    if isinstance(event, signal.Signals):
        return event.name
    return "SIGHUP, to start anew" if event is Restart.HANGUP else "files have changed, to start anew"


__all__ = ["BY_SIGNAL", "Restart", "because", "heard", "interrupted", "keep_hang_ups"]
