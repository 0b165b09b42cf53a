"""Carrying one transaction out, in either colour: open, call the function, keep; again if the database asks for that.

The database may ask for the whole of it to be done again (a deadlock, a serialization failure, a lost connection): that
is not an attempt in the sense of ``retry=``, and is bounded once the function was called. After a commit of unknown
outcome the home is asked, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import faults
from holdfast.core.backoff import backoff
from holdfast.db.outlast import outlast
from holdfast.errors import DatabaseError, Retryable, Superseded, Unavailable, UnknownCommit
from holdfast.model.workflow import seconds
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.operations.place import Inside, PartOver, inside
from holdfast.workflows.running.commits import TooLate
from holdfast.workflows.transactions.handle import took_too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.transactions.home import BlockingHome, Home, Opened, TransactionDefinition

T = TypeVar("T")

logger = logging.getLogger("holdfast.workflows")

_TIMES = 10
_TOLD_EVERY = 20


class _Tries:
    """How often a transaction was tried, and what its beginning waits for without an end.

    After a commit of unknown outcome that is also a database that is away: whether the function's writes are there must
    be known before anything is said of them, and it shows when the transaction is begun again. From then on it is a try
    like the first.
    """

    def __init__(self) -> None:
        self.number = 0
        self.waits_for: tuple[type[DatabaseError], ...] = (Retryable,)
        self._failed = 0

    def unknown(self) -> None:
        """Note a commit of unknown outcome."""
        self.number += 1
        self.waits_for = (Retryable, Unavailable)

    def failed(self) -> bool:
        """Note a try that has surely changed nothing; return whether it was the last."""
        self.number += 1
        self.waits_for = (Retryable,)
        self._failed += 1
        return self._failed == _TIMES


class Carrier:
    """Carries out the transactions of async functions whose data is in *home*."""

    def __init__(self, engine: Engine, home: Home, definition: TransactionDefinition) -> None:
        self._engine = engine
        self._home = home
        self._definition = definition

    async def run(self, operation: Operation | None, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Kept:
        """Return the outcome as it is kept."""
        tries = _Tries()
        while True:
            try:
                return await self._once(operation, call, tries)
            except UnknownCommit:
                if operation is None:
                    raise
                kept = await to_the_end(self._recalled(operation), operation)
                if kept is not None:
                    return kept
                tries.unknown()
            except (Retryable, Unavailable):
                if tries.failed():
                    raise
            await self._pause(operation, tries.number)

    async def _pause(self, operation: Operation | None, failures: int) -> None:
        world = self._engine.settings.world
        await world.sleep(backoff(failures, base=0.005, cap=1.0, draw=world.random.random()))
        if operation is not None:
            await self._engine.permit.wait()
            operation.check()

    async def _begun_later(self, operation: Operation, refused: DatabaseError, tries: _Tries) -> Opened | Kept:
        """Ask on for as long as it takes: an earlier execution may still hold the row that is opened."""
        for failures in count(1):
            _tell_waiting(operation, failures, refused)
            await self._pause(operation, failures)
            try:
                return await self._home.begin(self._definition, operation)
            except tries.waits_for as again:
                refused = again
        raise AssertionError("counting has no end")

    async def _once(
        self, operation: Operation | None, call: Callable[[Any], Coroutine[Any, Any, Any]], tries: _Tries
    ) -> Kept:
        try:
            opened = await self._home.begin(self._definition, operation)
        except tries.waits_for as refused:
            if operation is None:
                raise
            opened = await self._begun_later(operation, refused, tries)
        if isinstance(opened, Kept):
            return opened
        try:
            value = await self._called(opened, call)
            kept = Kept(*self._engine.payloads.dump(value, self._definition.name))
        except BaseException as error:
            await self._home.drop(opened)
            _refuse_doomed(opened, error)
            raise
        keeping = self._kept(opened, operation, kept)
        protected = operation is not None and self._home.outlasts
        return await (_outlasting if protected else to_the_end)(keeping, operation)

    async def _called(self, opened: Opened, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        with _Within(self._engine, self._definition, opened):
            if self._definition.timeout is None:
                value = await call(opened.handle)
            else:
                value = await self._in_time(seconds(self._definition.timeout), call(opened.handle))
        _refuse_doomed(opened, None)
        return value

    async def _in_time(self, limit: float, called: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(limit) as scope:
                return await called
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise took_too_long(self._definition.name) from error

    async def _kept(self, opened: Opened, operation: Operation | None, kept: Kept) -> Kept:
        _announce(operation)
        try:
            earlier = await self._home.keep(opened, operation, kept.output or "", kept.serialization or "")
        except Superseded as lost:
            _stop(operation, lost)
            raise
        return earlier or kept

    async def _recalled(self, operation: Operation) -> Kept | None:
        try:
            return await self._home.recall(operation)
        except Superseded as lost:
            _stop(operation, lost)
            raise


class BlockingCarrier:
    """Carries out the transactions of sync functions, on their thread."""

    def __init__(self, engine: Engine, home: BlockingHome, definition: TransactionDefinition) -> None:
        self._engine = engine
        self._home = home
        self._definition = definition

    def run(self, operation: Operation | None, call: Callable[[Any], Any]) -> Kept:
        """Return the outcome as it is kept."""
        tries = _Tries()
        while True:
            try:
                return self._once(operation, call, tries)
            except UnknownCommit:
                if operation is None:
                    raise
                kept = self._recalled(operation)
                if kept is not None:
                    return kept
                tries.unknown()
            except (Retryable, Unavailable):
                if tries.failed():
                    raise
            self._pause(operation, tries.number)

    def _pause(self, operation: Operation | None, failures: int) -> None:
        time.sleep(backoff(failures, base=0.005, cap=1.0, draw=self._engine.settings.world.random.random()))
        if operation is not None:
            self._engine.permit.wait_blocking(operation.check)
            operation.check()

    def _begun_later(self, operation: Operation, refused: DatabaseError, tries: _Tries) -> Opened | Kept:
        for failures in count(1):
            _tell_waiting(operation, failures, refused)
            self._pause(operation, failures)
            try:
                return self._home.begin(self._definition, operation)
            except tries.waits_for as again:
                refused = again
        raise AssertionError("counting has no end")

    def _once(self, operation: Operation | None, call: Callable[[Any], Any], tries: _Tries) -> Kept:
        try:
            opened = self._home.begin(self._definition, operation)
        except tries.waits_for as refused:
            if operation is None:
                raise
            opened = self._begun_later(operation, refused, tries)
        if isinstance(opened, Kept):
            return opened
        try:
            with _Within(self._engine, self._definition, opened):
                value = call(opened.handle)
            _refuse_doomed(opened, None)
            kept = Kept(*self._engine.payloads.dump(value, self._definition.name))
        except BaseException as error:
            self._home.drop(opened)
            _refuse_doomed(opened, error)
            raise
        _announce(operation)
        try:
            earlier = self._home.keep(opened, operation, kept.output or "", kept.serialization or "")
        except Superseded as lost:
            _stop(operation, lost)
            raise
        return earlier or kept

    def _recalled(self, operation: Operation) -> Kept | None:
        try:
            return self._home.recall(operation)
        except Superseded as lost:
            _stop(operation, lost)
            raise


async def to_the_end(work: Coroutine[Any, Any, T], operation: Operation | None) -> T:
    """Carry *work* to its end even if this task is cancelled: what is kept must be delivered.

    The cancellation is raised at the next operation.
    """
    return await _outlasting(_in_task(work), operation)


async def _in_task(work: Coroutine[Any, Any, T]) -> T:
    return await outlast(asyncio.get_running_loop().create_task(work))


async def _outlasting(work: Coroutine[Any, Any, T], operation: Operation | None) -> T:
    """Await *work*, which goes on though this task is cancelled; the cancellation is raised at the next operation."""
    here = asyncio.current_task()
    before = here.cancelling() if here is not None else 0
    try:
        return await work
    finally:
        if operation is not None and here is not None and here.cancelling() > before:
            operation.place.interrupted = True


class _Within:
    """Says, for the length of a block, that its code is the function of an open transaction."""

    __slots__ = ("_found", "_mark", "_opened", "_outer")

    def __init__(self, engine: Engine, definition: TransactionDefinition, opened: Opened) -> None:
        self._found = Inside(engine, definition.name)
        self._opened = opened

    def __enter__(self) -> None:
        self._mark = inside.set(self._found)
        self._outer = self._opened.mark()

    def __exit__(self, *_: object) -> None:
        self._opened.unmark(self._outer)
        self._found.is_open = False
        inside.reset(self._mark)


def _tell_waiting(operation: Operation, failures: int, refused: DatabaseError) -> None:
    if failures == 1 or failures % _TOLD_EVERY == 0:
        logger.warning(
            "The transaction %r of run %s waits to begin (attempt %s): %s",
            operation.name,
            operation.run.id,
            failures,
            refused,
        )


def _refuse_doomed(opened: Opened, error: BaseException | None) -> None:
    """Raise why the transaction cannot be kept, if that is not what was raised anyway."""
    doom = opened.doom(error) if error is None or isinstance(error, Exception) else None
    if doom is not None and doom is not error:
        raise doom from error


def _announce(operation: Operation | None) -> None:
    if operation is not None:
        faults.point("transaction.before_record")


def _stop(operation: Operation | None, lost: Superseded) -> None:
    if operation is not None and not isinstance(lost, TooLate | PartOver):  # else others of its run go on
        operation.run.stop(lost)
