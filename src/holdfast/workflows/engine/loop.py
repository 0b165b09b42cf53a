"""Where an engine lives: on one event loop, of one thread; and how other threads reach it there."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.blocking.asking import ask
from holdfast.errors import MisuseError, NotInitialized, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager

T = TypeVar("T")

NOT_LAUNCHED = "The application is not launched; call launch(), or use it in a with block."


class EngineLoop:
    """The part of an engine that knows its loop."""

    _loop: asyncio.AbstractEventLoop | None = None
    _thread = 0

    def live_here(self) -> None:
        """Live on the loop that runs this code."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def refuse_other_loop(self) -> None:
        """Raise if the engine lives on another loop than the one that runs this code."""
        # On the engine's own loop asyncio need not ask the system which loop it is.
        if self._loop is not None and self.loop_here() is None and self._loop is not asyncio.get_running_loop():
            raise WrongLoop(
                "The application was launched on another event loop, and lives on one at a time: use it there. close() "
                "it there before it is launched on this one; with `async with app:` it is closed before its loop ends."
            )

    def refuse_while_its_loop_runs(self) -> None:
        """Raise on another loop, unless the engine's own goes no further."""
        if self._loop is not None and self._loop.is_running():
            self.refuse_other_loop()

    def forgiving_a_dead_loop(self) -> AbstractContextManager[object]:
        """Ignore errors from closing connections whose loop has ended: they can only be cut."""
        return suppress(RuntimeError) if self._loop is not None and self._loop.is_closed() else nullcontext()

    def live_nowhere(self) -> None:
        """Be on no loop, in a process that was forked from the one whose thread has it."""
        self._loop, self._thread = None, 0

    def loop_thread(self) -> int:
        """Return which thread the loop has."""
        return self._thread

    def is_loop_thread(self) -> bool:
        """Whether the calling code runs on the engine's own event loop."""
        return threading.get_ident() == self._thread

    def loop_here(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop the engine lives on if the calling code runs on it, else None."""
        loop = self._loop
        return loop if threading.get_ident() == self._thread and loop is not None and loop.is_running() else None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop the engine lives on."""
        if self._loop is None:
            raise NotInitialized(NOT_LAUNCHED)
        return self._loop

    def ask_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and wait for it on this thread."""
        if self.is_loop_thread():
            work.close()
            raise MisuseError("A blocking call was made on the event loop, where it would wait for itself.")
        if self._loop is None:
            work.close()
            raise NotInitialized(NOT_LAUNCHED)
        return ask(self._loop, work, closed=NOT_LAUNCHED)

    def reach(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return what *work* comes to on the loop, to be awaited on any loop; ``WrongLoop`` if it has ended."""
        if self.is_loop_thread():
            return work
        loop = self.loop()
        if loop.is_closed():  # nobody would ever come to it
            work.close()
            self.refuse_other_loop()
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def on_loop(self, call: Callable[[], None]) -> bool:
        """Run *call* on the loop, now if this is its thread; False if the loop has ended, and with it all who wait."""
        if threading.get_ident() == self._thread:
            call()
            return True
        try:
            self.loop().call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True


__all__ = ["NOT_LAUNCHED", "EngineLoop"]
