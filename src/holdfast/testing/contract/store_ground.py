"""Where the suites of the stores play: a backend, a colour, and a clock that the test moves.

A suite is written once, against the async face of a store. In the sync colour the store's sync class stands behind
that face; every task of the test then has a thread of its own, as a program without an event loop would.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.db.portal import Portal
from holdfast.stores.redis import RedisLink
from holdfast.testing.colours import Colour
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

T = TypeVar("T")


@dataclass(frozen=True)
class StoreVenue:
    """A backend in a colour: "sqlite", "postgres" or "mariadb" with a database's URL, "redis", "memory" or "file".

    The URL of "file" is an empty folder; "memory" has none.
    """

    name: str
    url: str
    colour: Colour

    @property
    def is_sql(self) -> bool:
        """Whether it is a database that speaks SQL."""
        return self.name in {"sqlite", "postgres", "mariadb"}

    def play(self, scene: Callable[[Ground], Coroutine[Any, Any, T]], *, empty: Iterable[str] = ()) -> T:
        """Run *scene* on a loop of its own; the tables named in *empty* have no row at its beginning."""

        async def main() -> T:
            async with self.ground(empty=empty) as ground:
                return await scene(ground)

        return asyncio.run(main())

    @asynccontextmanager
    async def ground(self, *, empty: Iterable[str] = ()) -> AsyncIterator[Ground]:
        """Open what stores of this backend stand on, and close it afterwards."""
        async with AsyncExitStack() as afterwards:
            ground = Ground(self, afterwards)
            await ground.open(empty)
            yield ground


@dataclass
class Ground:
    """What a store is made from, in a test.

    ``manager`` for SQL stores, ``link`` for Redis stores, ``folder`` for files; ``world`` and ``clock_offset_ms`` go
    to the store's options of these names, and ``prefix`` is one no other test has.
    """

    venue: StoreVenue
    afterwards: AsyncExitStack
    world: VirtualWorld = field(default_factory=VirtualWorld)
    prefix: str = field(default_factory=lambda: f"t{secrets.token_hex(6)}")
    portal: Portal = field(default_factory=Portal)
    clock_offset_ms: str | None = None
    clock_offset_key: str | None = None
    _aside: ConnectionManager | None = None

    @property
    def colour(self) -> Colour:
        """The colour of the test."""
        return self.venue.colour

    @property
    def folder(self) -> Path:
        """The folder of a store of files."""
        return Path(self.venue.url)

    async def open(self, empty: Iterable[str]) -> None:
        """Bring the tables up to date, empty those named, and set the clock right."""
        if self.colour is Colour.SYNC:
            self.portal.start()
            self.afterwards.callback(self.portal.stop)
        if self.venue.is_sql:
            self._aside = await self.afterwards.enter_async_context(ConnectionManager(self.venue.url))
            await Migrator(self._aside, schema=SCHEMA).migrate()
            await self._begin_clock(self._aside)
            for table in empty:
                await self._aside.execute(f"DELETE FROM {self.table(table)}")
        elif self.venue.name == "redis":
            self.clock_offset_key = f"{{{self.prefix}}}:clock"

    def table(self, name: str) -> str:
        """Return how a table of ours is written in plain SQL."""
        return f"{SCHEMA}.{name}" if self.venue.name == "postgres" else name

    async def manager(self) -> ConnectionManager:
        """Return one more open manager, on the loop that stores of this colour live on."""
        manager = ConnectionManager(self.venue.url)
        await self.on_loop(manager.initialize())
        self.afterwards.push_async_callback(self._ended, manager.close)
        return manager

    async def link(self) -> RedisLink:
        """Return one more open link to Redis, on the loop that stores of this colour live on."""
        link = RedisLink(self.venue.url, clock_offset_key=self.clock_offset_key)
        await self.on_loop(link.initialize())
        self.afterwards.push_async_callback(self._ended, link.close)
        return link

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the loop that stores of this colour live on."""
        return await work if self.colour is Colour.ASYNC else await asyncio.to_thread(self.portal.call, work)

    def face(self, store: Any, blocking: Callable[[Any, Portal], Any]) -> Any:
        """Return *store*, or in the sync colour its sync class behind the same async face."""
        if self.colour is Colour.ASYNC:
            return store
        threaded = Threaded(blocking(store, self.portal))
        self.afterwards.callback(threaded.end)
        return threaded

    async def advance(self, seconds: float) -> None:
        """Move the clock of the backend, and of the world."""
        await self._set_clock(seconds)
        await self.world.advance(seconds)

    async def set_back(self, seconds: float) -> None:
        """Set the clock of the backend back, and that of the world, without letting time pass."""
        await self._set_clock(-seconds)
        self.world.set_clock(self.world.now() - seconds)

    async def _set_clock(self, seconds: float) -> None:
        milliseconds = round(seconds * 1000)
        if self._aside is not None:
            await self._aside.execute("UPDATE test_clock SET ms = ms + ?", milliseconds)
        elif self.clock_offset_key is not None:
            async with RedisLink(self.venue.url) as link:
                await link.client.incrby(self.clock_offset_key, milliseconds)

    async def execute(self, sql: str, *args: Any) -> int:
        """Write with plain SQL, behind the store's back; ``{name}`` is one of our tables."""
        return await self._aside_or_fail().execute(self._named(sql), *args)

    async def fetch(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        """Read with plain SQL; ``{name}`` is one of our tables."""
        return await self._aside_or_fail().fetch(self._named(sql), *args)

    def _aside_or_fail(self) -> ConnectionManager:
        if self._aside is None:
            raise AssertionError(f"{self.venue.name} has no SQL")
        return self._aside

    def _named(self, sql: str) -> str:
        return sql.format_map(_Tables(self))

    async def _begin_clock(self, manager: ConnectionManager) -> None:
        await manager.execute("CREATE TABLE IF NOT EXISTS test_clock (ms BIGINT)")
        if not await manager.execute("UPDATE test_clock SET ms = 0"):
            await manager.execute("INSERT INTO test_clock VALUES (0)")
        self.clock_offset_ms = "SELECT ms FROM test_clock"

    async def _ended(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self.on_loop(close())


class _Tables(dict[str, str]):
    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self._ground = ground

    def __missing__(self, name: str) -> str:
        return self._ground.table(name)


class Threaded:
    """A sync object behind an async face: each task of the test calls it from a thread of that task's own."""

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking
        self._threads: dict[asyncio.Task[Any], ThreadPoolExecutor] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.blocking, name)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.get_running_loop().run_in_executor(self._thread(), partial(found, *args, **kwargs))

        return call

    def end(self) -> None:
        """End the threads."""
        for thread in self._threads.values():
            thread.shutdown()

    def _thread(self) -> ThreadPoolExecutor:
        task = asyncio.current_task()
        assert task is not None
        if task not in self._threads:
            self._threads[task] = ThreadPoolExecutor(1, thread_name_prefix="store")
            task.add_done_callback(lambda done: self._threads.pop(done).shutdown(wait=False))
        return self._threads[task]


async def cancelled_for_good(work: Any) -> None:
    """Have *work* begin, and cancel it with every round of the loop until it ends, as a cancel scope of anyio does."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()


async def elsewhere(work: Any) -> Any:
    """Do *work* where no token is held: in a task that begins with an empty context, and so in another thread."""
    return await asyncio.get_running_loop().create_task(work, context=contextvars.Context())


__all__ = ["Ground", "StoreVenue", "Threaded", "cancelled_for_good", "elsewhere"]
