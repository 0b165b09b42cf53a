"""A home that lives on the engine's loop, for functions on threads: every call is asked of the loop and waited for."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.errors import MisuseError, Superseded
from holdfast.model.workflow import seconds
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.transactions.handle import Transaction, took_too_long
from holdfast.workflows.transactions.own import OwnDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
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
        self.handle = Transaction(opened.handle, asked.ask, partial(_left, self._end, self._now), definition.name)

    def mark(self) -> Any:
        """Say that the calling thread is inside."""
        return self.opened.mark()

    def unmark(self, mark: Any) -> None:
        self.opened.unmark(mark)

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept: also a time that is over, which nobody could tell the function."""
        if self._end is not None and self._now() > self._end:
            return took_too_long(self._name)
        return self.opened.doom(error)


def _left(end: float | None, now: Callable[[], float]) -> float | None:
    return None if end is None else end - now()


class Asked:
    """*home*, as a thread sees it."""

    def __init__(self, engine: Engine, home: Home) -> None:
        self._engine = engine
        self._home = home
        self.now = engine.settings.world.monotonic

    def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Lent | Kept:
        """Open a transaction."""
        if isinstance(self._home, OwnDatabase):  # it begins with its first statement: nothing to ask for yet
            self._refuse_loop()
            block = self._engine.manager.transaction(isolation=definition.isolation)
            return Lent(self._home.open(block, definition, operation), self, definition)
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
        try:
            self._refuse_loop()
        except MisuseError:
            work.close()
            raise
        loop = self._engine.loop()
        errand = _Errand(work)
        loop.call_soon_threadsafe(errand.begin)
        try:
            errand.wait()
        except BaseException:
            loop.call_soon_threadsafe(errand.stop)
            errand.wait(_LONGEST_GOODBYE)
            raise
        try:
            return errand.outcome()
        except asyncio.CancelledError:
            raise Superseded("this executor is stopping") from None

    def _refuse_loop(self) -> None:
        if self._engine.is_loop_thread():
            raise MisuseError("A sync transaction was called on the event loop, which it would block; make it async.")


class _Errand(Generic[T]):
    """Work that the loop does for a thread that waits: as light as can be, since it is done for every statement."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._gate = threading.Lock()
        self._gate.acquire()
        self._result: T | None = None
        self._error: BaseException | None = asyncio.CancelledError()  # as long as it has not come to its end

    def begin(self) -> None:
        """Begin; on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._carry_out())
        self._task.add_done_callback(self._tell)  # for one that is stopped before it has begun

    async def _carry_out(self) -> None:
        try:
            self._result = await self._work
            self._error = None
        except BaseException as error:  # noqa: BLE001 -- raised again by the thread that waits
            self._error = error
        self._tell()  # here, since what is called when a task is done waits for another round of the loop

    def _tell(self, _: object = None) -> None:
        if self._gate.locked():
            self._gate.release()

    def stop(self) -> None:
        """End it early; on the loop."""
        if self._task is not None:
            self._task.cancel()

    def wait(self, timeout: float = -1) -> None:
        """Wait until it has ended, or for *timeout* seconds."""
        self._gate.acquire(timeout=timeout)

    def outcome(self) -> T:
        """Return or raise what came of it, after its end."""
        error, self._error = self._error, None
        if error is None:
            return cast("T", self._result)
        try:
            raise error
        finally:
            del error  # no circle of error and frame
