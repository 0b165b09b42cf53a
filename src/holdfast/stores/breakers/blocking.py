"""The repositories of breakers for code without an event loop: one line a method over the async ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.manager import ConnectionManager
from holdfast.db.portal import Portal
from holdfast.db.session import run_sync
from holdfast.stores.blocking import Blocking, refuse_options
from holdfast.stores.breakers.documented import CircuitBreakerStateRepository
from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository
from holdfast.stores.breakers.redis_store import AsyncRedisCircuitBreakerStateRepository
from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    import os
    from collections.abc import Coroutine
    from datetime import datetime, timedelta
    from typing import Self

    from holdfast.model.breaker import (
        CircuitBreakerChange,
        CircuitBreakerCloseAttempt,
        CircuitBreakerOpenAttempt,
        CircuitBreakerStateData,
        OpenTime,
    )
    from holdfast.model.world import World
    from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository

T = TypeVar("T")


class BlockingBreakers(Blocking, CircuitBreakerStateRepository):
    """Any async repository, *store*, which lives on the loop of *portal*; open within a ``with`` block.

    One that was given is its owner's to open and close: then the block has nothing to do.
    """

    def __init__(self, store: AsyncCircuitBreakerStateRepository, portal: Portal) -> None:
        super().__init__(portal)
        self.store = store
        self.portal = portal

    def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""

    def close(self) -> None:
        """Finish what is being written, and close what was opened here; a second call changes nothing."""

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_or_create(self, service_name: str) -> CircuitBreakerStateData:
        return self._call(self.store.get_or_create(service_name))

    def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        return self._call(self.store.get_by_service_name(service_name))

    def get_all_states(self) -> list[CircuitBreakerStateData]:
        return self._call(self.store.get_all_states())

    def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        return self._call(self.store.get_open_states(limit))

    def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        return self._call(self.store.get_history(service_name, limit))

    def update_state(
        self,
        service_name: str,
        state: str,
        failure_count: int | None = None,
        success_count: int | None = None,
        opened_at: datetime | None = None,
        last_failure_at: datetime | None = None,
        half_open_request_count: int | None = None,
        reset_half_open_count: bool = False,
    ) -> bool:
        return self._call(
            self.store.update_state(
                service_name,
                state,
                failure_count,
                success_count,
                opened_at,
                last_failure_at,
                half_open_request_count,
                reset_half_open_count,
            )
        )

    def record_failure(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        return self._call(self.store.record_failure(service_name, token=token))

    def record_success(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        return self._call(self.store.record_success(service_name, token=token))

    def record_success_with_close_check(
        self, service_name: str, success_threshold: int, *, token: str | None = None
    ) -> CircuitBreakerCloseAttempt:
        return self._call(self.store.record_success_with_close_check(service_name, success_threshold, token=token))

    def record_failure_with_open_check(
        self, service_name: str, *, open_time: OpenTime | None = None, error: str = "", token: str | None = None
    ) -> CircuitBreakerOpenAttempt | None:
        return self._call(
            self.store.record_failure_with_open_check(service_name, open_time=open_time, error=error, token=token)
        )

    def trip_to_open(
        self,
        service_name: str,
        failure_count: int = 0,
        *,
        open_time: OpenTime | None = None,
        error: str = "",
        reporter: str = "",
        quorum: int = 1,
        within: timedelta | None = None,
    ) -> CircuitBreakerOpenAttempt:
        return self._call(
            self.store.trip_to_open(
                service_name,
                failure_count,
                open_time=open_time,
                error=error,
                reporter=reporter,
                quorum=quorum,
                within=within,
            )
        )

    def set_manual_control(
        self,
        service_name: str,
        state: str,
        controlled_by_id: int | None = None,
        reason: str = "",
        expires_at: datetime | None = None,
        *,
        controlled_by: str = "",
    ) -> bool:
        return self._call(
            self.store.set_manual_control(
                service_name, state, controlled_by_id, reason, expires_at, controlled_by=controlled_by
            )
        )

    def clear_manual_control(self, service_name: str, preserve_reason: bool = False) -> bool:
        return self._call(self.store.clear_manual_control(service_name, preserve_reason))

    def reset(self, service_name: str) -> bool:
        return self._call(self.store.reset(service_name))

    def delete_state(self, service_name: str) -> bool:
        return self._call(self.store.delete_state(service_name))

    def atomic_force_open(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        ttl_minutes: float | None = 90,
        *,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        return self._call(
            self.store.atomic_force_open(
                service_name, reason, controlled_by_id, ttl_minutes, controlled_by=controlled_by
            )
        )

    def atomic_force_close(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        *,
        ttl_minutes: float | None = None,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        return self._call(
            self.store.atomic_force_close(
                service_name, reason, controlled_by_id, ttl_minutes=ttl_minutes, controlled_by=controlled_by
            )
        )

    def atomic_reset(
        self, service_name: str, reason: str = "", controlled_by_id: int | None = None, *, controlled_by: str = ""
    ) -> tuple[bool, str, str]:
        return self._call(self.store.atomic_reset(service_name, reason, controlled_by_id, controlled_by=controlled_by))

    def try_acquire_half_open_slot(
        self,
        service_name: str,
        limit: int,
        stuck_timeout_seconds: float,
        *,
        token: str | None = None,
        epoch: int | None = None,
    ) -> tuple[bool, str, str]:
        return self._call(
            self.store.try_acquire_half_open_slot(service_name, limit, stuck_timeout_seconds, token=token, epoch=epoch)
        )

    def release_half_open_slot(self, service_name: str, *, token: str | None = None) -> bool:
        return self._call(self.store.release_half_open_slot(service_name, token=token))

    def reset_half_open_count(self, service_name: str) -> None:
        return self._call(self.store.reset_half_open_count(service_name))


class InMemoryCircuitBreakerStateRepository(BlockingBreakers):
    """The repository in a dict, for one process and all its threads."""

    def __init__(
        self,
        store: AsyncInMemoryCircuitBreakerStateRepository | None = None,
        portal: Portal | None = None,
        *,
        world: World | None = None,
    ) -> None:
        super().__init__(store or AsyncInMemoryCircuitBreakerStateRepository(world=world), portal or Portal())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work)  # a dict is never waited for


class _OnOwnLoop(BlockingBreakers):
    """A repository with a loop of its own, unless it is given one."""

    store: AsyncSQLCircuitBreakerStateRepository | AsyncRedisCircuitBreakerStateRepository

    def __init__(
        self,
        store: AsyncSQLCircuitBreakerStateRepository | AsyncRedisCircuitBreakerStateRepository,
        base: ConnectionManager | RedisLink | None,
        portal: Portal | None,
    ) -> None:
        super().__init__(store, portal or Portal("holdfast-breakers"))
        self._base = base
        self._is_ours = portal is None

    def initialize(self) -> None:
        """Open the storage and make it ready; a second call changes nothing. If that fails nothing stays open."""
        begins = self._is_ours and not self.portal.is_running
        if begins:
            self.portal.start()
        try:
            if self._base is not None:
                self._call(self._base.initialize())
            self._call(self.store.initialize())
        except BaseException:
            if begins:
                self.close()
            raise

    def close(self) -> None:
        """Finish what is being written, and close what was opened here; a second call changes nothing."""
        if not self.portal.is_running:
            return
        self._call(self.store.close())
        if self._base is not None:
            self._call(self._base.close())
        if self._is_ours:
            self.portal.stop()


class SQLCircuitBreakerStateRepository(_OnOwnLoop):
    """The repository in PostgreSQL, MariaDB/MySQL or SQLite, for any number of threads.

    *source* is the URL of the database; or an async repository, whose loop is *portal*'s. The options are those of
    ``AsyncSQLCircuitBreakerStateRepository``. Open it with ``initialize``, or in a ``with`` block.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | AsyncSQLCircuitBreakerStateRepository,
        portal: Portal | None = None,
        **options: Any,
    ) -> None:
        if isinstance(source, AsyncSQLCircuitBreakerStateRepository):
            refuse_options(source, options)
            super().__init__(source, None, portal)
        else:
            manager = ConnectionManager(source)
            super().__init__(AsyncSQLCircuitBreakerStateRepository(manager, **options), manager, portal)


class RedisCircuitBreakerStateRepository(_OnOwnLoop):
    """The repository in Redis, for any number of threads.

    *source* is the URL of the server, or of a cluster; or an async repository, whose loop is *portal*'s. The options
    are those of ``AsyncRedisCircuitBreakerStateRepository``. Open it with ``initialize``, or in a ``with`` block.
    """

    def __init__(
        self, source: str | AsyncRedisCircuitBreakerStateRepository, portal: Portal | None = None, **options: Any
    ) -> None:
        if isinstance(source, AsyncRedisCircuitBreakerStateRepository):
            refuse_options(source, options)
            super().__init__(source, None, portal)
        else:
            link = RedisLink(source)
            super().__init__(AsyncRedisCircuitBreakerStateRepository(link, **options), link, portal)


__all__ = [
    "BlockingBreakers",
    "InMemoryCircuitBreakerStateRepository",
    "RedisCircuitBreakerStateRepository",
    "SQLCircuitBreakerStateRepository",
]
