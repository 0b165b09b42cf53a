"""``StoreFactory``: the one place where a program gets its stores, whatever they stand on."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import ConfigurationError, WrongLoop
from holdfast.stores.database import DatabaseStores
from holdfast.stores.local import LocalStores
from holdfast.stores.opened import Opened
from holdfast.stores.redis_url import REDIS_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World
    from holdfast.stores.checkpoints.store import CheckpointStore
    from holdfast.stores.dead_letters.queue import DBDeadLetterQueue
    from holdfast.stores.events.store import DBEventStoreBackend
    from holdfast.stores.executions.store import ExecutionStore
    from holdfast.stores.idempotency.database import DBIdempotencyStore
    from holdfast.stores.locks.store import DistributedLock
    from holdfast.stores.opened import Openable
    from holdfast.stores.redis import RedisLink
    from holdfast.stores.tasks.store import TaskQueue

FOLDER = Path(".holdfast")

S = TypeVar("S", bound="Openable")


class StoreFactory(Opened):
    """Makes the stores of a program: in the database that is named, or on this machine if none is.

    *database_url* names it; without, ``HOLDFAST_DATABASE_URL``, then ``DATABASE_URL``; what is empty counts as not
    given. *queue_url*, or ``HOLDFAST_QUEUE_URL``, names another place for the task queue, which may be Redis. Without a
    database stores are files in *folder*, by default ``.holdfast`` in the current folder, and memory.

    All stores of a database share one connection manager, made with the *connection* options, and one pipeline. A store
    is made once: whoever asks again gets the same. Any number of tasks of one event loop may ask at once. It is that
    loop's until it is closed there: ``WrongLoop`` on another.
    """

    _default: ClassVar[StoreFactory | None] = None
    _choosing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        database_url: str | os.PathLike[str] | None = None,
        *,
        queue_url: str | None = None,
        folder: str | os.PathLike[str] = FOLDER,
        schema: str = SCHEMA,
        world: World | None = None,
        clock_offset_ms: str | None = None,
        **connection: Any,
    ) -> None:
        self._database_url = _given(database_url, "HOLDFAST_DATABASE_URL", "DATABASE_URL")
        self._queue_url = _given(queue_url, "HOLDFAST_QUEUE_URL")
        self._folder = Path(folder).absolute()
        self._schema = schema
        self._options: dict[str, Any] = {"schema": schema, "world": world, "clock_offset_ms": clock_offset_ms}
        self._world = world
        self._connection = connection
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._opened = AsyncExitStack()
        self._stores: DatabaseStores | LocalStores | None = None
        self._queue: TaskQueue | None = None
        self._links: dict[str, RedisLink] = {}
        self._redis_locks: DistributedLock | None = None

    @classmethod
    def get_default(cls) -> StoreFactory:
        """Return the factory that the whole process shares; made by the first call, as the environment then says."""
        with cls._choosing:
            if cls._default is None:
                cls._default = StoreFactory()
            return cls._default

    @classmethod
    def reset(cls) -> None:
        """Forget the shared factory: the next ``get_default`` makes another. ``close`` the old one before that."""
        with cls._choosing:
            cls._default = None

    @property
    def is_level0(self) -> bool:
        """Whether no database URL is configured."""
        return self._database_url is None

    @property
    def database_url(self) -> str | None:
        """The database URL as it was given or found, password included; None at Level 0."""
        return self._database_url

    @property
    def level(self) -> int:
        """0 without a database, 1 with one, 2 if the task queue has a URL of its own."""
        if self._queue_url is not None:
            return 2
        return 0 if self.is_level0 else 1

    async def initialize(self) -> None:
        """Open the database and bring its tables up to date; a second call changes nothing.

        Every ``create_`` method does it too. ``SchemaTooNew`` if a newer release has migrated the database: nothing is
        touched then. At Level 0 there is nothing to do.
        """
        async with self._turn:
            await self._place()

    async def close(self) -> None:
        """Finish what is being written and end all connections; a second call changes nothing.

        The stores that were made are closed. The factory may be used again and then makes others; what was in memory
        is gone.
        """
        async with self._turn:
            opened, self._opened = self._opened, AsyncExitStack()
            self._stores = self._queue = self._redis_locks = None
            self._links = {}
            await opened.aclose()

    async def create_event_store(self) -> DBEventStoreBackend:
        """Return the event log: in the database, or in a SQLite file."""
        return await self._made(lambda stores: stores.events)

    async def create_checkpoint_store(self) -> CheckpointStore:
        """Return the checkpoint store: in the database, or in files."""
        return await self._made(lambda stores: stores.checkpoints)

    async def create_dlq(self) -> DBDeadLetterQueue:
        """Return the dead letter queue: in the database, or in a SQLite file."""
        return await self._made(lambda stores: stores.dead_letters)

    async def create_execution_store(self) -> ExecutionStore:
        """Return the execution store: in the database, or in memory."""
        return await self._made(lambda stores: stores.executions)

    async def create_idempotency_store(self) -> DBIdempotencyStore | None:
        """Return the idempotency store of the database; None at Level 0, where there is none."""
        if self.is_level0:
            return None
        async with self._turn:
            stores = await self._place()
            return stores.idempotency

    async def create_task_queue(self) -> TaskQueue | None:
        """Return the task queue: where the queue URL says, else in the database; None if there is neither."""
        async with self._turn:
            if self._queue_url is None or self._queue_url == self._database_url:
                stores = await self._place()
                return stores.tasks
            if self._queue is None:
                self._queue = await self._queue_at(self._queue_url)
            return self._queue

    async def create_lock_store(self, backend: str | None = None) -> DistributedLock:
        """Return the lock store: in the database, or in a SQLite file.

        *backend* "sql" is the same; "redis" is Redis at the queue URL, if it is one, else at ``REDIS_URL``.
        """
        if backend not in {None, "sql", "redis"}:
            raise ConfigurationError(f"There is no lock store {backend!r}: choose 'sql' or 'redis'.")
        if backend != "redis":
            return await self._made(lambda stores: stores.locks)
        async with self._turn:
            if self._redis_locks is None:
                self._redis_locks = await self._locks_in_redis()
            return self._redis_locks

    @property
    def _turn(self) -> asyncio.Lock:
        """One at a time opens and closes; after a ``close`` perhaps on another loop."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            if self._stores is not None or self._queue is not None or self._links:
                raise WrongLoop(
                    "The stores of this StoreFactory were opened on another event loop: close() it there, before that "
                    "loop ends, and it may be used on this one; or make another StoreFactory here."
                )
            self._turns = (loop, asyncio.Lock())
        return self._turns[1]

    async def _made(self, choose: Callable[[DatabaseStores | LocalStores], S]) -> S:
        async with self._turn:
            stores = await self._place()
            return await stores.ready(choose(stores))

    async def _place(self) -> DatabaseStores | LocalStores:
        """Open what the stores stand on, unless it is open."""
        if self._stores is None:
            if self._database_url is None:
                local = LocalStores(self._folder, world=self._world)
                self._opened.push_async_callback(local.close)
                self._stores = local
            else:
                self._stores = await self._stores_at(self._database_url)
        return self._stores

    async def _stores_at(self, url: str) -> DatabaseStores:
        async with AsyncExitStack() as undo:
            manager = ConnectionManager(url, **self._connection)
            undo.push_async_callback(manager.close)
            await Migrator(manager, schema=self._schema).migrate()
            stores = DatabaseStores(manager, **self._options)
            await stores.open()
            undo.push_async_callback(stores.close)
            self._opened.push_async_exit(undo.pop_all())
        return stores

    async def _queue_at(self, url: str) -> TaskQueue:
        if not url.startswith(REDIS_SCHEMES):
            return (await self._stores_at(url)).tasks
        from holdfast.stores.tasks.redis import RedisTaskQueue  # noqa: PLC0415 -- an extra

        letters = None if self.is_level0 else (await self._place()).dead_letters
        queue = RedisTaskQueue(await self._link(url), dead_letters=letters, world=self._world)
        await queue.initialize()
        self._opened.push_async_callback(queue.close)
        return queue

    async def _locks_in_redis(self) -> DistributedLock:
        from holdfast.stores.locks.redis import RedisLockStore  # noqa: PLC0415 -- an extra

        named = self._queue_url if (self._queue_url or "").startswith(REDIS_SCHEMES) else os.environ.get("REDIS_URL")
        if not named:
            raise ConfigurationError(
                "A lock store in Redis needs to know where Redis is: set HOLDFAST_QUEUE_URL or REDIS_URL to its URL."
            )
        locks = RedisLockStore(await self._link(named), world=self._world)
        await locks.initialize()
        self._opened.push_async_callback(locks.close)
        return locks

    async def _link(self, url: str) -> RedisLink:
        from holdfast.stores.redis import RedisLink  # noqa: PLC0415 -- an extra

        if url not in self._links:
            link = RedisLink(url)
            await link.initialize()
            self._opened.push_async_callback(link.close)
            self._links[url] = link
        return self._links[url]


def _given(value: str | os.PathLike[str] | None, *names: str) -> str | None:
    """Return *value* if it is given, else the first variable of *names* that the environment has and is not empty."""
    text = None if value is None else os.fspath(value)
    return text or next((found for name in names if (found := os.environ.get(name))), None)


__all__ = ["StoreFactory"]
