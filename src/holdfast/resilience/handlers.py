"""Who replays dead letters of which domain."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.functions import makes_coroutine
from holdfast.db.outlast import outlast
from holdfast.errors import ConfigurationError
from holdfast.stores.on_thread import on_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.model.dead_letter import FailedOperationData

    Handle: TypeAlias = Callable[[FailedOperationData], Awaitable[Any]]

_THREADS = 64


@dataclass(frozen=True, slots=True)
class Automatic:
    """Letters of a domain are due by themselves: *delay* seconds after the first failed replay, then twice that."""

    delay: float


class Handlers:
    """The handlers of an application, by domain, and the threads that sync ones run on."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handle] = {}
        self.automatic: dict[str, Automatic] = {}
        self._threads: ThreadPoolExecutor | None = None

    def add(self, domain: str, handle: Handle) -> None:
        """Register *handle* for *domain*; ``ConfigurationError`` if that has one."""
        if domain in self._handlers:
            raise ConfigurationError(f"Dead letters of {domain!r} have a replay handler already: a domain has one.")
        self._handlers[domain] = handle

    def of(self, domain: str) -> Handle | None:
        """Return the handler of *domain*, if there is one."""
        return self._handlers.get(domain)

    def delay_of(self, domain: str) -> float | None:
        """Return after how many seconds letters of *domain* are due again by themselves; None if never."""
        found = self.automatic.get(domain)
        return None if found is None else found.delay

    def handle_of(self, function: Callable[..., Any]) -> Handle:
        """Return how *function* is called with a letter: on the loop if it is async, else on a thread."""
        if makes_coroutine(function):
            return function

        async def handle(letter: FailedOperationData) -> Any:
            made = await self.on_thread(function, letter)
            return await made if inspect.isawaitable(made) else made  # an object whose call is a coroutine

        return handle

    async def on_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call *function* on a thread; return or raise what comes of it, though this task is cancelled meanwhile.

        A thread cannot be interrupted, and what it has done is done. ``Task.cancelling()`` tells of the cancellation.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-replay")
        return await outlast(on_thread(self._threads, function, *args, **kwargs))

    def close(self) -> None:
        """Let the threads go."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)


__all__ = ["Automatic", "Handle", "Handlers"]
