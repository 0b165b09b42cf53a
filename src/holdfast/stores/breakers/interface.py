"""``AsyncCircuitBreakerStateRepository``: what a storage of breakers must do, whoever writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from holdfast.model.breaker import (
        CircuitBreakerChange,
        CircuitBreakerCloseAttempt,
        CircuitBreakerOpenAttempt,
        CircuitBreakerStateData,
        OpenTime,
    )


class Watcher(Protocol):
    """Somebody who goes by the state of a breaker; called on the storage's loop, must not wait or raise."""

    def seen(self, record: CircuitBreakerStateData | None, now: datetime) -> None:
        """Take notice of the breaker as it is at *now*, by the storage's clock; None if there is none."""

    def away(self, error: Exception) -> None:
        """Take notice that the storage cannot be asked, or this breaker not be read; ``seen`` is called when it can."""

    def ended(self) -> None:
        """Take notice that the repository was closed: nothing is called any more."""


class AsyncCircuitBreakerStateRepository(ABC):
    """The state of circuit breakers by the name of the service they guard.

    Every change is atomic: it is made whole or not at all, and of several who race one wins. Times are the storage's.
    ``token`` names a half-open slot; without it the slot that the same task or thread has acquired is meant.
    """

    @abstractmethod
    async def get_or_create(self, service_name: str) -> CircuitBreakerStateData:
        """Return the state; a breaker that is not there is made, closed."""

    @abstractmethod
    async def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        """Return the state, or None if there is no such breaker."""

    @abstractmethod
    async def get_all_states(self) -> list[CircuitBreakerStateData]:
        """Return all breakers by name; meant for up to about a thousand of them."""

    @abstractmethod
    async def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        """Return the breakers that are open, the one that has been open longest first; at most *limit*."""

    @abstractmethod
    async def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        """Return the last changes of state and of manual control, newest first; at least 500 are kept."""

    @abstractmethod
    async def update_state(
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
        """Write what is given and leave the rest, manual control too; False if there is no such breaker.

        *reset_half_open_count* forgets all trials, and wins over *half_open_request_count*.
        """

    @abstractmethod
    async def record_failure(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        """Count a failure and return the new state, which is as open or closed as before."""

    @abstractmethod
    async def record_success(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        """Count a success and return the new state, which is as open or closed as before."""

    @abstractmethod
    async def record_success_with_close_check(
        self, service_name: str, success_threshold: int, *, token: str | None = None
    ) -> CircuitBreakerCloseAttempt:
        """Count a success, and close a half-open breaker that has *success_threshold* of them.

        ``did_close`` is True for the one caller that closed it. A pinned breaker is not closed.
        """

    @abstractmethod
    async def record_failure_with_open_check(
        self, service_name: str, *, open_time: OpenTime | None = None, error: str = "", token: str | None = None
    ) -> CircuitBreakerOpenAttempt | None:
        """Open a half-open breaker, since a trial failed; any other is left as it is. None if there is none.

        ``did_open`` is True for the one caller that opened it.
        """

    @abstractmethod
    async def trip_to_open(
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
        """Open a closed breaker, once *quorum* different reporters have asked for it *within* that time.

        A breaker that is pinned, open or half-open is left as it is. ``did_open`` is True for the one caller that
        opened it.
        """

    @abstractmethod
    async def set_manual_control(
        self,
        service_name: str,
        state: str,
        controlled_by_id: int | None = None,
        reason: str = "",
        expires_at: datetime | None = None,
        *,
        controlled_by: str = "",
    ) -> bool:
        """Pin the breaker in *state* until *expires_at*, or until somebody says otherwise; made if it is not there."""

    @abstractmethod
    async def clear_manual_control(self, service_name: str, preserve_reason: bool = False) -> bool:
        """Take a pin off, without a change of state; False if there is no such breaker."""

    @abstractmethod
    async def reset(self, service_name: str) -> bool:
        """Close the breaker, forget what was counted and any pin; False if there is no such breaker."""

    @abstractmethod
    async def delete_state(self, service_name: str) -> bool:
        """Remove the breaker and its history; False if there is none."""

    @abstractmethod
    async def atomic_force_open(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        ttl_minutes: float | None = 90,
        *,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        """Open the breaker and pin it for *ttl_minutes*; None, or 0 and less, is for ever. Made if it is not there.

        Return whether it was done, the state before, and the state after.
        """

    @abstractmethod
    async def atomic_force_close(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        *,
        ttl_minutes: float | None = None,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        """Close the breaker and pin it, for ever unless *ttl_minutes* says for how long. Made if it is not there.

        Return whether it was done, the state before, and the state after.
        """

    @abstractmethod
    async def atomic_reset(
        self, service_name: str, reason: str = "", controlled_by_id: int | None = None, *, controlled_by: str = ""
    ) -> tuple[bool, str, str]:
        """Close the breaker, forget what was counted and any pin, and keep the reason.

        Return whether it was done, the state before, and the state after: ``(False, "", "")`` if there is none.
        """

    @abstractmethod
    async def try_acquire_half_open_slot(
        self,
        service_name: str,
        limit: int,
        stuck_timeout_seconds: float,
        *,
        token: str | None = None,
        epoch: int | None = None,
    ) -> tuple[bool, str, str]:
        """Begin a trial, if fewer than *limit* are under way; an open breaker becomes half-open.

        Whoever calls has made sure that an open breaker's time is over; with *epoch* it is refused if it has opened
        anew since that one. Trials whose holders have been silent for longer than *stuck_timeout_seconds* give up
        their slots when no other is left. Return whether a slot was acquired, the state before, and the state after.
        """

    @abstractmethod
    async def release_half_open_slot(self, service_name: str, *, token: str | None = None) -> bool:
        """End a trial that came to nothing; False if its slot is not held any more."""

    @abstractmethod
    async def reset_half_open_count(self, service_name: str) -> None:
        """Forget all trials, without a change of state; nothing happens if there is no such breaker."""

    @abstractmethod
    def watch(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        """Tell *watcher* how the breaker is, soon and after every change; on the loop. Return what ends that."""


__all__ = ["AsyncCircuitBreakerStateRepository", "Watcher"]
