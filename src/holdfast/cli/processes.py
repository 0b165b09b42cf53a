"""Several worker processes below one that does no work: told to stop together, and replaced when they die.

Parent and child share a socket, with which the child begins as its standard input. The child writes to it when it is
ready; when it is closed the parent is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.signals import BY_SIGNAL, Restart, because, heard

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("holdfast.worker")

_CHILD = "HOLDFAST_WORKER_CHILD"
_BEFORE_ANOTHER = 1.0


def line_to_parent() -> int | None:
    """Return the socket that ``supervise`` has given this process, None if it did not start it; asked once.

    Its own children must neither think that they have one, nor find the socket where they read: they would wait there
    for ever. Standard input is empty from now on.
    """
    if os.environ.pop(_CHILD, None) is None:
        return None
    line = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return line


def tell_parent(line: int, orphaned: Callable[[], None]) -> None:
    """Tell the parent that this process is ready; call *orphaned*, from a thread, when the parent is gone."""

    def wait() -> None:
        with suppress(OSError):
            os.write(line, b"!")
            while os.read(line, 1):
                pass
        logger.warning("The process that watches over this one is gone.")
        orphaned()

    threading.Thread(target=wait, name="holdfast-orphan", daemon=True).start()


def supervise(count: int) -> int:
    """Run this command in *count* processes until they are told to stop; return the first exit code that is not 0.

    One that ends by itself is replaced. If the first to end was never ready, and no other was, all end. A hang-up
    replaces them one by one.
    """
    events: SimpleQueue[signal.Signals | Restart | _Ready | _Ended] = SimpleQueue()
    children = _Children(events.put)
    with heard(events):
        for _ in range(count):
            children.start()
        while children.living:
            event = events.get()
            if isinstance(event, signal.Signals):
                children.stop(event)
            elif isinstance(event, Restart):
                logger.info("Replacing %s processes, one by one: %s.", len(children.living), because(event))
                children.renew()
            elif isinstance(event, _Ready):
                children.became_ready()
            else:
                children.ended(event.child, event.code)
    return children.code


class _Ready(NamedTuple):
    child: _Child


class _Ended(NamedTuple):
    child: _Child
    code: int


class _Child:
    """One process; *tell* is called, from threads, when it is ready and when it has ended."""

    def __init__(self, tell: Callable[[_Ready | _Ended], None]) -> None:
        self._socket, theirs = socket.socketpair()
        self._tell = tell
        with theirs:
            # A session of its own: Ctrl-C reaches the terminal's whole group, and each must hear it once.
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 -- our own command line, no shell
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, _CHILD: "1"},
                stdin=theirs.fileno(),
                start_new_session=True,
            )
        for work in (self._hear, self._wait):
            threading.Thread(target=work, name="holdfast-child", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _hear(self) -> None:
        with suppress(OSError):
            if self._socket.recv(1):
                self._tell(_Ready(self))

    def _wait(self) -> None:
        code = self._process.wait()
        self._socket.close()
        self._tell(_Ended(self, code if code >= 0 else BY_SIGNAL - code))


class _Children:
    """Those that live, and which of them are to be replaced."""

    def __init__(self, tell: Callable[[_Ready | _Ended], None]) -> None:
        self.living: list[_Child] = []
        self.code = 0
        self._tell = tell
        self._old: list[_Child] = []
        self._told: _Child | None = None
        self._stopping = False
        self._was_ready = False

    def start(self) -> None:
        """Start another one."""
        self.living.append(_Child(self._tell))

    def stop(self, number: signal.Signals) -> None:
        """Pass a signal on; none is replaced any more."""
        self._stopping = True
        for child in self.living:
            child.signal(number)

    def renew(self) -> None:
        """Replace all that live now, each when the one that replaces its forerunner is ready."""
        if not self._stopping:
            self._old = list(self.living)
            self._stop_next_old()

    def became_ready(self) -> None:
        """Go on replacing, if that is under way."""
        self._was_ready = True
        if not self._stopping:
            self._stop_next_old()

    def ended(self, child: _Child, code: int) -> None:
        """Replace one that has ended, unless all are to."""
        self.living.remove(child)
        if self._stopping:
            self.code = self.code or code
        elif not self._was_ready:
            self.code = code
            self.stop(signal.SIGTERM)
        else:
            if child not in self._old:
                logger.error("Process %s ended with %s. Another one is started.", child.pid, code)
                time.sleep(_BEFORE_ANOTHER)  # what kills each of them at once must not keep the machine busy
            self._old = [each for each in self._old if each is not child]
            self.start()

    def _stop_next_old(self) -> None:
        if self._old and self._told not in self._old:  # a second signal would interrupt its runs
            self._told = self._old[0]
            self._told.signal(signal.SIGTERM)


__all__ = ["line_to_parent", "supervise", "tell_parent"]
