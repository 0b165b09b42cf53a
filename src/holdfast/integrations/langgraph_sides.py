"""Where a saver's checkpoints go: which backend a URL names, and the short way for puts of sync graphs."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db import ConnectionManager, DatabaseURL
from holdfast.db.session import run_sync
from holdfast.db.settings import LARGE_PAGES
from holdfast.errors import InvalidURL
from holdfast.stores.driven import Driven
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_url import REDIS_SCHEMES
from holdfast.stores.sides import Sides
from holdfast.stores.threads import SQLThreads
from holdfast.stores.threads.redis_threads import RedisThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from holdfast.stores.threads import Found, LargeValue, Place, Saved, Threads, Walk, Write
    from holdfast.stores.threads.sqlite_reader import SqliteReader

T = TypeVar("T")


class SaverSides(Sides["Threads"]):
    """The threads at a URL, for sync and async calls."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        address = os.fspath(url)
        if address.startswith("file:"):
            raise InvalidURL(
                "The saver has no files of its own, since a checkpoint and its values must be written together: "
                "write sqlite:///path.db for a file."
            )
        in_redis = address.startswith(REDIS_SCHEMES)

        def made() -> SQLThreads | RedisThreads:
            return RedisThreads(RedisLink(address)) if in_redis else SQLThreads(_manager(address))

        super().__init__(
            lambda: _opened(made(), reading=False),
            one=not in_redis and DatabaseURL.parse(address).in_memory,
            let_go=_let_go,
        )
        self._writing = threading.Lock()
        self._reads: Driven[Threads] = Driven(lambda: _opened(made(), reading=True))

    def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, from a thread that may wait."""
        reader = self._reader()
        if reader is not None:
            return reader.find(thread_id, checkpoint_ns, checkpoint_id)
        return self._read(lambda threads: threads.find(thread_id, checkpoint_ns, checkpoint_id))

    def listed(self, walk: Walk) -> Iterator[Found]:
        """Yield what is wanted of the next page of *walk*, from a thread that may wait."""
        reader = self._reader()
        if reader is None:
            yield from walk.taken(self._read(walk.read))
            return
        for seen in walk.taken(reader.page(*walk.next_page())):
            found = reader.filled(seen)
            if found is not None:
                yield found

    def close(self) -> None:
        """End what sync calls have opened, and what closed loops have left open; it opens again when used."""
        self._reads.close()
        super().close()

    def _reader(self) -> SqliteReader | None:
        threads = self.blocking()
        return threads.reader if isinstance(threads, SQLThreads) else None

    def _read(self, work: Callable[[Threads], Coroutine[Any, Any, T]]) -> T:
        threads = self.blocking()
        if isinstance(threads, SQLThreads) and threads.serves_threads:
            return run_sync(work(threads.on_thread))
        return self.call(work) if self._one else self._reads.call(work, self.call)

    def put(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Store a checkpoint, from a thread that may wait; False as ``Threads.put``."""
        threads = self.blocking()
        if isinstance(threads, SQLThreads):
            alone = self._may_be_alone(threads) and self._alone(lambda here: here.put_alone(saved, values))
            return alone or threads.put_blocking(saved, values)
        return self.call(lambda threads: threads.put(saved, values))

    def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store writes, from a thread that may wait."""
        threads = self.blocking()
        if isinstance(threads, SQLThreads):
            if not (self._may_be_alone(threads) and self._alone(lambda here: here.put_writes_alone(place, writes))):
                threads.put_writes_blocking(place, writes)
        else:
            self.call(lambda threads: threads.put_writes(place, writes))

    def _may_be_alone(self, threads: SQLThreads) -> bool:
        return not (threads.reader is not None or self._one or threads.pipeline.unsettled)

    def _alone(self, work: Callable[[SQLThreads], Coroutine[Any, Any, bool]]) -> bool:
        """Write on this thread, if nobody else of this saver writes; False if the pipeline is to do it."""
        threads = self.blocking()
        if isinstance(threads, SQLThreads) and threads.serves_threads:
            if not self._writing.acquire(blocking=False):
                return False
            try:
                return run_sync(work(threads.on_thread))
            finally:
                self._writing.release()

        async def written(here: Threads) -> bool:
            return isinstance(here, SQLThreads) and await work(here)

        return self._reads.call(written, lambda _: False)


async def _opened(threads: SQLThreads | RedisThreads, *, reading: bool) -> Threads:
    try:
        await (threads.connect() if reading and isinstance(threads, SQLThreads) else threads.initialize())
    except BaseException:
        await threads.close()
        raise
    return threads


def _let_go(threads: Threads) -> None:
    if isinstance(threads, SQLThreads):
        threads.let_go()


def _manager(address: str) -> ConnectionManager:
    """Return a manager whose sessions find rows by their keys: plans are made once, not for each checkpoint.

    Checkpoints are large beside rows of workflows: a file that is made for them has pages to fit.
    """
    manager = ConnectionManager(address)
    manager.settings = replace(manager.settings, lookups=True, page_bytes=LARGE_PAGES)
    return manager
