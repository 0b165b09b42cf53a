"""The way from a breaker, on any thread or loop, to the repository that its fleet shares, which lives on one loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.db.process import this_process
from holdfast.errors import HoldfastError, NotInitialized, Unavailable, WrongLoop
from holdfast.stores.breakers.blocking import BlockingBreakers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository, Watcher

T = TypeVar("T")

logger = logging.getLogger("holdfast.breakers")

_CLOSED = "The repository of the breaker is closed."
_NO_ANSWER = "The repository of the breaker did not answer in time."
_IN_THE_PARENT = (
    "The repository of the breaker was opened before a fork, by the parent of this process: launch the application "
    "here, or make the repository and its breakers here."
)


class Place(NamedTuple):
    """Where a repository lives: its loop, and the thread of that."""

    store: AsyncCircuitBreakerStateRepository
    loop: asyncio.AbstractEventLoop
    thread: int


class Later:
    """A repository that is not there yet: *find* returns its place, or None as long as it is not."""

    def __init__(self, find: Callable[[], Place | None]) -> None:
        self.find = find


class Sharing:
    """A repository and its loop, which is known at the first use: a portal's, or the one that runs then."""

    def __init__(
        self, repository: BlockingBreakers | AsyncCircuitBreakerStateRepository | Later, *, patience: float
    ) -> None:
        self._repository = repository
        self._patience = patience
        self._place: Place | None = None
        self._unwatch: Callable[[], None] | None = None
        self._beginning = threading.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cut_off = False

    @property
    def store(self) -> AsyncCircuitBreakerStateRepository:
        """The repository; ``Unavailable`` if it has not been found, or is closed."""
        if self._place is None:
            raise Unavailable(_CLOSED)
        return self._place.store

    def begin(self, service_name: str, watcher: Watcher) -> bool:
        """Find the loop and watch the breaker; False if there is no loop yet, so that a later call must try again.

        ``Unavailable`` if the repository is open in the parent of this process, and not here.
        """
        with self._beginning:
            if self._place is not None:
                return True
            self._place = self._find()
            if self._place is None and self._is_cut_off:
                raise Unavailable(_IN_THE_PARENT)
            if self._place is None:
                return False
            self._is_cut_off = False
        self._on_loop(lambda: self._watch(service_name, watcher))
        return True

    def forget(self) -> None:
        """Forget where the repository is: it was closed, and is perhaps opened again elsewhere."""
        self._place = None

    def forked(self) -> None:
        """Forget it in a forked child, where its loop does not run; what waits on that loop is the parent's."""
        this_process.inherited.append((self._place, self._tasks))
        self._is_cut_off = self._is_cut_off or self._place is not None
        self._place, self._unwatch, self._tasks, self._beginning = None, None, set(), threading.Lock()

    def _watch(self, service_name: str, watcher: Watcher) -> None:
        self._unwatch = self.store.watch(service_name, watcher)

    def end(self) -> None:
        """Stop watching, soon and not now: an object may be freed in the middle of anything, on any thread."""
        if self._place is not None:
            with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                self._place.loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._unwatch is not None:
            self._unwatch()

    def _find(self) -> Place | None:
        repository = self._repository
        if isinstance(repository, Later):
            return repository.find()
        if isinstance(repository, BlockingBreakers):
            return _found(repository)
        try:
            return Place(repository, asyncio.get_running_loop(), threading.get_ident())
        except RuntimeError:
            return None

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread is the loop's, which must not wait for it."""
        return self._place is not None and threading.get_ident() == self._place.thread

    def _loop_for(self, question: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        place = self._place
        if place is None or place.loop.is_closed():
            question.close()
            raise Unavailable(_CLOSED)
        return place.loop

    def ask_blocking(self, question: Coroutine[Any, Any, T]) -> T:
        """Ask the repository from a thread that may wait; ``Unavailable`` if it does not answer in time."""
        loop = self._loop_for(question)
        reply = asyncio.run_coroutine_threadsafe(question, loop)
        try:
            return reply.result(self._patience)
        except (TimeoutError, concurrent.futures.CancelledError) as error:
            raise Unavailable(_NO_ANSWER) from error
        finally:
            reply.cancel()  # also if this thread was interrupted; nothing if there is an answer

    async def wait(self, known: concurrent.futures.Future[None]) -> None:
        """Wait until something is known; ``Unavailable`` if that takes too long."""
        try:
            async with asyncio.timeout(self._patience):
                await asyncio.shield(asyncio.wrap_future(known))
        except TimeoutError as error:
            raise Unavailable(_NO_ANSWER) from error

    def wait_blocking(self, known: concurrent.futures.Future[None]) -> None:
        """Wait until something is known, on a thread; ``Unavailable`` if that takes too long."""
        try:
            known.result(self._patience)
        except TimeoutError as error:
            raise Unavailable(_NO_ANSWER) from error

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Ask the repository from any loop; ``Unavailable`` if it does not answer in time."""
        loop = self._loop_for(question)
        try:
            async with asyncio.timeout(self._patience):
                if loop is asyncio.get_running_loop():
                    return await question
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, loop))
        except TimeoutError as error:
            raise Unavailable(_NO_ANSWER) from error

    def tell(self, message: Coroutine[Any, Any, Any]) -> None:
        """Have something done on the loop, and do not wait for it; what fails is logged."""

        def start() -> None:
            task = asyncio.ensure_future(_logged(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if not self._on_loop(start):
            message.close()

    def _on_loop(self, call: Callable[[], Any]) -> bool:
        place = self._place
        if place is None:
            return False
        if self.is_own_thread:
            call()
            return True
        try:
            place.loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop was closed: nobody is left to be told
            return False
        return True


def _found(repository: BlockingBreakers) -> Place | None:
    try:
        return repository.portal.call(_here(repository.store))
    except NotInitialized:
        return None
    except WrongLoop as error:
        raise Unavailable(_IN_THE_PARENT) from error


async def _here(store: AsyncCircuitBreakerStateRepository) -> Place:
    return Place(store, asyncio.get_running_loop(), threading.get_ident())


async def _logged(message: Coroutine[Any, Any, Any]) -> None:
    try:
        await message
    except HoldfastError as error:
        logger.warning("What a breaker had to tell was not stored: %s", error)
    except Exception:
        logger.exception("What a breaker had to tell was not stored.")


__all__ = ["Later", "Place", "Sharing"]
