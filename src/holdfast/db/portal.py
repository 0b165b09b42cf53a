"""An event loop in a thread of its own, for code that has none: the whole of the sync colour goes through here."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import MisuseError, NotInitialized

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Portal:
    """Runs coroutines on a background loop and waits for their results."""

    def __init__(self, name: str = "holdfast-loop") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the loop has been started and not stopped."""
        return self._thread is not None

    def start(self) -> None:
        """Start the loop; a second call changes nothing."""
        if self._thread is not None:
            return
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel what still runs, end the loop and its thread; a second call changes nothing."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and return its result; raise at once where waiting would never end."""
        if self._loop is None:
            work.close()
            raise NotInitialized("This object is not open; call initialize() first, or use it in a with block.")
        if threading.current_thread() is self._thread:
            work.close()
            raise MisuseError("A blocking call on the library's own event loop would wait for itself; use the async class there.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
