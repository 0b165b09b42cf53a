"""Calls that are interrupted where they run, on their caller's own thread, when their time is up.

Theory of operation. A call is noted with its deadline before it begins, and its note is taken out when it ends: a call
that is in time costs no more. One thread, the watch, sleeps until the first deadline. It takes out the note of a call
that is late and has the interpreter raise an exception in that call's thread, between two instructions; a call that
waits inside of C is interrupted when it comes back. A note can be taken out once, so either the call was in time and is
never interrupted, or the exception is on its way. Then it must arrive inside of this call, and not in what its thread
does next: the call waits until it was sent, and takes it back if it has not arrived.

Calls may be nested. Each late one has an exception class of its own, by which it knows what is meant for it. A thread
has room for one exception on its way, and the outer call's counts: it takes the place of an inner one's, and while it
is on its way no inner call is interrupted.

What runs on the thread of a call uses plain locks and dictionaries alone. ``threading.Event`` and ``Condition`` are
Python code: interrupted at the wrong instruction they stay locked.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.db.process import this_process
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

_NEVER = float("inf")
_IDLE_FOR = 10.0


class Interruption(BaseException):
    """Raised inside of a call whose time is up. It is no ``Exception``, so that the call's own handlers let it pass."""


class Late(TimeoutError):
    """A call was not in time. It is told apart from a ``TimeoutError`` of the call's own."""


class _Note:
    """One call: where it runs, from when until when, and inside of which other one."""

    __slots__ = ("began", "deadline", "ended", "kind", "outer", "thread")

    def __init__(self, limit: float, innermost: dict[int, _Note]) -> None:
        self.began = time.monotonic()
        self.deadline = self.began + limit
        self.thread = threading.get_ident()
        self.outer = innermost.get(self.thread)
        self.kind: type[Interruption] | None = None  # what was sent
        self.ended = False


class Watch:
    """Interrupts calls that are late; from any number of threads, with one thread of its own while there are calls."""

    def __init__(self) -> None:
        self._raise_in = _raise_in()
        self._running: dict[_Note, bool] = {}
        self._innermost: dict[int, _Note] = {}
        self._begin_watch()
        this_process.tell(self)

    def forked(self) -> None:
        """Have a watch of its own in a forked child. The calls inside of which it was forked have no limit there."""
        here = threading.get_ident()
        self._running = {note: True for note in self._running if note.thread == here}
        for note in self._running:
            note.deadline = _NEVER
        self._innermost = {here: self._innermost[here]} if here in self._innermost else {}
        self._begin_watch()

    def _begin_watch(self) -> None:
        self._sending = threading.Lock()
        self._starting = threading.Lock()
        self._gate = threading.Lock()  # open when the watch is to look
        self._gate.acquire()
        self._wakes_at = _NEVER
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[..., Any], limit: float, args: Any, kwargs: Any) -> Any:
        """Return what *call* returns, or raise what it raises; ``Late`` if it was, and so was interrupted.

        Whatever happens, nothing is on its way to this thread for this call when this returns.
        """
        note = _Note(limit, self._innermost)
        in_time = False
        try:
            try:
                self._begin(note)
                result = call(*args, **kwargs)
            finally:
                in_time = self._end(note)
        except Interruption as interruption:
            self._end(note)  # an outer call's may have come in the middle of it
            if type(interruption) is not note.kind:
                raise
        if in_time:
            return result
        raise Late

    def _begin(self, note: _Note) -> None:
        self._innermost[note.thread] = note
        self._running[note] = True
        if not note.began < self._wakes_at <= note.deadline:
            self._stir()

    def _end(self, note: _Note) -> bool:
        """Take the note out; return whether the call was in time. A second time does no harm."""
        note.ended = True
        in_time = self._running.pop(note, False)
        if note.outer is None:
            self._innermost.pop(note.thread, None)
        else:
            self._innermost[note.thread] = note.outer
        if not in_time:
            self._take_back(note)
        return in_time

    def _take_back(self, note: _Note) -> None:
        """Have nothing on its way for this call; what is on its way for an outer one stays so."""
        with self._sending:  # the watch takes notes out and sends under this lock: now it has sent
            if note.kind is not None and not _is_sent_outside(note):
                self._raise_in(note.thread, None)

    def _stir(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._keep_watch, name="holdfast-interrupts", daemon=True)
                thread.start()
                self._thread = thread  # once it runs: an interruption may come before
        with suppress(RuntimeError):  # it is open already
            self._gate.release()

    def _keep_watch(self) -> None:
        while True:
            self._wakes_at = _NEVER  # a call that is noted from here on opens the gate; the look finds all others
            soonest = self._look()
            self._wakes_at = soonest
            patience = _IDLE_FOR if soonest == _NEVER else max(0.0, soonest - time.monotonic())
            if not self._gate.acquire(timeout=patience):
                with self._starting:
                    if soonest == _NEVER and not self._running:
                        self._thread = None
                        return

    def _look(self) -> float:
        """Interrupt those that are late, outer calls before inner ones; return when the next one will be."""
        now, soonest = time.monotonic(), _NEVER
        for note in list(self._running):
            if note.deadline > now:
                soonest = min(soonest, note.deadline)
            else:
                with self._sending:
                    if self._running.pop(note, False):
                        self._send(note)
        return soonest

    def _send(self, note: _Note) -> None:
        if not _is_sent_outside(note):
            note.kind = type("Interrupted", (Interruption,), {})
            self._raise_in(note.thread, note.kind)


def _is_sent_outside(note: _Note) -> bool:
    """Whether a call around this one was interrupted and has not ended."""
    outer = note.outer
    while outer is not None and (outer.kind is None or outer.ended):
        outer = outer.outer
    return outer is not None


def _raise_in() -> Callable[[int, type[Interruption] | None], None]:
    """Return what raises in another thread; with None it takes back what has not been raised yet."""
    import ctypes  # noqa: PLC0415 -- slow to load, and few want it

    try:
        set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
    except AttributeError:
        raise ConfigurationError("interrupt=True needs CPython: this interpreter cannot raise in a thread.") from None

    def raise_in(thread: int, kind: type[Interruption] | None) -> None:
        set_async_exc(ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind))

    return raise_in


__all__ = ["Interruption", "Late", "Watch"]
