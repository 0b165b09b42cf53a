"""Signals, told the moment they come, whatever the main thread is doing.

Python calls a handler when the main thread next runs code. A signal that comes just before that thread begins to wait,
or that the system gives to another thread, is only noticed with the next one. So the handlers here do nothing, and a
thread reads the numbers that Python writes to a socket as soon as the signals come.
"""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


@contextmanager
def telling(numbers: Collection[int], tell: Callable[[int], None]) -> Iterator[None]:
    """Call *tell*, on a thread, for each signal of these *numbers* that comes meanwhile. Only on the main thread."""
    ears, mouth = socket.socketpair()
    with ears, mouth:
        mouth.setblocking(False)
        wrote_to = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        before = {each: signal.signal(each, lambda *_: None) for each in numbers}
        listener = threading.Thread(target=_listen, args=(ears, numbers, tell), name="holdfast-signals", daemon=True)
        listener.start()
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
            signal.set_wakeup_fd(wrote_to)
            mouth.close()
            listener.join()


def _listen(ears: socket.socket, numbers: Collection[int], tell: Callable[[int], None]) -> None:
    """Tell of what arrives until the other end is closed; the numbers of other signals arrive, too."""
    while arrived := ears.recv(64):
        for number in arrived:
            if number in numbers:
                tell(number)


__all__ = ["telling"]
