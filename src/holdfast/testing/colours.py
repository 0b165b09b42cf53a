"""The sync classes behind the async face, so that a test is written once and run in both colours.

Each call goes to a thread, as a program without an event loop would make it. What is done inside a transaction goes
to one thread of that transaction's own, since to the library that thread is the one that is inside.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.db import ConnectionManager, SyncConnectionManager, SyncTransaction

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from holdfast.db import DatabaseURL, DialectName, Transaction
    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row

T = TypeVar("T")

_THREADS = 200

# The thread of the transaction that the running test task is inside of.
_inside: ContextVar[ThreadPoolExecutor | None] = ContextVar("holdfast_colour_thread", default=None)


class Colour(StrEnum):
    """How a program calls the library."""

    ASYNC = "async"
    SYNC = "sync"


class StatementRunner(Protocol):
    """What a test does with a transaction of either colour."""

    async def execute(self, sql: str, *args: Any) -> int:
        """Run a statement; return how many rows it touched."""

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        """Run a statement; return its rows."""

    async def fetchone(self, sql: str, *args: Any) -> Row | None:
        """Run a statement; return its first row, or None."""


class Manager(StatementRunner, Protocol):
    """What a test does with a connection manager of either colour."""

    @property
    def url(self) -> DatabaseURL:
        """Where it connects to."""

    @property
    def dialect(self) -> DialectName:
        """Which SQL it speaks."""

    async def initialize(self) -> None:
        """Open the first connection."""

    async def close(self) -> None:
        """End all connections."""

    async def __aenter__(self) -> Self:
        """Open."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""

    async def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        """Read with a batch query."""

    def transaction(self, *, isolation: str | None = None) -> AbstractAsyncContextManager[StatementRunner]:
        """Open a transaction for a block."""

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], *, isolation: str | None = None) -> T:
        """Run *work* in one transaction."""


def manager_of(colour: Colour, url: str | os.PathLike[str], **options: Any) -> Manager:
    """Return a manager that is not open yet; *options* are those of ``ConnectionManager``."""
    return ConnectionManager(url, **options) if colour is Colour.ASYNC else ThreadedManager(url, **options)


class ThreadedManager:
    """A ``SyncConnectionManager`` called from threads."""

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self.blocking = SyncConnectionManager(url, **options)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="colour")

    @property
    def url(self) -> DatabaseURL:
        return self.blocking.url

    @property
    def dialect(self) -> DialectName:
        return self.blocking.dialect

    async def initialize(self) -> None:
        await self._call(self.blocking.initialize)

    async def close(self) -> None:
        await self._call(self.blocking.close)

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        self._threads.shutdown()

    async def execute(self, sql: str, *args: Any) -> int:
        return await self._call(self.blocking.execute, sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        return await self._call(self.blocking.fetch, sql, *args)

    async def fetchone(self, sql: str, *args: Any) -> Row | None:
        return await self._call(self.blocking.fetchone, sql, *args)

    async def fetch_batch(self, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> list[Row]:
        return await self._call(self.blocking.fetch_batch, query, rows, **named)

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]], *, isolation: str | None = None) -> T:
        return await self._call(self.blocking.run, work, isolation=isolation)

    @asynccontextmanager
    async def transaction(self, *, isolation: str | None = None) -> AsyncIterator[StatementRunner]:
        if _inside.get() is not None:
            await self._call(self._enter_and_leave)
        with ThreadPoolExecutor(1, thread_name_prefix="colour-transaction") as thread:
            block = ExitStack()
            opened = await _on(thread, block.enter_context, self.blocking.transaction(isolation=isolation))
            mark = _inside.set(thread)
            try:
                yield ThreadedTransaction(opened, thread)
            except BaseException as error:
                await _on(thread, block.__exit__, type(error), error, error.__traceback__)
                raise
            else:
                await _on(thread, block.close)
            finally:
                _inside.reset(mark)

    def _enter_and_leave(self) -> None:
        with self.blocking.transaction():
            pass

    async def _call(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        return await _on(_inside.get() or self._threads, function, *args, **named)


class ThreadedTransaction:
    """A ``SyncTransaction`` used by the thread that opened it."""

    def __init__(self, blocking: SyncTransaction, thread: ThreadPoolExecutor) -> None:
        self._blocking = blocking
        self._thread = thread

    async def execute(self, sql: str, *args: Any) -> int:
        return await self._call(self._blocking.execute, sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        return await self._call(self._blocking.fetch, sql, *args)

    async def fetchone(self, sql: str, *args: Any) -> Row | None:
        return await self._call(self._blocking.fetchone, sql, *args)

    async def _call(self, function: Callable[..., T], *args: Any) -> T:
        try:
            return await _on(self._thread, function, *args)
        except RuntimeError as error:
            if "after shutdown" not in str(error):
                raise
        return await asyncio.to_thread(function, *args)  # the block is over: any thread is as good


async def _on(threads: ThreadPoolExecutor, function: Callable[..., T], *args: Any, **named: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, partial(function, *args, **named))
