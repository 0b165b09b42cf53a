"""An event loop in a thread of its own, for code that has none: the whole of the sync colour goes through here."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.blocking.asking import ask
from holdfast.errors import MisuseError, NotInitialized, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

logger = logging.getLogger("holdfast.db")


class Portal:
    """Runs coroutines on a background loop and waits for their results; *opened_by* names the call that starts it."""

    def __init__(self, name: str = "holdfast-loop", *, opened_by: str = "initialize()") -> None:
        self._name = name
        self._opened_by = opened_by
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._starting = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether the loop has been started, in this process, and not stopped."""
        return self._thread is not None and os.getpid() == self._pid

    def start(self) -> None:
        """Start the loop; a second call changes nothing."""
        with self._starting:
            if self.is_running:
                return
            self._pid = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._is_over = threading.Event()
            ends = self._loop, self._is_over
            self._thread = threading.Thread(target=self._run, args=ends, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Cancel what still runs, end the loop and its thread; a second call changes nothing."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None and os.getpid() == self._pid:
            self._is_over.set()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and return its result; raise at once where waiting would never end."""
        loop = self._loop
        if loop is None:
            work.close()
            raise NotInitialized(f"This object is not open; call {self._opened_by} first, or use it in a with block.")
        if os.getpid() != self._pid:
            work.close()
            raise WrongLoop(
                "This object was opened before a fork, and its thread is not in the child: make another here."
            )
        try:
            self.refuse_own_thread()
        except MisuseError:
            work.close()
            raise
        closed = f"This object was closed by another thread; call {self._opened_by} to open it again."
        try:
            return ask(loop, work, closed=closed)
        except asyncio.CancelledError:
            raise NotInitialized("This object was closed by another thread during the call.") from None

    def refuse_own_thread(self) -> None:
        """Raise on the loop's own thread, which a call that waits for it, or for its end, would stop."""
        if threading.current_thread() is self._thread:
            raise MisuseError(
                "A blocking call on the library's own event loop would wait for itself; use the async class there."
            )

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, is_over: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        threads = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="holdfast-loop-thread")
        loop.set_default_executor(threads)
        try:
            while not is_over.is_set():
                _run_until_stopped(loop)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            threads.shutdown()  # asyncio would begin a thread for that, which a program that is ending cannot
            loop.close()


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop* until it is stopped, or until a task raises what asyncio ends the whole loop for.

    Whoever awaits that task is told; and code on this thread, which is not the program's own, cannot end the program.
    """
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:
        logger.warning("A task raised %r. It does not end the program here, and the event loop goes on.", error)
