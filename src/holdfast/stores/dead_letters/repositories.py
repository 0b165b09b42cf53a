"""The documented repositories: each opens what it stands on, runs in plain threads, and closes it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.manager import ConnectionManager
from holdfast.db.portal import Portal
from holdfast.db.session import run_sync
from holdfast.stores.blocking import refuse_options
from holdfast.stores.dead_letters.blocking import BlockingFailedOperations
from holdfast.stores.dead_letters.memory import AsyncInMemoryFailedOperationRepository
from holdfast.stores.dead_letters.redis import AsyncRedisDLQRepository
from holdfast.stores.dead_letters.sql import AsyncSQLFailedOperationRepository
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_blocking import BlockingRedisLink

if TYPE_CHECKING:
    import os
    from collections.abc import Coroutine

    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

T = TypeVar("T")


class InMemoryFailedOperationRepository(BlockingFailedOperations):
    """Failed operations in the memory of the process, for any number of threads. Gone when the process ends."""

    def __init__(
        self, store: AsyncInMemoryFailedOperationRepository | None = None, portal: Portal | None = None
    ) -> None:
        super().__init__(store or AsyncInMemoryFailedOperationRepository(), portal or Portal())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work)  # a dict is never waited for


class _OnOwnLoop(BlockingFailedOperations):
    """A repository with a loop of its own, unless it is given one."""

    def __init__(
        self,
        store: AsyncFailedOperationRepository,
        base: ConnectionManager | RedisLink | None,
        portal: Portal | None,
    ) -> None:
        super().__init__(store, portal or Portal("holdfast-dead-letters"))
        self._base = base
        self._is_ours = portal is None and not store.at_once
        self._is_open = False
        self._at_once = store.at_once

    def initialize(self) -> None:
        """Open the storage and make it ready; a second call changes nothing. If that fails nothing stays open."""
        begins = not self._is_open
        if self._is_ours:
            self._portal.start()
        self._is_open = True
        try:
            self._begin()
        except BaseException:
            if begins:
                self.close()
            raise

    def _begin(self) -> None:
        if self._base is not None:
            self._call(self._base.initialize())
        super().initialize()

    def close(self) -> None:
        """Finish what is being written, and close what was opened here; a second call changes nothing."""
        if not self._is_open or not (self._at_once or self._portal.is_running):
            return
        self._is_open = False
        super().close()
        if self._base is not None:
            self._call(self._base.close())
        if self._is_ours:
            self._portal.stop()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work) if self._at_once else super()._call(work)


class SQLFailedOperationRepository(_OnOwnLoop):
    """Failed operations in PostgreSQL, MariaDB/MySQL or SQLite, for any number of threads.

    *source* is the URL of the database; or an async repository, whose loop is *portal*'s. The options are those of
    ``AsyncSQLFailedOperationRepository``. Open it with ``initialize``, or in a ``with`` block.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | AsyncSQLFailedOperationRepository,
        portal: Portal | None = None,
        **options: Any,
    ) -> None:
        if isinstance(source, AsyncSQLFailedOperationRepository):
            refuse_options(source, options)
            manager, store = None, source
        else:
            manager = ConnectionManager(source)
            store = AsyncSQLFailedOperationRepository(manager, **options)
        super().__init__(store, manager, portal)
        self._sql = store

    def _begin(self) -> None:
        super()._begin()
        self._near = self._call(self._sql.for_threads())

    def close(self) -> None:
        self._near = self._store
        super().close()

    def _change(self, work: Coroutine[Any, Any, T]) -> T:
        return super()._change(work) if self._near is self._store else run_sync(work)


class RedisDLQRepository(_OnOwnLoop):
    """Failed operations in Redis, for any number of threads.

    *source* is the URL of the server, or of a cluster; or an async repository, whose loop is *portal*'s. The options
    are those of ``AsyncRedisDLQRepository``. Open it with ``initialize``, or in a ``with`` block.
    """

    def __init__(self, source: str | AsyncRedisDLQRepository, portal: Portal | None = None, **options: Any) -> None:
        if isinstance(source, AsyncRedisDLQRepository):
            refuse_options(source, options)
            super().__init__(source, None, portal)
        else:
            link = RedisLink(source) if "+cluster://" in str(source) else BlockingRedisLink(source)
            super().__init__(AsyncRedisDLQRepository(link, **options), link, portal)


__all__ = ["InMemoryFailedOperationRepository", "RedisDLQRepository", "SQLFailedOperationRepository"]
