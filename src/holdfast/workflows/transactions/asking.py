"""A home that lives on the engine's loop, for functions on threads: every call is asked of the loop and waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import MisuseError, Superseded
from holdfast.model.workflow import seconds
from holdfast.workflows.recorder import Kept
from holdfast.workflows.transactions.handle import Transaction, took_too_long

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractContextManager

    from holdfast.workflows.engine import Engine
    from holdfast.workflows.recorder import Operation
    from holdfast.workflows.transactions.home import Home, Opened, TransactionDefinition

T = TypeVar("T")

_LONGEST_GOODBYE = 5.0


class Lent:
    """An open transaction of the loop, lent to a thread until its time is over."""

    def __init__(self, opened: Opened, asked: Asked, definition: TransactionDefinition) -> None:
        self.opened = opened
        self._name = definition.name
        self._now = asked.now
        self._end = None if definition.timeout is None else self._now() + seconds(definition.timeout)
        self.handle = Transaction(opened.handle, asked.ask, self._left, definition.name)

    def entered(self) -> AbstractContextManager[None]:
        """Say that the calling thread is inside."""
        return self.opened.entered()

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept: also a time that is over, which nobody could tell the function."""
        if self._end is not None and self._now() > self._end:
            return took_too_long(self._name)
        return self.opened.doom(error)

    def _left(self) -> float | None:
        return None if self._end is None else self._end - self._now()


class Asked:
    """*home*, as a thread sees it."""

    def __init__(self, engine: Engine, home: Home) -> None:
        self._engine = engine
        self._home = home
        self.now = engine.settings.world.monotonic

    def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Lent | Kept:
        """Open a transaction."""
        opened: list[Any] = []

        async def open_() -> None:
            opened.append(await self._home.begin(definition, operation))

        try:
            self.ask(open_())
        except BaseException:
            if opened and not isinstance(opened[0], Kept):  # open already when the thread was interrupted
                self.ask(self._home.drop(opened[0]))
            raise
        return opened[0] if isinstance(opened[0], Kept) else Lent(opened[0], self, definition)

    def keep(self, lent: Lent, operation: Operation | None, output: str, serialization: str) -> Kept | None:
        """Write the outcome and commit."""
        return self.ask(self._home.keep(lent.opened, operation, output, serialization))

    def drop(self, lent: Lent) -> None:
        """Roll back."""
        self.ask(self._home.drop(lent.opened))

    def recall(self, operation: Operation) -> Kept | None:
        """Return the outcome if it was kept."""
        return self.ask(self._home.recall(operation))

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop. An interrupt of this thread ends it: it must not go on beside the roll-back."""
        if self._engine.is_loop_thread():
            work.close()
            raise MisuseError("A sync transaction was called on the event loop, which it would block; make it async.")
        ended = threading.Event()
        reply = asyncio.run_coroutine_threadsafe(_watched(work, ended), self._engine.loop())
        try:
            return reply.result()
        except concurrent.futures.CancelledError:
            raise Superseded("this executor is stopping") from None
        except BaseException:
            if not reply.done():
                reply.cancel()
                ended.wait(_LONGEST_GOODBYE)
            raise


async def _watched(work: Coroutine[Any, Any, T], ended: threading.Event) -> T:
    try:
        return await work
    finally:
        ended.set()
