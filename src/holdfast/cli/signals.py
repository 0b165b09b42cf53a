"""Signals as events in a queue, which the main thread waits for: so no handler interrupts anything."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from queue import SimpleQueue

BY_SIGNAL = 128  # the exit code of a process that a signal has ended, without the signal's number


class Restart(Enum):
    """Why a process stops only to begin again."""

    HANGUP = auto()
    CHANGED = auto()


@contextmanager
def heard(events: SimpleQueue[Any]) -> Iterator[None]:
    """Put SIGTERM and SIGINT in *events*, and ``Restart.HANGUP`` for SIGHUP unless that is ignored, as under nohup.

    Python calls a handler when the main thread next runs code. A signal that comes just before that thread begins to
    wait, or that the system gives to another thread, would only be heard with the next one. So the handlers do nothing,
    and a thread reads the numbers that Python writes to a socket the moment the signals come.
    """
    said: dict[int, signal.Signals | Restart] = {each: each for each in (signal.SIGTERM, signal.SIGINT)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        said[signal.SIGHUP] = Restart.HANGUP
    ears, mouth = socket.socketpair()
    mouth.setblocking(False)
    wrote_to = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    before = {each: signal.signal(each, lambda *_: None) for each in said}
    listener = threading.Thread(target=_pass_on, args=(ears, said, events), name="holdfast-signals", daemon=True)
    listener.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(wrote_to)
        mouth.close()
        listener.join()


def _pass_on(ears: socket.socket, said: Mapping[int, signal.Signals | Restart], events: SimpleQueue[Any]) -> None:
    """Put every signal in *events* that there is something to say of, until the other end is closed."""
    with ears:
        while numbers := ears.recv(64):
            for number in numbers:
                if number in said:
                    events.put(said[number])


def keep_hang_ups() -> None:
    """Have a SIGHUP wait until somebody hears it, also in the program that this process is replaced by.

    Between two programs it would end the process.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def because(event: signal.Signals | Restart) -> str:
    """Return *event* as a reason, for the log."""
    if isinstance(event, signal.Signals):
        return event.name
    return "SIGHUP, to start anew" if event is Restart.HANGUP else "files have changed, to start anew"


__all__ = ["BY_SIGNAL", "Restart", "because", "heard", "keep_hang_ups"]
