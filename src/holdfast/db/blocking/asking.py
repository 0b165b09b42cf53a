"""A question of a thread to an event loop: a coroutine that is run there, while the thread waits for its outcome."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def ask(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], *, closed: str) -> T:
    """Run *work* on *loop*, which runs on another thread, and return or raise its outcome.

    ``NotInitialized``, which says *closed*, if the loop has ended; ``asyncio.CancelledError`` if *work* is cancelled
    there. If this thread is interrupted while it waits, *work* is cancelled.
    """
    if loop.is_closed():
        work.close()
        raise NotInitialized(closed)
    question = _Question(work)
    try:
        loop.call_soon_threadsafe(question.begin)
        question.wait()
    except BaseException:
        with suppress(RuntimeError):  # the loop has ended meanwhile, and with it the work
            loop.call_soon_threadsafe(question.give_up)
        raise
    return question.outcome()


class _Question(Generic[T]):
    """The thread waits for a bare lock, which an interrupt such as Ctrl-C finds either waited for or taken.

    ``concurrent.futures.Future`` has a condition that the loop needs, too, and an interrupt may leave it locked.
    """

    __slots__ = ("_gate", "_is_begun", "_is_given_up", "_task", "_work")

    _task: asyncio.Task[T]

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._is_begun = False
        self._is_given_up = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def begin(self) -> None:
        if self._is_given_up:
            self._work.close()
            return
        self._is_begun = True
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(lambda _: self._gate.release())

    def give_up(self) -> None:
        self._is_given_up = True
        if self._is_begun:
            self._task.cancel()

    def wait(self) -> None:
        self._gate.acquire()

    def outcome(self) -> T:
        return self._task.result()


__all__ = ["ask"]
